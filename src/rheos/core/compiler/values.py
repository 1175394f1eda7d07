"""Values of a compiled function, and the error for code that cannot be compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import pyarrow as pa

Kind: TypeAlias = Literal[
    "int", "float", "bool", "str", "none", "moment", "duration", "record", "other"
]
"""Kinds of values. "moment" is a datetime in UTC, "duration" a timedelta, "record" a dataclass, and
"other" a column that code only passes on to an output."""

KINDS: dict[type, Kind] = {int: "int", float: "float", bool: "bool", str: "str", type(None): "none"}

PYTHON_NAMES: dict[Kind, str] = {
    "int": "int", "float": "float", "bool": "bool", "str": "str", "none": "None",
    "moment": "datetime", "duration": "timedelta", "record": "a dataclass", "other": "a column",
}  # fmt: skip

ZEROS: dict[Kind, str] = {
    "int": "0",
    "float": "0.0",
    "bool": "False",
    "str": "-1",
    "moment": "0",
    "duration": "0",
}
"""Initial content of a variable without a value."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

TIME_TYPES: dict[pa.DataType, Kind] = {
    pa.timestamp("us", "UTC"): "moment", pa.duration("us"): "duration",
}  # fmt: skip
"""Types of columns whose values are microseconds."""

EXACT_INTEGERS = 1 << 53
"""Bound up to which integers are exact as floats."""

BITS_64 = range(-(1 << 63), 1 << 63)
TOO_LARGE = "an integer that exceeds the 64 bits of compiled functions"
TOO_LARGE_HINT = (
    "use smaller numbers, or run the function without rh.compiled: Python's integers have no limit"
)


class CannotCompile(Exception):  # noqa: N818 - it is not an error where one may interpret instead
    """Code of a method that cannot be compiled."""

    def __init__(self, what: str, line: int, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.hint = hint
        self.file = ""


@dataclass(frozen=True)
class Value:
    """A value in the generated code: a name or a literal, which may be used more than once."""

    kind: Kind
    code: str
    null: str = ""
    """Name of the variable that tells whether the value is None; empty if it never is."""
    column: str | None = None
    """Column of the record that this value passes on unchanged; None for other values."""
    record: RecordParts | None = None
    """Fields of a dataclass; None for other values."""

    @property
    def shown(self) -> str:
        name = PYTHON_NAMES[self.kind] if self.record is None else self.record.cls.__name__
        return f"{name} or None" if self.null and self.kind != "none" else name


NONE = Value("none", "0", "True")


@dataclass(frozen=True)
class RecordParts:
    """The fields of a dataclass, and what else refers to the same object."""

    cls: type
    fields: Mapping[str, Value]
    state: str = ""
    """State whose object this may be; empty for other values."""
    linked: str = "False"
    """Code that tells whether this is the object of the state."""
    variable: str = ""
    """Variable that refers to the object; empty if none does."""


@dataclass(frozen=True)
class EmittedType:
    """The type of an output: its columns, and the required class of its records, if any."""

    schema: pa.Schema
    record: type | None
    takes_tuples: bool = True
    """Whether a tuple of the columns' values is a record."""


@dataclass(frozen=True)
class Variable:
    """A local variable: the kind of its values, and whether it may be None."""

    kind: Kind
    nullable: bool
    column: str | None = None
    record: type | None = None
    """Dataclass of the values; None for other kinds."""
    state: str = ""
    """State whose object the value may be; empty for other values."""

    def joined(self, other: Variable) -> Variable | None:
        """Return a variable that can hold the values of both; None if no kind can."""
        if "none" in (self.kind, other.kind):
            of = other if self.kind == "none" else self
            return replace(of, nullable=True)
        if self.record is not other.record or (self.state and other.state not in ("", self.state)):
            return None
        if self.kind != other.kind or (self.kind == "other" and self.column != other.column):
            return None
        column = self.column if self.kind == "other" else None
        nullable, state = self.nullable or other.nullable, self.state or other.state
        return Variable(self.kind, nullable, column, self.record, state)


def kind_of_column(kind: pa.DataType) -> Kind:
    """Return the kind of a column's values."""
    types = pa.types
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) and not types.is_uint64(kind):
        return "int"
    if types.is_floating(kind):
        return "float"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "str"
    if types.is_dictionary(kind) and kind_of_column(kind.value_type) == "str":
        return "str"
    return TIME_TYPES.get(kind, "other")
