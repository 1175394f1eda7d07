"""Policies for tables that are altered while a source reads their changes. Pure.

A source reads the columns that its program knew when it started. The log describes the table again
before the first change of altered columns. This description is compared with the columns of the source,
and the policy decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from rheos.core.errors import InputError, ProgramError

OnSchemaChange: TypeAlias = Literal["fail", "ignore", "follow"]


class Fit(Enum):
    """Extent to which the source's column can hold values of a logged column."""

    SAME = "the type is unchanged"
    ALL = "all values of the new type"
    SOME = "values that can be converted"
    NONE = "no values"


@dataclass(frozen=True)
class ReadField:
    """A column that the source reads."""

    name: str
    type: str
    """Type in the database when the program started."""
    is_required: bool
    """Whether rows must have the column: it is a part of the key, or not null in `schema=`."""


@dataclass(frozen=True)
class LoggedField:
    """A column of the table, as the log describes it."""

    name: str
    type: str
    fit: Fit
    """Fit to the source's column of the same name; SAME if the source has no such column."""


@dataclass(frozen=True)
class SchemaChange:
    """A change that the running program cannot follow: it continues when it is started again."""

    reason: str


@dataclass(frozen=True)
class SchemaPolicy:
    """The policy of one source."""

    on_change: OnSchemaChange
    table: str
    fields: tuple[ReadField, ...]
    all_columns: tuple[str, ...] | None
    """Columns of the table when the program started, if all are read. None if the user selected
    columns."""

    def places(
        self, logged: Sequence[LoggedField], at: object, *, is_old: bool
    ) -> list[int | None] | SchemaChange:
        """Return the places of the source's columns in rows of the log.

        Args:
            logged: Columns of the rows.
            at: Position in the log, for messages.
            is_old: Whether the rows were written before the program started. Such rows are read by the
                names of their columns under every policy, because the program knows the newer table.

        Returns:
            The places; None for a column that is null in these rows. A `SchemaChange` if the policy is
            "follow" and the program must start again.

        Raises:
            InputError: The policy does not allow the change.
        """
        places = {field.name: place for place, field in enumerate(logged)}
        wrong = self._required(logged, places)
        if not wrong and not is_old:
            wrong = self._changed(logged, places)
            if wrong and self.on_change == "follow":
                return SchemaChange(f"the table {self.table} was altered before {at}: {wrong}")
        if wrong:
            raise InputError(
                f"the table {self.table} was altered while the job ran, before {at}: {wrong}",
                hint="start the job again, which then reads the table as it is now; or write "
                'on_schema_change="follow" or "ignore", or select columns with schema=',
            )
        return [places.get(field.name) for field in self.fields]

    def _required(self, logged: Sequence[LoggedField], places: Mapping[str, int]) -> str:
        """Return what no policy allows, for this program and later ones; "" if nothing."""
        for field in self.fields:
            place = places.get(field.name)
            if place is None:
                if field.is_required:
                    return f"it has no column {field.name!r}, which may not be null ({field.type})"
            elif logged[place].fit is Fit.NONE and self.on_change != "follow":
                return _retyped(field, logged[place])
        return ""

    def _changed(self, logged: Sequence[LoggedField], places: Mapping[str, int]) -> str:
        """Return a change that the program does not know, if the policy takes account of it."""
        if self.on_change == "ignore":
            return ""
        known = None if self.all_columns is None else set(self.all_columns)
        added = [] if known is None else [field for field in logged if field.name not in known]
        for field in self.fields:
            place = places.get(field.name)
            if place is None:
                if self.on_change == "fail":
                    other = f"; new are {_listed(added)}" if added else ""
                    return f"it no longer has the column {field.name!r} ({field.type}){other}"
            elif logged[place].fit in (Fit.SOME, Fit.NONE):
                return _retyped(field, logged[place])
        return f"it has a new column {_listed(added)}" if added else ""


def check_policy(on_schema_change: Any) -> OnSchemaChange:
    """Return the argument `on_schema_change=`.

    Args:
        on_schema_change: The argument.

    Returns:
        The policy.

    Raises:
        ProgramError: No such policy exists.
    """
    if on_schema_change not in get_args(OnSchemaChange):
        raise ProgramError(
            f"on_schema_change={on_schema_change!r} is not known",
            hint='write "fail", "ignore" or "follow"',
        )
    policy: OnSchemaChange = on_schema_change
    return policy


def holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether a type has all values of another one.

    >>> holds(pa.int64(), pa.int32()), holds(pa.int32(), pa.uint32()), holds(pa.float64(), pa.int32())
    (True, False, True)
    >>> holds(pa.decimal128(12, 2), pa.decimal128(10, 2)), holds(pa.string(), pa.int8())
    (True, False)
    """
    kinds = pa.types
    if wide == narrow:
        return True
    if kinds.is_integer(narrow):
        narrow_bits = narrow.bit_width - kinds.is_signed_integer(narrow)
        if kinds.is_integer(wide):
            is_signed = kinds.is_signed_integer(wide)
            if kinds.is_signed_integer(narrow) and not is_signed:
                return False
            return bool(wide.bit_width - is_signed >= narrow_bits)
        if kinds.is_float64(wide):
            return bool(narrow_bits <= 53)
        if kinds.is_decimal(wide):
            return bool(10 ** (wide.precision - wide.scale) > 2**narrow_bits)
        return False
    if kinds.is_decimal(narrow) and kinds.is_decimal(wide):
        return bool(
            wide.scale >= narrow.scale
            and wide.precision - wide.scale >= narrow.precision - narrow.scale
        )
    return bool(kinds.is_float64(wide) and kinds.is_floating(narrow))


def fit_of(logged: pa.DataType, before: pa.DataType, type: pa.DataType) -> Fit:
    """Return what a column of the source can hold of a logged column whose type has changed.

    Args:
        logged: Default Arrow type of the logged column.
        before: Default Arrow type of the table's column when the program started.
        type: Arrow type of the source's column.

    Returns:
        ALL for a type that is not wider than the source's column, also if that is a string by choice.
    """
    kinds = pa.types
    is_bytes = kinds.is_binary(type) or kinds.is_large_binary(type)
    if is_bytes != kinds.is_binary(logged) or (kinds.is_boolean(type) and logged != type):
        return Fit.NONE
    is_text = kinds.is_string(type) or kinds.is_large_string(type)
    return Fit.ALL if holds(type, logged) or (is_text and holds(logged, before)) else Fit.SOME


def _retyped(field: ReadField, logged: LoggedField) -> str:
    return f"the column {field.name!r} has another type: {field.type} became {logged.type}"


def _listed(fields: Sequence[LoggedField]) -> str:
    return ", ".join(f"{field.name!r} ({field.type})" for field in fields)
