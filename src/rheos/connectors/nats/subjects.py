"""Subjects that are built from columns: `orders.{country}`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.errors import InputError, ProgramError
from rheos.core.protocol.elements import Batch

_PART = re.compile(r"\{([^{}]*)\}")
_TOKEN = r"^[^\s.*>\x00-\x1f\x7f]+$"
_SUBJECT = re.compile(r"[^\s.*>{}]+(\.[^\s.*>{}]+)*")
_MOST_CHARACTERS = 1024


@dataclass(frozen=True)
class SubjectPattern:
    """Pattern of subjects: a string with names of columns in braces. A value is one token, or a part
    of it."""

    texts: tuple[str, ...]
    """Constant parts before, between and after the columns."""
    columns: tuple[str, ...]

    @classmethod
    def of(cls, pattern: Any) -> SubjectPattern:
        """Parse a pattern. Raises ProgramError if it is not valid."""
        filled = _PART.sub("x", pattern) if isinstance(pattern, str) else ""
        if _SUBJECT.fullmatch(filled) is None or len(filled) > _MOST_CHARACTERS:
            raise ProgramError(
                f"subject={pattern!r} is not a subject",
                hint='write subject="orders.new", or column names in braces: "orders.{country}"',
            )
        *parts, last = _PART.split(pattern)
        return cls((*parts[::2], last), tuple(parts[1::2]))

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if the columns cannot be parts of subjects."""
        for name in self.columns:
            check_column(schema, "subject", name, _is_part, "a string or an integer")

    def subjects(self, rows: Batch) -> list[str]:
        """Return the subject of each row. Raises InputError, with the row, if a value is no token."""
        if not self.columns:
            return [self.texts[0]] * rows.num_rows
        parts: list[Any] = [self.texts[0]]
        for name, text in zip(self.columns, self.texts[1:], strict=True):
            value = rows.column(name).cast(pa.string())
            fits = pc.fill_null(pc.match_substring_regex(value, _TOKEN), False)
            if (at := pc.index(fits, False).as_py()) >= 0:
                raise InputError(
                    f"the value of {name!r} cannot be a token of the subject {self}",
                    record=shown_row(rows, at),
                    hint="a token is not empty, and has no dots, blanks, * or >. Filter out such rows, "
                    "or replace these characters",
                )
            parts += [value, text]
        subjects: list[str] = pc.binary_join_element_wise(*parts, "").to_pylist()
        if max(map(len, subjects), default=0) > _MOST_CHARACTERS:
            raise InputError(
                f"a subject is longer than {_MOST_CHARACTERS} characters",
                hint="use shorter values, or fewer columns",
            )
        return subjects

    @property
    def any(self) -> str:
        """Return a filter that matches all these subjects."""
        filled = str(self).split(".")
        return ".".join("*" if _PART.search(token) else token for token in filled)

    def __str__(self) -> str:
        names = [*(f"{{{name}}}" for name in self.columns), ""]
        return "".join(text + name for text, name in zip(self.texts, names, strict=True))


def _is_part(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))
