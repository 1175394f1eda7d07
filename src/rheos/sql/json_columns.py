"""Columns of any type as JSON documents: TO_JSON.

Documents are written level by level: the values of a field, of all elements or of all map entries are
one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import polars as pl

from rheos.sql import types, variants
from rheos.sql.json_documents import quoted
from rheos.sql.json_values import json_text

Formats: TypeAlias = Mapping[pl.DataType, pl.Expr]
"""Expressions by the type of a scalar. Each formats or parses the column `SCALAR`."""
SCALAR = "scalar"


def json_texts(columns: Sequence[pl.Series], *, writer: JsonWriter) -> pl.Series:
    """Return the values of a column as JSON."""
    [values] = columns
    return pl.Series(values.name, writer.texts(values), types.TEXT)


@dataclass(frozen=True)
class JsonWriter:
    """Form of JSON documents."""

    keep_nulls: bool = False
    """Whether null fields of structs are written. Null values of maps always are."""
    sort_keys: bool = False
    formats: Formats = field(default_factory=dict)

    def texts(self, values: pl.Series) -> list[str | None]:
        """Return the JSON of each value; None for null."""
        kind = values.dtype
        if kind == types.VARIANT:
            documents = values.struct.field(types.VARIANT.fields[0].name).to_list()
            return [None if each is None else variants.shown(each) for each in documents]
        match kind:
            case pl.Struct():
                return self._structs(values)
            case pl.List():
                lists = self._in_lists(values)
                return [None if each is None else f"[{','.join(each)}]" for each in lists]
            case pl.Map():
                return self._maps(values)
        if (format_ := self.formats.get(kind)) is not None:
            made = values.to_frame(SCALAR).select(format_).to_series()
            return [None if each is None else quoted(each) for each in made.to_list()]
        if kind == pl.Float32():  # The double that is written with the same digits.
            values = values.cast(types.TEXT).cast(types.DOUBLE)
        return [None if each is None else json_text(each) for each in values.to_list()]

    def _structs(self, values: pl.Series) -> list[str | None]:
        names = sorted(values.struct.fields) if self.sort_keys else values.struct.fields
        keys = [f"{quoted(name)}:" for name in names]
        columns = [self.texts(values.struct.field(name)) for name in names]
        rows = zip(*columns, strict=True)
        made: list[str | None] = []
        for there, row in zip(values.is_not_null().to_list(), rows, strict=True):
            members = [
                f"{key}{text or 'null'}"
                for key, text in zip(keys, row, strict=True)
                if self.keep_nulls or text is not None
            ]
            made.append(f"{{{','.join(members)}}}" if there else None)
        return made

    def _maps(self, values: pl.Series) -> list[str | None]:
        frame = values.to_frame(SCALAR)
        keys = frame.select(pl.col(SCALAR).map.keys()).to_series()
        names = self._in_lists(keys)
        members = self._in_lists(frame.select(pl.col(SCALAR).map.values()).to_series())
        made: list[str | None] = []
        for some, texts in zip(names, members, strict=True):
            if some is None or texts is None:
                made.append(None)
                continue
            pairs = zip(map(_key, some), texts, strict=True)
            ordered = sorted(pairs) if self.sort_keys else pairs
            made.append("{" + ",".join(f"{name}:{text}" for name, text in ordered) + "}")
        return made

    def _in_lists(self, values: pl.Series) -> list[list[str] | None]:
        """Return the JSON of the elements of each list; None for a list that is null."""
        texts = iter(self.texts(values.list.explode(empty_as_null=False, keep_nulls=False)))
        return [
            None if size is None else [text or "null" for text in islice(texts, size)]
            for size in values.list.len().to_list()
        ]


def _key(text: str) -> str:
    """Return a scalar in JSON as a key, which is a string."""
    return text if text.startswith('"') else quoted(text)
