"""Conversion of a table's changes to rows: the table's columns, and metadata of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from rheos.connectors.postgres.change_positions import Key, lsn_text
from rheos.connectors.postgres.change_values import from_text, read_as, type_name
from rheos.connectors.postgres.pgoutput import RelationColumn, RelationMessage, Value, Values
from rheos.connectors.schema_changes import (
    Fit,
    LoggedField,
    OnSchemaChange,
    ReadField,
    SchemaChange,
    SchemaPolicy,
    fit_of,
)
from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch

Known: TypeAlias = Literal["op", "before", "commit_time", "lsn", "unchanged"]
Op: TypeAlias = Literal["snapshot", "insert", "update", "delete", "truncate"]


@dataclass(frozen=True)
class ReadColumn:
    """A column of the table that is read."""

    name: str
    type_id: int
    sql_type: str
    """Type as `format_type` writes it, such as "numeric(10,2)"."""
    type: pa.DataType
    is_required: bool = False
    """Whether rows must have the column."""

    @property
    def is_whole(self) -> bool:
        """Whether the column has an integer type. In a key, such a column is compared as a number."""
        return self.sql_type in ("smallint", "integer", "bigint")


@dataclass(frozen=True)
class ChangeRows:
    """Configuration for converting changes to rows. Frozen: it is sent to the workers."""

    table: str
    columns: tuple[ReadColumn, ...]
    all_columns: tuple[str, ...] | None
    """Columns of the table, if all are read: any other column is an error. None if the user selected
    columns."""
    key: tuple[str, ...]
    known: tuple[tuple[Known, str], ...]
    """Metadata fields of a change, and their columns."""
    on_schema_change: OnSchemaChange = "fail"
    known_lsn: int = 0
    """Position in the log when the program started: it knows no later change of the table."""

    def schema(self) -> pa.Schema:
        fields = [pa.field(column.name, column.type) for column in self.columns]
        types: Mapping[Known, pa.DataType] = {
            "op": pa.string(),
            "before": pa.struct(fields),
            "commit_time": pa.timestamp("us", "UTC"),
            "lsn": pa.int64(),
            "unchanged": pa.list_(pa.string()),
        }
        return pa.schema([*fields, *(pa.field(name, types[known]) for known, name in self.known)])

    def key_of(self, values: Sequence[Any]) -> Key:
        """Return the key of a row whose values are in the order of `columns`."""
        found: list[int | str] = []
        for name in self.key:
            place = self.place(name)
            text = values[place]
            if not isinstance(text, str):
                raise InputError(
                    f"a change of {self.table} lacks the key column {name!r}",
                    hint="ALTER TABLE ... REPLICA IDENTITY DEFAULT: changes then include the "
                    "primary key",
                )
            found.append(int(text) if self.columns[place].is_whole else text)
        return tuple(found)

    def moves(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        """Return whether an update is emitted as a deletion and an insertion: it changes the key, and
        the old key would be in no column.
        """
        if any(known == "before" for known, _ in self.known):
            return False
        if not all(isinstance(old[self.place(name)], str) for name in self.key):
            return False  # REPLICA IDENTITY is an index without the key.
        return self.key_of(old) != self.key_of(new)

    def place(self, name: str) -> int:
        return next(place for place, column in enumerate(self.columns) if column.name == name)

    def places(self, relation: RelationMessage, lsn: int) -> list[int | None] | SchemaChange:
        """Return the places of the columns in the relation's rows, as the policy decides.

        Args:
            relation: Columns of the rows.
            lsn: Position at which their transaction commits.

        Returns:
            The places, where None is null; or the change for which the program must start again.

        Raises:
            InputError: The policy does not allow the change.
        """
        columns = {column.name: column for column in self.columns}
        policy = SchemaPolicy(
            self.on_schema_change,
            self.table,
            tuple(ReadField(each.name, each.sql_type, each.is_required) for each in self.columns),
            self.all_columns,
        )
        fields = [_logged(each, columns.get(each.name)) for each in relation.columns]
        return policy.places(fields, lsn_text(lsn), is_old=lsn < self.known_lsn)


def _logged(column: RelationColumn, read: ReadColumn | None) -> LoggedField:
    name, fit = type_name(column.type_id, column.modifier), Fit.SAME
    if read is not None:
        is_same = read.type_id == column.type_id
        if is_same and name.startswith("numeric"):
            is_same = read.sql_type == name
        if not is_same:
            fit = fit_of(read_as(name), read_as(read.sql_type), read.type)
    return LoggedField(column.name, name, fit)


@dataclass
class GatheredChanges:
    """Changes that are collected for a batch."""

    of: ChangeRows
    values: list[list[Value]] = field(init=False)
    before: list[list[Value] | None] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    lsns: list[int] = field(default_factory=list)
    unchanged: list[list[str]] = field(default_factory=list)
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self.values = [[] for _ in self.of.columns]
        self._wants_unchanged = any(known == "unchanged" for known, _ in self.of.known)

    def __len__(self) -> int:
        return len(self.ops)

    def add(self, op: Op, new: Values, before: Values | None, time_us: int, lsn: int) -> None:
        """Add a change. `new` and `before` have a value for each column that is read."""
        unchanged: list[str] = []
        for place, value in enumerate(new):
            if value is None or isinstance(value, str):
                self.size_bytes += len(value or "")
            else:
                old = None if before is None else before[place]
                # With REPLICA IDENTITY FULL the old row contains the unchanged value.
                value = old if isinstance(old, str) else None
                if value is None:
                    unchanged.append(self.of.columns[place].name)
            self.values[place].append(value)
        if unchanged and not self._wants_unchanged:
            raise InputError(
                f"an update of {self.of.table} lacks the large value of {unchanged[0]!r}: "
                "PostgreSQL does not send unchanged large values",
                hint=f"ALTER TABLE {self.of.table} REPLICA IDENTITY FULL, leave out the column with "
                'schema=, or use metadata=["op", "unchanged"], which names such columns',
                record=str(dict(zip((c.name for c in self.of.columns), new, strict=True)))[:500],
            )
        self.before.append(before)
        self.ops.append(op)
        self.times_us.append(time_us)
        self.lsns.append(lsn)
        self.unchanged.append(unchanged)

    def batch(self) -> Batch:
        """Convert the collected changes to a batch. Raises InputError."""
        of, schema = self.of, self.of.schema()
        columns = [self._column(place, values) for place, values in enumerate(self.values)]
        for known, name in of.known:
            type = schema.field(name).type
            match known:
                case "op":
                    columns.append(pa.array(self.ops, type))
                case "commit_time":
                    columns.append(pa.array(self.times_us, pa.int64()).cast(type))
                case "lsn":
                    columns.append(pa.array(self.lsns, type))
                case "unchanged":
                    columns.append(pa.array(self.unchanged, type))
                case "before":
                    columns.append(self._old_rows(type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, place: int, values: Sequence[Value]) -> pa.Array:
        column = self.of.columns[place]
        text = pa.array(values, pa.string())
        return from_text(text, column.type, f"the column {column.name!r} of {self.of.table}")

    def _old_rows(self, type: pa.DataType) -> pa.Array:
        width = len(self.of.columns)
        rows = [
            [v if isinstance(v, str) else None for v in row or [None] * width] for row in self.before
        ]
        parts = [self._column(place, [row[place] for row in rows]) for place in range(width)]
        missing = pa.array([row is None for row in self.before], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=missing)


def snapshot_batch(of: ChangeRows, texts: Sequence[pa.Array], lsn: int, time_us: int) -> Batch:
    """Return rows of the snapshot as changes. `texts` has a string array for each of `columns`."""
    schema, count = of.schema(), len(texts[0]) if texts else 0
    columns = [
        from_text(text, column.type, f"the column {column.name!r} of {of.table}")
        for text, column in zip(texts, of.columns, strict=True)
    ]
    for known, name in of.known:
        type = schema.field(name).type
        match known:
            case "op":
                columns.append(pa.repeat(pa.scalar("snapshot", type), count))
            case "commit_time":
                columns.append(pa.repeat(pa.scalar(time_us, pa.int64()), count).cast(type))
            case "lsn":
                columns.append(pa.repeat(pa.scalar(lsn, type), count))
            case "unchanged":
                columns.append(pa.array([[]] * count, type))
            case "before":
                columns.append(pa.nulls(count, type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
