"""Conversion of a table's rows and changes to rows of the source: the columns, and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from rheos.connectors.database_tables import TableSelection
from rheos.connectors.mysql.binlog_position import Key, LogPlace
from rheos.connectors.mysql.column_families import (
    ColumnFamily,
    ColumnKind,
    ZeroDates,
    arrow_column,
    fit_of_kind,
)
from rheos.connectors.mysql.logged_columns import LoggedColumn
from rheos.connectors.schema_changes import (
    Fit,
    LoggedField,
    OnSchemaChange,
    ReadField,
    SchemaChange,
    SchemaPolicy,
)
from rheos.core.protocol.elements import Batch

Known: TypeAlias = Literal["op", "before", "commit_time", "position"]
Op: TypeAlias = Literal["snapshot", "insert", "update", "delete", "truncate"]
Values: TypeAlias = Sequence[Any]
_VALUE_BYTES = 8
"""Estimated size of a value that is neither a string nor bytes."""


@dataclass(frozen=True)
class SelectedColumn:
    """A column of the table that is read."""

    name: str
    kind: ColumnKind
    type: pa.DataType
    data_type: str
    is_required: bool = False
    """Whether rows must have the column."""

    @property
    def family(self) -> ColumnFamily:
        return self.kind.family


@dataclass(frozen=True)
class TableRows:
    """Configuration for converting changes to rows. Frozen: it is sent to the workers."""

    database: str
    table: str
    columns: tuple[SelectedColumn, ...]
    all_columns: tuple[str, ...] | None
    """Columns of the table, if all are read: any other column is an error. None if the user selected
    columns."""
    key: tuple[str, ...]
    """Columns of the primary key, if the source reads them all; otherwise empty."""
    known: tuple[tuple[Known, str], ...]
    """Metadata fields of a change, and their columns."""
    zero_dates: ZeroDates = "fail"
    on_schema_change: OnSchemaChange = "fail"
    known_at: LogPlace = field(default_factory=LogPlace)
    """Place in the log when the program started: it knows no later change of the table."""
    selection: TableSelection | None = None
    """Tables of the database, whose creation the program must learn; None for none."""

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    def schema(self) -> pa.Schema:
        fields = [pa.field(column.name, column.type) for column in self.columns]
        types: Mapping[Known, pa.DataType] = {
            "op": pa.string(),
            "before": pa.struct(fields),
            "commit_time": pa.timestamp("us", "UTC"),
            "position": pa.string(),
        }
        return pa.schema([*fields, *(pa.field(name, types[known]) for known, name in self.known)])

    def key_of(self, values: Values) -> Key:
        """Return the key of a row whose values are in the order of `columns`."""
        found: list[int | str] = []
        for name in self.key:
            value = values[self.place(name)]
            found.append(value.hex().upper() if isinstance(value, bytes) else value)
        return tuple(found)

    def moves(self, old: Values, new: Values) -> bool:
        """Return whether an update is emitted as a deletion and an insertion: it changes the key, and
        the old key would be in no column."""
        if any(known == "before" for known, _ in self.known):
            return False
        return self.key_of(old) != self.key_of(new)

    def place(self, name: str) -> int:
        return next(place for place, column in enumerate(self.columns) if column.name == name)

    def places(
        self, logged: Sequence[LoggedColumn], place: LogPlace, *, is_old: bool
    ) -> list[int | None] | SchemaChange:
        """Return the places of the columns in rows of the log, as the policy decides.

        Args:
            logged: Columns of the rows.
            place: Place in the log before their transaction.
            is_old: Whether the program knows a newer table.

        Returns:
            The places, where None is null; or the change for which the program must start again.

        Raises:
            InputError: The policy does not allow the change.
        """
        columns = {column.name: column for column in self.columns}
        fields = [
            LoggedField(
                each.name,
                each.kind.name,
                fit_of_kind(each.kind, read.kind, read.type)
                if (read := columns.get(each.name))
                else Fit.SAME,
            )
            for each in logged
        ]
        policy = SchemaPolicy(
            self.on_schema_change,
            str(self),
            tuple(ReadField(each.name, each.kind.name, each.is_required) for each in self.columns),
            self.all_columns,
        )
        return policy.places(fields, place, is_old=is_old)

    def of_families(self, families: Sequence[ColumnFamily]) -> TableRows:
        """Return the configuration for rows whose values are in the form of these families."""
        columns = tuple(
            replace(column, kind=replace(column.kind, family=family))
            for column, family in zip(self.columns, families, strict=True)
        )
        return replace(self, columns=columns)

    def batch(
        self,
        columns: Sequence[Sequence[Any]],
        metadata: Mapping[Known, Sequence[Any]],
        before: Sequence[Values | None],
    ) -> Batch:
        """Return a batch of values by column, with metadata by row. Raises InputError."""
        arrays = [self._column(place, values) for place, values in enumerate(columns)]
        schema = self.schema()
        for known, name in self.known:
            type = schema.field(name).type
            match known:
                case "op" | "position":
                    arrays.append(pa.array(metadata[known], type))
                case "commit_time":
                    arrays.append(pa.array(metadata[known], pa.int64()).cast(type))
                case "before":
                    arrays.append(self._old_rows(before, type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, place: int, values: Sequence[Any]) -> pa.Array:
        column = self.columns[place]
        named = f"the column {column.name!r} of {self}"
        return arrow_column(values, column.family, column.type, self.zero_dates, named)

    def _old_rows(self, before: Sequence[Values | None], type: pa.DataType) -> pa.Array:
        parts = [
            self._column(place, [None if row is None else row[place] for row in before])
            for place in range(len(self.columns))
        ]
        missing = pa.array([row is None for row in before], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=missing)


@dataclass
class ChangeRun:
    """Consecutive changes that are collected for a batch."""

    of: TableRows
    values: list[list[Any]] = field(init=False)
    before: list[Values | None] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    places: list[LogPlace] = field(default_factory=list)
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self.values = [[] for _ in self.of.columns]

    def __len__(self) -> int:
        return len(self.ops)

    def add(self, op: Op, row: Values, before: Values | None, time_us: int, place: LogPlace) -> None:
        """Add a change. `row` and `before` have a value for each column that is read."""
        for column, value in zip(self.values, row, strict=True):
            column.append(value)
            self.size_bytes += len(value) if isinstance(value, str | bytes) else _VALUE_BYTES
        self.before.append(before)
        self.ops.append(op)
        self.times_us.append(time_us)
        self.places.append(place)

    def batch(self) -> Batch:
        """Convert the collected changes to a batch. Raises InputError."""
        metadata: dict[Known, Sequence[Any]] = {
            "op": self.ops,
            "commit_time": self.times_us,
            "position": [str(place) for place in self.places],
        }
        return self.of.batch(self.values, metadata, self.before)


def snapshot_batch(of: TableRows, rows: Sequence[Values], place: LogPlace, time_us: int) -> Batch:
    """Return rows of the snapshot as changes. Raises InputError."""
    count = len(rows)
    metadata: dict[Known, Sequence[Any]] = {
        "op": ["snapshot"] * count,
        "commit_time": [time_us] * count,
        "position": [str(place)] * count,
    }
    columns = [[row[place] for row in rows] for place in range(len(of.columns))]
    return of.batch(columns, metadata, [None] * count)
