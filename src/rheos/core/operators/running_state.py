"""The state of running aggregates: the keys seen so far, a cell per key and aggregate, and the changed
keys.

In a snapshot it is a table with a row per key: `key_group`, the key columns as `key.<name>`, and the
parts of the cells as `agg.<aggregate>.<part>`. A delta has the current rows of the keys that have
changed, so it is an upsert. A key may have further columns, such as a value, that do not affect its key
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import At, Cell, Frozen
from rheos.core.aggregates.contract import Agg
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.errors import UnrestorableError
from rheos.core.graph.types import canonical
from rheos.core.native.running import NativeCell, NativeTable
from rheos.core.operators.contract import PortType
from rheos.core.operators.key_lifetimes import KeyLifetimes
from rheos.core.operators.keyed_state import keyed_shape
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import PartMode, RestoredState, SnapshotPart
from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.parts import DeltaChain, keyed_part
from rheos.core.state.rocksdb.packed_entries import KEY
from rheos.core.state.slots import Slots

ONE_BY_ONE_ROWS = 96
"""Maximum number of rows that are processed one by one. (Measured: 0.5 µs per row and aggregate,
against 70 µs for the NumPy calls that process a batch.)"""
_FEWEST = 1024
"""Minimum number of known keys before any are forgotten."""

AGG = "agg."
PIECE_ROWS = 1 << 19
"""Number of rows in each table of a snapshot. This number of rows is sorted within the processor's
cache, and a table is small compared with the state."""


@dataclass(frozen=True)
class KeptAggregates:
    """Keys and aggregates of a running state, and the columns that they need."""

    schema: pa.Schema
    """Schema with the key columns and the columns that the aggregates read."""
    keys: tuple[str, ...]
    aggregates: Mapping[str, Agg]
    counted_by: str | None = None
    """Name of the aggregate that counts a key's rows; None if no rows are retracted."""
    within: tuple[str, ...] = ()
    """Columns of the key that do not affect its key group."""

    @property
    def all_keys(self) -> tuple[str, ...]:
        return (*self.keys, *self.within)

    def groups(self, keys: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[np.uint16]:
        """Return the key groups of keys that have all their columns."""
        return groups_of_columns(keys[: len(self.keys)], max_parallelism)


@dataclass(frozen=True, slots=True)
class FrozenRows:
    """An immutable copy of the rows of some keys."""

    of: KeptAggregates
    rows: int
    keys: Sequence[pa.ChunkedArray]
    """Key columns, indexed by slot."""
    at: At
    parts: Mapping[str, Frozen]

    def columns(self) -> dict[str, pa.Array]:
        """Return all columns except the key group, in the order of the slots."""
        return self._columns_of(0, self.rows, {name: part() for name, part in self.parts.items()})

    def tables(self, max_parallelism: int) -> pa.Table | Iterator[pa.Table]:
        """Return the rows as a snapshot stores them, in tables of `PIECE_ROWS`. Each table is sorted by
        key group; within a group the rows keep their order."""
        parts = {name: part() for name, part in self.parts.items()}
        if self.rows <= PIECE_ROWS:
            return self._table(0, parts, max_parallelism)
        # Only one table at a time is in memory, which the next one uses again.
        return (self._table(begin, parts, max_parallelism) for begin in range(0, self.rows, PIECE_ROWS))

    def schema(self, max_parallelism: int) -> pa.Schema:
        """Return the schema of the tables. The copy must have no rows."""
        assert not self.rows
        parts = {name: part() for name, part in self.parts.items()}
        return self._table(0, parts, max_parallelism).schema

    def _columns_of(self, begin: int, rows: int, parts: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the columns of some rows. `parts` are those of all rows."""
        if isinstance(self.at, slice):
            keys = [column.slice(begin, rows).combine_chunks() for column in self.keys]
        else:
            at = self.at[begin : begin + rows]
            first, after = (int(at.min()), int(at.max()) + 1) if len(at) else (0, 0)
            indices = pa.array(at - first)
            # A look-up in several chunks copies all of them, also those that it does not need.
            near = [column.slice(first, after - first) for column in self.keys]
            keys = [column.take(indices).combine_chunks() for column in near]
        named = {KEY + name: column for name, column in zip(self.of.all_keys, keys, strict=True)}
        return named | {name: part.slice(begin, rows) for name, part in parts.items()}

    def _table(self, begin: int, parts: Mapping[str, pa.Array], max_parallelism: int) -> pa.Table:
        columns = self._columns_of(begin, PIECE_ROWS, parts)
        groups = self.of.groups([columns[KEY + name] for name in self.of.keys], max_parallelism)
        # Numbers of 16 bits are sorted by counting; sorting by key, too, would take ten times as long.
        order = pa.array(np.argsort(groups, kind="stable"))
        table = pa.table({"key_group": pa.array(groups)} | columns)
        return pc.take(table, order, memory_pool=pa.system_memory_pool())


class RunningState:
    """The cells of keys, in memory."""

    def __init__(self, of: KeptAggregates) -> None:
        self._of = of
        self._counted_by = of.counted_by
        self._columns = {name: agg.column for name, agg in of.aggregates.items()}
        counted = of.aggregates if of.counted_by is not None else {}
        self._nothing = {name: _empty_parts(_cell(agg, of.schema)) for name, agg in counted.items()}
        self.version = 0
        """Number that rises whenever `native_cells` and `native_table` have changed."""
        self._begin()

    def _begin(self) -> None:
        """Start without any key."""
        of = self._of
        self._index = KeyIndex([of.schema.field(key).type for key in of.all_keys])
        self._cells = {name: _cell(agg, of.schema) for name, agg in of.aggregates.items()}
        self._changed = np.zeros(64, dtype=np.bool_)
        self._known = 0
        """Number of keys that have cells."""
        self._gone = 0
        """Upper bound on the number of keys removed since the existing keys were last counted."""
        self.version += 1

    def __len__(self) -> int:
        return len(self._index)

    def slots_of(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each key; cells of new keys are empty. Raise NullKeyError for a null
        key."""
        slots = self._index.lookup_or_add(columns)
        self._grow()
        return slots

    def slots_within(self, keys: Sequence[pa.Array], of: Ints, values: pa.Array) -> Slots:
        """Return the slot of each key whose last column is a value.

        Args:
            keys: The columns before the value, with a row for each distinct combination.
            of: The place of each value's combination among these.
            values: The last column.
        """
        slots = self._index.lookup_or_add_within(keys, of, values)
        self._grow()
        return slots

    def _grow(self) -> None:
        """Add cells for new keys."""
        size = len(self._index)
        if size > self._known:
            self._known = size
            self.version += 1
            if size > len(self._changed):
                self._changed = np.concatenate([self._changed, np.zeros(size, dtype=np.bool_)])
            for cell in self._cells.values():
                cell.grow(size)

    def native_cells(self) -> dict[str, NativeCell | None]:
        """Return how a kernel updates the cells; None for those that no kernel knows."""
        return {name: cell.native() for name, cell in self._cells.items()}

    def native_table(self) -> NativeTable | None:
        """Return the table of keys as a kernel reads it; None if no kernel knows it."""
        return self._index.native()

    @property
    def changes(self) -> npt.NDArray[np.bool_]:
        """Return whether each slot has changed since `settle`, to be written by a kernel."""
        return self._changed

    def run(self, slots: Slots, batch: Batch) -> dict[str, pa.Array]:
        """Return the aggregates after each row of a batch. Raise SumTooLarge if a sum does not fit."""
        counter = self._counted_by
        if counter is None and batch.num_rows <= ONE_BY_ONE_ROWS:
            return self._run_few(slots, batch)
        size = len(self._index)
        rows = Segments(slots, size)
        self._changed[rows.slots] = True
        if counter is None:
            return {name: self._run(name, rows, batch) for name in self._cells}
        made = {counter: self._run(counter, rows, batch)}
        counts = made[counter].to_numpy()
        others = [name for name in self._cells if name != counter]
        if counts.all():
            return made | {name: self._run(name, rows, batch) for name in others}
        lives = KeyLifetimes(rows, counts, size)
        if len(lives.further):
            size += len(lives.further)
            rows = Segments(lives.slots.astype(np.int32), size)
            for name in others:
                self._cells[name].grow(size)
        made |= {name: self._run(name, rows, batch) for name in others}
        cleared = np.concatenate([lives.gone, lives.further])
        self._gone += len(lives.gone)
        for name in others:
            cell = self._cells[name]
            left = {part: frozen() for part, frozen in cell.freeze(lives.left_in).items()}
            cell.thaw(lives.left_to, left)
            first = pa.array(np.zeros(len(cleared), np.int64))
            cell.thaw(cleared, {part: of.take(first) for part, of in self._nothing[name].items()})
        return made

    def _run_few(self, slots: Slots, batch: Batch) -> dict[str, pa.Array]:
        """Process a few rows one by one, if the cells can, because NumPy calls have a fixed cost."""
        each: list[int] = slots.tolist()
        for slot in each:
            self._changed[slot] = True
        made: dict[str, pa.Array] = {}
        rows: Segments | None = None
        for name, cell in self._cells.items():
            column = self._columns[name]
            try:
                values = cell.run_few(each, None if column is None else batch.column(column))
            except SumTooLarge as error:
                raise error.of(column or "") from None
            if values is None:
                rows = rows or Segments(slots, len(self._index))
                values = self._run(name, rows, batch)
            made[name] = values
        return made

    def _run(self, name: str, rows: Segments, batch: Batch) -> pa.Array:
        column = self._columns[name]
        self.version += 1  # A sum may have exceeded what a kernel knows.
        try:
            return self._cells[name].run(rows, None if column is None else batch.column(column))
        except SumTooLarge as error:
            raise error.of(column or "") from None

    def find(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each key, or -1 if the key is unknown."""
        return self._index.find(columns)

    def knows(self, key: Sequence[pa.Array]) -> bool:
        """Return whether a key has state; `key` has one row."""
        return int(self.find(key)[0]) >= 0

    def changed(self) -> Ints:
        """Return the slots that have changed since `settle`."""
        return np.flatnonzero(self._changed[: len(self._index)])

    def is_occupied(self, at: Ints | None = None) -> Ints | None:
        """Return which of these slots, or of all, belong to keys with rows. None means all slots."""
        counter = self._counted_by
        if counter is None:
            return at
        counts = self.value(counter, slice(0, len(self._index)) if at is None else at, pa.int64())
        has_rows = np.flatnonzero(counts.fill_null(0).to_numpy(zero_copy_only=False))
        return has_rows if at is None else at[has_rows]

    def value(self, name: str, at: At, kind: pa.DataType) -> pa.Array:
        """Return the current value of an aggregate at these slots; `kind` is its `running_type`."""
        parts = {part: frozen() for part, frozen in self._cells[name].freeze(at).items()}
        return self._of.aggregates[name].running_value(parts, kind)

    def keep(self, at: Ints) -> None:
        """Forget all keys except those of these slots, which get new slots."""
        rows = self.freeze(at)
        self._begin()
        self.thaw(pa.table(rows.columns()))

    def settle(self) -> None:
        """Mark all slots as unchanged."""
        self._changed[:] = False

    def keys(self, at: Ints) -> list[pa.Array]:
        """Return the keys of these slots."""
        indices = pa.array(at)
        return [column.take(indices).combine_chunks() for column in self._index.freeze()]

    def put(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Replace the cells of these slots by `parts`, which are named as in a table."""
        for name, cell in self._cells.items():
            prefix = f"{AGG}{name}."
            mine = {
                part.removeprefix(prefix): column
                for part, column in parts.items()
                if part.startswith(prefix) and "." not in part.removeprefix(prefix)
            }
            cell.thaw(slots, mine)

    def freeze(self, at: Ints | None = None) -> FrozenRows:
        """Return a frozen copy of the rows of these slots, or of all."""
        size = len(self._index)
        which: At = slice(0, size) if at is None else at
        parts = {
            f"{AGG}{name}.{part}": column
            for name, cell in self._cells.items()
            for part, column in cell.freeze(which).items()
        }
        rows = size if at is None else len(at)
        return FrozenRows(self._of, rows, self._index.freeze(), which, parts)

    def thaw(self, table: pa.Table) -> None:
        """Insert the rows of a table, replacing those of the same keys. Raise UnrestorableError if a
        part does not fit its aggregate."""
        if table.num_rows == 0:
            return
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        missing = [key for key in self._of.all_keys if KEY + key not in columns]
        if missing:
            raise UnrestorableError(
                f"the restored state is not keyed by {missing[0]!r}",
                hint="if you change an operator's keys, change its uid too: it then starts empty",
            )
        slots = self.slots_of([columns[KEY + key] for key in self._of.all_keys]).astype(np.int64)
        self._changed[slots] = True
        self._gone = len(self._index)
        for name, cell in self._cells.items():
            parts = {
                column.rpartition(".")[2]: values
                for column, values in columns.items()
                if column.rpartition(".")[0] == AGG + name
            }
            # An aggregate that is new in the program starts empty.
            if not parts:
                continue
            try:
                cell.thaw(slots, parts)
            except (KeyError, TypeError, ValueError) as error:
                raise UnrestorableError(
                    f"in the restored state, {name!r} was another aggregate or had another type",
                    hint="rename the changed aggregate, or change the operator's uid",
                ) from error


class MemoryRunningState(RunningState):
    """Running state that fits in memory. A snapshot contains the changes since the one before."""

    def __init__(self, of: KeptAggregates, *, name: str, max_parallelism: int) -> None:
        super().__init__(of)
        self._name = name
        self._max_parallelism = max_parallelism
        self._chain = DeltaChain()
        self._written_fits = True
        """Whether the restored parts have no columns that the written ones lack."""

    def restore(self, tables: Iterable[pa.Table]) -> None:
        """Insert the rows of restored tables in order. If the restored chain may be continued, the
        next part is a delta (CP11)."""
        written = self.freeze(np.zeros(0, np.int64)).schema(self._max_parallelism)
        for table in tables:
            self._written_fits &= set(table.schema) <= set(written)
            self.thaw(table)
        chain = tables.chain if isinstance(tables, RestoredState) else None
        if chain is not None and self._written_fits:
            self._chain.resume(chain)
            self.settle()

    def force_full(self) -> None:
        """Make the next snapshot contain all rows."""
        self._chain.force_full()

    def slots_of(self, columns: Sequence[pa.Array]) -> Slots:
        self._forget()
        return super().slots_of(columns)

    def slots_within(self, keys: Sequence[pa.Array], of: Ints, values: pa.Array) -> Slots:
        self._forget()
        return super().slots_within(keys, of, values)

    def _forget(self) -> None:
        """Forget the keys without rows, if they are at least half of all keys."""
        if self._counted_by is not None and 2 * self._gone >= max(len(self._index), _FEWEST):
            there = self.is_occupied()
            assert there is not None
            self._gone = len(self._index) - len(there)
            if 2 * self._gone >= len(self._index):
                self.keep(there)

    def keep(self, at: Ints) -> None:
        super().keep(at)
        self._gone = 0
        self._chain.force_full()

    def snapshot(self) -> SnapshotPart:
        mode = self._chain.next_mode(int(np.count_nonzero(self._changed)))
        frozen = self.freeze(self.is_occupied() if mode is PartMode.FULL else self.changed())
        self.settle()
        self._chain.taken(mode, frozen.rows)
        return self._part(frozen, mode)

    def savepoint(self, snapshot: SnapshotPart) -> SnapshotPart:
        """Return a part with all rows. Called right after `snapshot`, with its result."""
        if snapshot.mode is PartMode.FULL:
            return snapshot
        return self._part(self.freeze(self.is_occupied()), PartMode.FULL)

    def _part(self, frozen: FrozenRows, mode: PartMode) -> SnapshotPart:
        return keyed_part(self._name, mode, frozen.rows, partial(frozen.tables, self._max_parallelism))


def _empty_parts(cell: Cell) -> dict[str, pa.Array]:
    """Return the parts of a key without rows."""
    cell.grow(1)
    return {name: part() for name, part in cell.freeze(np.zeros(1, np.int64)).items()}


def _cell(agg: Agg, schema: pa.Schema) -> Cell:
    running = agg.running(schema)
    assert running is not None, (
        f"{agg} cannot be a running aggregate: checked when the program is built"
    )
    return running.cell()


def running_shape(
    port: PortType, aggregates: Mapping[str, Agg], schema: pa.Schema, *, retracts: bool = False
) -> StateShape:
    """Return the shape of a state with these aggregates over columns of `schema`, by the key of the
    port.

    Restored state may lack an aggregate, which then starts empty. If the input `retracts`, every
    aggregate is required: it could not subtract rows that it has not counted.
    """
    fields = []
    for name, agg in aggregates.items():
        running = agg.running(schema)
        assert running is not None, (
            f"{agg} cannot be a running aggregate: checked when the program is built"
        )
        shape = TypeShape(name=str(canonical(running.stored)), label=str(agg))
        fields.append(FieldShape(name=name, type=shape, required=retracts))
    return keyed_shape(port, StatePurpose.RUNNING, TypeShape(name="aggregates", fields=fields))
