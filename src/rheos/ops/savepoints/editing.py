"""A savepoint derived from another: changes that are declared step by step, and written at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rheos.connectors.spark.spark_types import arrow_schema, spark_schema
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, SchemaError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import FieldShape
from rheos.core.site import located_at_call
from rheos.ops.savepoints.encoding import check_columns, writable_layout
from rheos.ops.savepoints.savepoint_edits import Base, Change, Delete, Drop, Put
from rheos.ops.savepoints.writing import write_changed
from rheos.runtimes.state_tables.key_columns import KeyColumns


@dataclass(frozen=True)
class SavepointEdit:
    """Changes to a savepoint. Each method returns a new edit, and nothing runs before `write`. Changes
    apply in the order of the calls."""

    _spark: SparkSession
    _base: Base
    _changes: tuple[Change, ...] = ()

    def __repr__(self) -> str:
        return f"edit of {self._base.directory}: {len(self._changes)} changes"

    @located_at_call
    def replace(self, operator: str, state: str, rows: DataFrame) -> SavepointEdit:
        """Replace the whole state with the rows. Their columns are those of `sp.state(operator,
        state)`, in any order. Raise SchemaError, with the columns, if they do not match."""
        return self._add_change(put(self._base, self._changes, operator, state, rows, whole=True))

    @located_at_call
    def update(self, operator: str, state: str, rows: DataFrame) -> SavepointEdit:
        """Replace the state of the rows' keys, and keep all other keys. Maps are replaced by entry,
        timers by timer, and lists as the whole list of a key."""
        return self._add_change(put(self._base, self._changes, operator, state, rows, whole=False))

    @located_at_call
    def delete(self, operator: str, keys: DataFrame) -> SavepointEdit:
        """Delete all state of these keys in the operator: declared state, timers, windows, buffered
        rows and aggregates. The columns of `keys` are the operator's key columns, or some of them."""
        id = self._operator(operator)
        fields = _key_of(self._base, id)
        given = _columns(keys)
        names = given.names
        unknown = [name for name in names if name not in {field.name for field in fields}]
        if unknown or not names:
            raise SchemaError(
                f"{', '.join(map(repr, unknown)) or 'no column'} is not a key column of "
                f"operator {id!r}",
                hint=f"it is keyed by {', '.join(field.name for field in fields) or 'nothing'}",
            )
        columns = KeyColumns(fields)
        problems = list(columns.misfits(given, names))
        if problems:
            raise SchemaError(
                f"the keys do not fit operator {id!r}: {'; '.join(problems)}",
                hint="cast the columns to these types",
            )
        return self._add_change(Delete(id, names, keys))

    @located_at_call
    def delete_everywhere(self, keys: DataFrame | None = None, /, **values: Any) -> SavepointEdit:
        """Delete all state of these keys in every operator whose key contains such columns:
        `delete_everywhere(user=42)`, `delete_everywhere(user=[42, 43])`, or a DataFrame.

        State with another key stays, even if its values mention a user, such as entries of a map.

        Raise ConfigurationError if no operator has such a key column.
        """
        names = list(values) if keys is None else _columns(keys).names
        if not names or (keys is not None and values):
            raise ConfigurationError(
                "no keys are specified: name their columns, or pass a DataFrame",
                hint="write delete_everywhere(user=42), or delete_everywhere(keys)",
            )
        edit = self
        dropped = {change.operator for change in self._changes if isinstance(change, Drop)}
        for operator in self._base.catalogue.keyed_by(names):
            if operator not in dropped:
                of_operator = keys if keys is not None else self._frame(operator, values)
                edit = edit.delete(operator, of_operator)
        return edit

    @located_at_call
    def drop(self, operator: str) -> SavepointEdit:
        """Remove the operator's state."""
        return self._add_change(Drop(self._operator(operator)))

    @located_at_call
    def write(self, path: str) -> str:
        """Write the new savepoint into an empty or new folder, and return its path.

        It does not depend on the old one, has its own id, and contains the old contents with the
        changes.

        Raise InputError if a row does not match, and CheckpointError if a file cannot be read or
        written; then the folder is left empty.
        """
        return write_changed(self._spark, self._base, self._changes, path)

    def _add_change(self, change: Change) -> SavepointEdit:
        return replace(self, _changes=(*self._changes, change))

    def _operator(self, asked: str) -> OperatorId:
        return operator_of(self._base, self._changes, asked)

    def _frame(self, operator: OperatorId, values: Mapping[str, Any]) -> DataFrame:
        """Return all combinations of the values, as keys of the operator."""
        columns = KeyColumns(_key_of(self._base, operator)).shown
        frame: DataFrame | None = None
        for name, given in values.items():
            field = pa.schema([columns.field(name)])
            listed = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
            try:
                pa.array(listed, field.field(name).type)
                one = self._spark.createDataFrame([(value,) for value in listed], spark_schema(field))
            except Exception as error:
                raise SchemaError(
                    f"{given!r} is not a key of column {name!r} of operator {operator!r}: {error}",
                    hint=f"pass values of the type {field.field(name).type}",
                ) from error
            frame = one if frame is None else frame.crossJoin(one)
        assert frame is not None
        return frame


def operator_of(base: Base, changes: Iterable[Change], asked: str) -> OperatorId:
    """Return an operator's id. Raise ConfigurationError if it does not exist, or is already dropped."""
    id = base.catalogue.operator(asked)
    if any(isinstance(change, Drop) and change.operator == id for change in changes):
        raise ConfigurationError(
            f"this edit already drops the operator {id!r}", hint="leave out one of the two changes"
        )
    return id


def put(
    base: Base, changes: Iterable[Change], operator: str, state: str, rows: DataFrame, *, whole: bool
) -> Put:
    """Return the change that writes the rows. Raise SchemaError, with the columns, if they do not
    match."""
    id = operator_of(base, changes, operator)
    base.catalogue.shape(id, state)
    try:
        layout = writable_layout(state, base.savepoint.entry.states[id])
    except RheosError as error:
        raise error.located(site=None, operator=id) from None
    given = _columns(rows)
    check_columns(given, layout, f"state {state!r} of operator {id!r}")
    return Put(id, state, rows, given, whole)


def _columns(frame: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame. Raise ProgramError if it is not a DataFrame, or has no end."""
    if not isinstance(frame, DataFrame):
        raise ProgramError(
            f"a Spark DataFrame is needed, but this is a {type(frame).__name__}",
            hint="create one with spark.createDataFrame(...)",
        )
    if frame.isStreaming:
        raise ProgramError(
            "this DataFrame is streaming, but state is created from all rows of a DataFrame",
            hint="pass the rows that have arrived so far: spark.read instead of spark.readStream",
        )
    return arrow_schema(frame.schema)


def _key_of(base: Base, operator: OperatorId) -> Sequence[FieldShape]:
    shapes = base.savepoint.entry.states[operator].values()
    return next((shape.key for shape in shapes if shape.key), [])
