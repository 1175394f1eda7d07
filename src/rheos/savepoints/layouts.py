"""What the states of operators look like as DataFrames, and their tables as such rows.

| state | columns, behind those of the key |
|---|---|
| value, reduced record | `value` |
| list | `position`, `value`: a row for each element |
| map | `map_key`, `value`: a row for each entry |
| timers | `timestamp_ms`, `domain` ("event" or "processing") |
| held rows | the columns of the stream |
| running aggregates | a column for each |
| open windows of a function | the pane, and the columns of the stream |
| open windows, aggregated | the pane, and what is known of it so far |
| fired windows, progress, source positions | as they are stored |

The *pane* of a row of window state is `pane_start`, `pane_end` (a slice that every window is a whole
number of; of a tumbling window the window itself), and `first_window_end`: where the first window ends
that takes the row. A sum of integers that is beyond 64 bits there is null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.aggregates import KINDS, Agg, exact_sum
from rheos.connectors.spark.types import spark_arrow_type
from rheos.errors import SchemaError
from rheos.operators.running_state import AGG
from rheos.operators.window.contract import Windows
from rheos.operators.window.frames import KEY, KEY_GROUP
from rheos.operators.window.kinds import stored_windows
from rheos.operators.window.process import STATE as WINDOW_ROWS
from rheos.operators.window.progress import FIRED
from rheos.operators.window.segments import SLICE, VALID
from rheos.operators.window.tables import TotalsTable
from rheos.protocol.elements import MIN_TIMESTAMP_MS
from rheos.protocol.shapes import FieldShape, Holds, StateShape, TypeShape
from rheos.savepoints.arrow_names import arrow_type
from rheos.savepoints.forms import values_of
from rheos.savepoints.keys import KeyColumns, plain_column
from rheos.state.timers import EVENT, NAMESPACE

TOTALS, SUMS = TotalsTable.name, TotalsTable.sums_name

PANE = ("pane_start", "pane_end", "first_window_end")
TIME = pa.timestamp("us", tz="UTC")

EVENT_DOMAIN, PROCESSING_DOMAIN = "event", "processing"


class StateLayout(ABC):
    """Of one state: `schema` is that of the DataFrame."""

    schema: pa.Schema

    @abstractmethod
    def rows(self, table: pa.Table) -> pa.Table:
        """A table of the state as rows of `schema`. Raises UnrestorableError."""


def layout_of(state: str, shapes: Mapping[str, StateShape], *, trusted: bool = False) -> StateLayout:
    """The layout of a state; `shapes` are those of all states of its operator. `trusted`: whether to
    read it may run what it says, where it holds pickled rows.

    Raises SchemaError where a column has a type that no DataFrame has, and where what the state holds
    is not known.
    """
    shape = shapes[state]
    match shape.holds:
        case Holds.VALUE:
            return ValueLayout(state, shape, trusted)
        case Holds.LIST:
            return ListLayout(state, shape, trusted)
        case Holds.MAP:
            return MapLayout(state, shape, trusted)
        case Holds.TIMERS:
            return TimerLayout(shape)
        case Holds.ROWS:
            return _Columns(shape)
        case Holds.RUNNING:
            return _Running(shape)
        case Holds.WINDOW_CONTENT:
            return _window(state, shape, shapes[FIRED])
        case Holds.WINDOWS:
            return _Fired(shape)
        case Holds.PROGRESS:
            return _Progress()
        case Holds.POSITIONS:
            return _Positions()
        case _:
            raise SchemaError(
                f"state {state!r} holds {shape.holds!r}, and this version of Rheos knows no such state",
                hint="read it with the version that wrote it, or a later one",
            )


# --- entries: of declared state and timers ------------------------------------------------------------


class EntryLayout(StateLayout):
    """Of state that is entries of key, namespace and value."""

    def __init__(self, shape: StateShape) -> None:
        self.keys = KeyColumns(shape.key)

    def _keys(self, table: pa.Table) -> list[Any]:
        decode = self.keys.codec.decode
        return [decode(key) for key in table.column("key").to_pylist()]

    def _schema(self, **columns: pa.DataType) -> pa.Schema:
        """The first column that meets a key column of its name gives way."""
        fields = list(self.keys.shown)
        self.names = unique([field.name for field in fields], columns)
        return pa.schema(fields + [pa.field(self.names[c], kind) for c, kind in columns.items()])


class ValueLayout(EntryLayout):
    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        self.values = values_of(state, shape.value, trusted=trusted)
        self.schema = self._schema(value=self.values.kind)

    def rows(self, table: pa.Table) -> pa.Table:
        values = self.values.decode(table.column("value").to_pylist())
        return pa.Table.from_arrays([*self.keys.columns(self._keys(table)), values], schema=self.schema)


class ListLayout(EntryLayout):
    """Tables are to come in their order: a list may go on in the next."""

    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        self.values = values_of(state, shape.value, trusted=trusted)
        self.pickled = shape.value.name == "pickle"
        self._lists = values_of(state, TypeShape(name="list", args=[shape.value]), trusted=trusted)
        self.schema = self._schema(position=pa.int64(), value=self.values.kind)
        self._open: tuple[bytes, int] = (b"", 0)
        """The last key, and how many of its elements came."""

    def rows(self, table: pa.Table) -> pa.Table:
        segments = table.column("value").to_pylist()
        if self.pickled:
            # A pickle is of a whole segment: it is shown as one value.
            lengths = np.ones(len(segments), dtype=np.int64)
            elements = pa.array(segments, pa.binary())
        else:
            lists = self._lists.decode(segments)
            lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
            elements = lists.flatten()
        owner = np.repeat(np.arange(len(lengths)), lengths)
        keys = [column.take(pa.array(owner)) for column in self.keys.columns(self._keys(table))]
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = self._first(table.column("key").to_pylist(), lengths.tolist())
        position = pa.array(np.array(first, dtype=np.int64)[owner] + within)
        return pa.Table.from_arrays([*keys, position, elements], schema=self.schema)

    def _first(self, keys: Sequence[bytes], lengths: Sequence[int]) -> list[int]:
        """The position of each segment's first element. Namespaces give only the order."""
        found = []
        last, count = self._open
        for key, length in zip(keys, lengths, strict=True):
            if key != last:
                last, count = key, 0
            found.append(count)
            count += length
        self._open = last, count
        return found


class MapLayout(EntryLayout):
    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        item, value = shape.value.args
        self.items = values_of(state, item, trusted=trusted)
        self.values = values_of(state, value, trusted=trusted)
        self.schema = self._schema(map_key=self.items.kind, value=self.values.kind)

    def rows(self, table: pa.Table) -> pa.Table:
        return pa.Table.from_arrays(
            [
                *self.keys.columns(self._keys(table)),
                self.items.decode(table.column("namespace").to_pylist()),
                self.values.decode(table.column("value").to_pylist()),
            ],
            schema=self.schema,
        )


class TimerLayout(EntryLayout):
    def __init__(self, shape: StateShape) -> None:
        super().__init__(shape)
        self.schema = self._schema(timestamp_ms=pa.int64(), domain=pa.string())

    def rows(self, table: pa.Table) -> pa.Table:
        timers = [NAMESPACE.unpack(namespace) for namespace in table.column("namespace").to_pylist()]
        domains = [EVENT_DOMAIN if mark == EVENT else PROCESSING_DOMAIN for mark, _ in timers]
        return pa.Table.from_arrays(
            [
                *self.keys.columns(self._keys(table)),
                pa.array([timestamp for _, timestamp in timers], pa.int64()),
                pa.array(domains, pa.string()),
            ],
            schema=self.schema,
        )


# --- columns ------------------------------------------------------------------------------------------


def column_schema(fields: Sequence[FieldShape]) -> pa.Schema:
    """Columns of a stream, as a DataFrame has them."""
    return pa.schema(
        [
            pa.field(field.name, spark_arrow_type(arrow_type(field.type.name), field.name))
            for field in fields
        ]
    )


class _Columns(StateLayout):
    """Rows of the stream."""

    def __init__(self, shape: StateShape) -> None:
        self.schema = column_schema(shape.value.fields)

    def rows(self, table: pa.Table) -> pa.Table:
        return table.select(self.schema.names)


class _Running(StateLayout):
    def __init__(self, shape: StateShape) -> None:
        self._keys = KeyColumns(shape.key)
        fields = list(self._keys.shown)
        self._aggregates: list[tuple[str, type[Agg], pa.DataType]] = []
        names = unique(self._keys.names, [field.name for field in shape.value.fields])
        for field in shape.value.fields:
            agg = _kind_of(field.type.label)
            kind = agg.running_type(arrow_type(field.type.name))
            self._aggregates.append((field.name, agg, kind))
            fields.append(pa.field(names[field.name], spark_arrow_type(kind, field.name)))
        self.schema = pa.schema(fields)

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [_aggregate(table, *aggregate) for aggregate in self._aggregates]
        return pa.table([*self._keys.of_table(table, KEY), *columns], names=self.schema.names)


def _kind_of(label: str) -> type[Agg]:
    """The kind of an aggregate, which was written as "kind(column)"."""
    kind = KINDS.get(label.partition("(")[0])
    if kind is None or not kind.can_run():
        raise SchemaError(
            f"the state holds {label}, and this Rheos knows no such running aggregate",
            hint="read it with the Rheos that wrote it, or a newer one",
        )
    return kind


def _aggregate(table: pa.Table, name: str, agg: type[Agg], kind: pa.DataType) -> pa.Array:
    """The value of a running aggregate, from the parts of its cell."""
    prefix = f"{AGG}{name}."
    parts = {
        column.removeprefix(prefix): plain_column(table, column)
        for column in table.column_names
        if column.startswith(prefix) and "." not in column.removeprefix(prefix)
    }
    return agg.running_value(parts, kind) if parts else pa.nulls(table.num_rows, kind)


# --- windows ------------------------------------------------------------------------------------------


def _window(state: str, shape: StateShape, fired: StateShape) -> StateLayout:
    windows = stored_windows(fired.value.label, _cut_of(fired))
    if state == SUMS:
        return SumsLayout(shape, windows)
    if state == TOTALS:
        return TotalsLayout(shape, windows)
    if state == WINDOW_ROWS:
        return _WindowRows(shape, windows)
    return _Gathered(shape, windows)


def _cut_of(fired: StateShape) -> dict[str, int]:
    fields = fired.value.fields
    return {field.name: int(field.type.label) for field in fields if field.name != "lateness"}


class _Panes(StateLayout):
    def __init__(self, shape: StateShape, windows: Windows) -> None:
        self._keys = KeyColumns(shape.key)
        self._windows = windows

    def _index(self) -> list[pa.Field]:
        self._pane = list(unique(self._keys.names, PANE).values())
        return [*self._keys.shown, *(pa.field(name, TIME) for name in self._pane)]

    def _indexed(self, table: pa.Table) -> list[pa.Array]:
        """Key and pane."""
        slices, valids = (table.column(name).to_numpy() for name in (SLICE, VALID))
        times = [_time(slices), _time(self._windows.pane_end(slices)), _time(valids)]
        return [*self._keys.of_table(table, KEY), *times]


_MOST_MS = 2**63 // 1000 - 1


def _time(ms: Any) -> pa.Array:
    """Points in time; those beyond what a timestamp holds are its ends."""
    return pa.array(np.clip(ms, -_MOST_MS, _MOST_MS) * 1000).view(pa.timestamp("us")).cast(TIME)


class _WindowRows(_Panes):
    """Rows that a function of windows will be given."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        columns = column_schema(shape.value.fields)
        self._stored = [KEY + n if n in self._keys.names else f"row.{n}" for n in columns.names]
        self._pane = list(unique(columns.names, PANE).values())
        self.schema = pa.schema([*columns, *(pa.field(name, TIME) for name in self._pane)])

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [plain_column(table, name) for name in self._stored]
        pane = self._indexed(table)[len(self._keys.names) :]
        return pa.table([*columns, *pane], names=self.schema.names)


class TotalsLayout(_Panes):
    """Partial aggregates with one row per key and pane. Exact sums lie in a state of their own."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        self._fields = {field.name: arrow_type(field.type.name) for field in shape.value.fields}
        self.exact = [name.removeprefix("exactly.") for name in self._fields if _is(name, "exactly")]
        """The columns with exact sums, whose counts are in columns of their own."""
        made: dict[str, pa.DataType] = {}
        for name, kind in self._fields.items():
            part, _, column = name.partition(".")
            if part == "summed":
                made[f"mean_{column}"] = pa.float64()
            elif part == "exactly":
                made[f"exactly {column}"] = pa.int64()
            else:
                made[f"{part}_{column}" if column else part] = spark_arrow_type(kind, name)
        index = self._index()
        self.names = unique([field.name for field in index], made)
        self.schema = pa.schema([*index, *(pa.field(self.names[n], kind) for n, kind in made.items())])

    def exact_of(self, name: str) -> str | None:
        """The column whose exact sum's count this one is; None for others."""
        return next((c for c in self.exact if self.names[f"exactly {c}"] == name), None)

    def rows(self, table: pa.Table) -> pa.Table:
        made: list[pa.Array] = []
        for name in self._fields:
            part, _, column = name.partition(".")
            value = plain_column(table, name)
            if part in ("summed", "sum"):
                count = plain_column(table, f"summed.{column}")
                some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, count.type))
                total, beyond = plain_column(table, f"sum.{column}"), _beyond(table, column)
                if part == "summed":
                    whole = pc.add(
                        total.cast(pa.float64(), safe=False),
                        pc.multiply(beyond.cast(pa.float64(), safe=False), 2.0**64),
                    )
                    value = pc.divide(whole, some.cast(pa.float64()))
                else:
                    known = pc.and_(some.is_valid(), pc.equal(beyond, 0))
                    value = pc.if_else(known, total, pa.scalar(None, total.type))
            made.append(value)
        return pa.table([*self._indexed(table), *made], names=self.schema.names)


def _beyond(table: pa.Table, column: str) -> pa.Array:
    """By how many times 2**64 the sums of a column are beyond 64 bits. State of 0.1.0 does not say."""
    name = f"beyond.{column}"
    if name in table.column_names:
        return pc.fill_null(plain_column(table, name), 0)
    return pa.array(np.zeros(table.num_rows, dtype=np.int64))


def _is(name: str, part: str) -> bool:
    return name.partition(".")[0] == part


class SumsLayout(_Panes):
    """Exact sums of floats, a row for each column that was summed."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        index = self._index()
        made = {"column": pa.string(), "sum": pa.float64()}
        names = unique([field.name for field in index], made)
        self.schema = pa.schema([*index, *(pa.field(names[n], kind) for n, kind in made.items())])

    def rows(self, table: pa.Table) -> pa.Table:
        frame = pl.DataFrame(table)
        by = [*(KEY + name for name in self._keys.names), SLICE, VALID, "column"]
        sums = frame.select(by).unique(maintain_order=True).with_row_index("at")
        placed = frame.join(sums, on=by, how="left", maintain_order="left")
        limbs: exact_sum.Limbs = {}
        for (bin,), part in placed.partition_by("bin", as_dict=True).items():
            limb = np.zeros(sums.height, dtype=np.int64)
            np.add.at(limb, part["at"].to_numpy(), part["limb"].to_numpy())
            limbs[int(bin)] = limb
        found = sums.to_arrow(compat_level=pl.CompatLevel.oldest())
        columns = [plain_column(found, "column"), pa.array(exact_sum.evaluate(limbs, sums.height))]
        return pa.table([*self._indexed(found), *columns], names=self.schema.names)


class _Gathered(_Panes):
    """The values that a pane has seen (for quantiles), or the different ones of them."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        (value,) = column_schema(shape.value.fields)
        index = self._index()
        name = unique([field.name for field in index], ["values"])["values"]
        self.schema = pa.schema([*index, pa.field(name, pa.list_(pa.field("element", value.type)))])

    def rows(self, table: pa.Table) -> pa.Table:
        # All of a key and pane are in one piece.
        by = [*(KEY + name for name in self._keys.names), SLICE, VALID]
        gathered = pl.DataFrame(table).group_by(by, maintain_order=True).agg(pl.col("value").sort())
        found = gathered.to_arrow(compat_level=pl.CompatLevel.oldest())
        return pa.table([*self._indexed(found), plain_column(found, "value")], names=self.schema.names)


# --- what is of whole subtasks ------------------------------------------------------------------------


class _Fired(StateLayout):
    """Up to where the windows of key groups have fired, and how they are cut."""

    def __init__(self, shape: StateShape) -> None:
        cut = {f"{name}_ms": pa.int64() for name in _cut_of(shape)}
        stored = {"first_group": pa.int32(), "end_group": pa.int32(), "fired_through": pa.int64()}
        shown = ("first_key_group", "end_key_group", "fired_through_ms")
        behind = cut | {"lateness_ms": pa.int64()}
        self._stored = stored | behind
        self.schema = pa.schema([*zip(shown, stored.values(), strict=True), *behind.items()])

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [
            plain_column(table, name) if name in table.column_names else pa.nulls(table.num_rows, kind)
            for name, kind in self._stored.items()
        ]
        return pa.table(columns, schema=self.schema)


class _Progress(StateLayout):
    """Up to where held rows were delivered."""

    schema = pa.schema([(KEY_GROUP, pa.int32()), ("watermark_ms", pa.int64())])

    def rows(self, table: pa.Table) -> pa.Table:
        groups = table.column(KEY_GROUP).cast(pa.int32())
        return pa.table([groups, table.column("watermark")], schema=self.schema)


class _Positions(StateLayout):
    """How far a source has read."""

    schema = pa.schema(
        [
            ("split", pa.string()),
            ("position", pa.string()),
            ("max_timestamp_ms", pa.int64()),
            ("finished", pa.bool_()),
        ]
    )

    def rows(self, table: pa.Table) -> pa.Table:
        latest = table.column("max_ts").combine_chunks()
        none = pc.equal(latest, MIN_TIMESTAMP_MS)
        return pa.table(
            [
                table.column("split"),
                pa.array(map(_readable, table.column("position").to_pylist()), pa.string()),
                pc.if_else(none, pa.scalar(None, pa.int64()), latest),
                table.column("finished"),
            ],
            schema=self.schema,
        )


def _readable(position: bytes | None) -> str | None:
    """Positions are the connectors' own; most are MessagePack."""
    if position is None:
        return None
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(position)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError):
        return f"0x{position.hex()}"


def unique(taken: Sequence[str], wanted: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Names for these columns that none of the others has, whatever their case."""
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
    """What stands before the names of key columns, in the tables of columnar state."""
    return "" if shape.holds == Holds.ROWS else KEY
