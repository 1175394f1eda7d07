"""The contract of layouts: the columns of one state in a DataFrame, and the conversion to them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rheos.connectors.spark.spark_types import spark_arrow_type
from rheos.core.errors import SchemaError
from rheos.core.operators.window.frames import KEY
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape


class StateLayout(ABC):
    """Layout of one state. `schema` is that of the DataFrame."""

    schema: pa.Schema

    @abstractmethod
    def rows(self, table: pa.Table) -> pa.Table:
        """Return a table of the state as rows of `schema`. Raise UnrestorableError if it is damaged."""


def column_schema(fields: Sequence[FieldShape]) -> pa.Schema:
    """Return the columns of a stream as in a DataFrame."""
    return pa.schema(
        [
            pa.field(field.name, spark_arrow_type(arrow_type(field.type.name), field.name))
            for field in fields
        ]
    )


def unique(taken: Sequence[str], wanted: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Return a name for each wanted column that differs from all others, ignoring case."""
    used = {name.lower() for name in taken}
    names = {}
    for name in wanted:
        free = name
        while free.lower() in used:
            free += "_"
        used.add(free.lower())
        names[name] = free
    return names


def key_prefix(shape: StateShape) -> str:
    """Return the prefix of the names of key columns in the tables of columnar state."""
    return "" if shape.holds == StatePurpose.ROWS else KEY


# --- Arrow types by their names -----------------------------------------------------------------------


_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.*)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_FIXED_BINARY = re.compile(r"fixed_size_binary\[(\d+)\]")
_FIXED_LIST = re.compile(r"fixed_size_list<(.*)>\[(\d+)\]")
_NESTED = re.compile(r"(list|struct|map)<(.*)>")
_NOT_NULL = " not null"


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type with this name. Raise SchemaError if there is no such type."""
    if found := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(found[1], tz=found[2])
    if found := _DECIMAL.fullmatch(name):
        return getattr(pa, f"decimal{found[1]}")(int(found[2]), int(found[3]))
    if found := _FIXED_BINARY.fullmatch(name):
        return pa.binary(int(found[1]))
    if found := _FIXED_LIST.fullmatch(name):
        return pa.list_(_field(found[1], name), int(found[2]))
    if found := _NESTED.fullmatch(name):
        return _nested(found[1], found[2], name)
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise SchemaError(
            f"state has a column of the type {name}, which cannot be shown as a DataFrame",
            hint="read the other states of the operator; jobs can still read this one",
        ) from None


def _nested(kind: str, inside: str, name: str) -> pa.DataType:
    if kind == "list":
        return pa.list_(_field(inside, name))
    parts = list(_split(inside))
    if kind == "struct":
        return pa.struct([_field(part, name) for part in parts])
    key, item = (re.sub(r" \('.*'\)$", "", part) for part in parts[:2])
    return pa.map_(arrow_type(key), arrow_type(item.removesuffix(_NOT_NULL)))


def _field(text: str, name: str) -> pa.Field:
    label, separator, kind = text.partition(": ")
    if not separator:
        raise SchemaError(f"{name!r} is not the name of a type")
    return pa.field(label, arrow_type(kind.removesuffix(_NOT_NULL)), not kind.endswith(_NOT_NULL))


def _split(text: str) -> Iterator[str]:
    """Yield the parts between the commas that are outside of brackets."""
    depth = start = 0
    for at, sign in enumerate(text):
        depth += (sign in "<[(") - (sign in ">])")
        if sign == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()
