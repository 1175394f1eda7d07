"""`join`: all pairs of rows of two tables that have the same key, as an updating table.

Each side is append-only or a changelog. An inserted row is paired with all current rows of its key on
the other side. A deleted row retracts its pairs. On an outer side (`how`), a row without a partner is
in the result with nulls. Its first partner retracts that row, and when the last partner is deleted, the
row returns. So the result is always the join of both tables in their current state. A semi-join emits
each left row while it has a partner, an anti-join while it has no partner. With a condition (`where`),
only rows of a key for which it holds are partners.

| an orders row | customers | output, `how="left"` |
|---|---|---|
| is inserted | none | `insert` (order, null) |
| | is inserted | `delete` (order, null), `insert` (order, customer) |
| | is updated | `delete` (order, customer), `insert` (order, updated customer) |
| is deleted | | `delete` (order, customer) |

With a time to live, the join drops a row when the stream has passed it by that time, or by up to a
tenth more. It does not retract the pairs of a dropped row; they remain in the result.

```python
check_example(
    OperatorExample(
        lambda orders, users: orders.key_by("user").join(
            users.key_by("user"), how="left", ttl="forever"
        ),
        pa.schema([("user", pa.int64()), ("item", pa.string())]),
        [
            {"user": 1, "item": "tea"},
            WatermarkMark(0),
            Right({"user": 1, "name": "ada", "op": "insert"}),
            Right({"user": 1, "name": "eve", "op": "update_after"}),
        ],
        right=pa.schema([("user", pa.int64()), ("name", pa.string()), ("op", pa.string())]),
        right_upserts_by=("user",),
    ),
    {
        "out": [
            {"user": 1, "item": "tea", "name": None, "op": "insert"},
            {"user": 1, "item": "tea", "name": None, "op": "delete"},
            {"user": 1, "item": "tea", "name": "ada", "op": "insert"},
            {"user": 1, "item": "tea", "name": "ada", "op": "delete"},
            {"user": 1, "item": "tea", "name": "eve", "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.graph.changelog import DELETE, INSERT
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import goes, missing_row_error
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT, JoinedColumns, kept
from rheos.core.operators.joins.pair_condition import PairCondition
from rheos.core.operators.joins.running_counts import running_counts
from rheos.core.operators.joins.table_side import TableSide
from rheos.core.operators.origins import Origin, PairOfRows
from rheos.core.operators.records import hidden_column
from rheos.core.protocol.elements import SWM, TS, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.key_groups import refuse_null_keys
from rheos.core.state.key_index import KeySlots
from rheos.core.state.key_limit import KeyContents, KeyLimit
from rheos.core.state.marked_rows import Mask
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpillFolder

STATES = ("left", "right")
_TIDY_ROWS = 1 << 14
"""Number of arriving rows after which deleted rows are removed. If more rows exist than this, their
number applies."""

_STEPS = 10
"""Number of times per time to live at which expired rows are dropped. Rows whose progress is in the
same step are processed together."""


_TAKES_BACK, _PAIRS, _LEAVES_ALONE = range(3)
"""Kinds of rows that an event emits, in their order: rows of partners that had nulls so far; rows with
the event's own row; rows of partners that have nulls from then on."""


@dataclass(frozen=True)
class TableInput:
    """Changelog mode of a side."""

    own: tuple[str, ...] | None = None
    """Primary key of the table; None if the side is append-only. If the key is empty, only all columns
    together identify a row, and several rows may be equal."""
    retracts: bool = False
    """Whether the changelog contains the old row before each updated row."""


@dataclass(frozen=True)
class TableJoinSpec(KeySpec):
    """A join of the current rows of two tables, as an updating table."""

    how: str
    columns: JoinedColumns
    inputs: tuple[TableInput, TableInput]
    ttl_ms: int | None
    where: PairCondition | None = None
    """Condition that partners must fulfil in addition to the key."""

    kind: ClassVar[str] = "join"
    takes_changes: ClassVar[bool] = True

    @property
    def gives_changes(self) -> bool:
        """Whether the join retracts rows. An inner join or a semi-join of append-only sides does
        not."""
        return self.how not in ("inner", "semi") or any(given.own is not None for given in self.inputs)

    def operator(self, ctx: OperatorContext) -> TableJoinOperator:
        return TableJoinOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        return self.ttl_ms is not None if column == SWM else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        sides = _sides(self, ports, 1, None)
        return {side.state: side.shape(port) for side, port in zip(sides, ports, strict=True)}

    def summary(self) -> str:
        where = "" if self.where is None else f", where {self.where}"
        expiry = "" if self.ttl_ms is None else f", rows expire after {self.ttl_ms} ms"
        return f"{self.how}{where}{expiry}"

    def origin(self) -> Origin:
        doubt = "rows of a table are matched by value, and may occur several times"
        return PairOfRows(self.columns, newest=True, doubt=doubt)


def _sides(
    spec: TableJoinSpec,
    ports: Sequence[PortType],
    max_parallelism: int,
    folder: SpillFolder | None,
    limit: KeyLimit | None = None,
) -> tuple[TableSide, TableSide]:
    left, right = (
        TableSide(
            STATES[port],
            ports[port],
            spec.inputs[port].own,
            keeps=kept(spec.how)[port],
            where=spec.where,
            ttl_ms=spec.ttl_ms,
            max_parallelism=max_parallelism,
            folder=folder,
            limit=limit,
        )
        for port in (LEFT, RIGHT)
    )
    return left, right


@dataclass
class _Events:
    """Changes that a batch makes to its side: inserted and deleted rows, in order."""

    rows: Batch
    """The row of each event, with the columns of the side."""
    comes: Mask
    slots: Slots
    padded: Mask
    """For each deleted row, whether it was emitted without a partner."""
    before: Numbers
    """Number of rows of its slot before each event."""
    after: Numbers
    first: Mask
    """Two masks: whether each event is the first of its slot, and whether it is the last."""
    last: Mask


class TableJoinOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: TableJoinSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        folder = None if ctx.scratch is None else SpillFolder(ctx.scratch)
        self._sides = _sides(
            spec, ctx.ports, ctx.max_parallelism, folder, ctx.key_limit(KeyContents.JOIN_ROWS)
        )
        self._keys = KeySlots(len(ctx.ports[LEFT].keys))
        self._where = None if spec.where is None else spec.where.evaluation(ctx)
        self._since_tidy = 0

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        side = self._sides[port]
        refuse_null_keys(batch, side.keys, self.ctx.ports[port].keyed_at)
        for part, reached_ms in self._by_progress(batch):
            if reached_ms is not None:
                self._expire(reached_ms)
            yield from self._take(port, part)
        side.rows.spill(self.ctx.state_bytes // 2)
        self._since_tidy += batch.num_rows
        self._tidy()

    def _by_progress(self, batch: Batch) -> Iterator[tuple[Batch, int | None]]:
        """Split the batch into consecutive runs of rows with the same progress of the stream."""
        reached = None if self._spec.ttl_ms is None else hidden_column(batch, SWM)
        if reached is None:
            if batch.num_rows:
                yield batch, None
            return
        reached = self._by_step(reached)
        begins = np.flatnonzero(np.concatenate([[True], reached[1:] != reached[:-1]]))
        for begin, end in zip(begins, np.append(begins[1:], len(reached)), strict=True):
            if begin < end:
                yield batch.slice(begin, end - begin), int(reached[begin])

    def _by_step(self, reached_ms: Numbers) -> Numbers:
        assert self._spec.ttl_ms is not None
        return reached_ms - reached_ms % max(self._spec.ttl_ms // _STEPS, 1)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if self._spec.ttl_ms is not None:
            self._expire(int(self._by_step(np.array([timestamp_ms]))[0]))
        return iter(())

    def _expire(self, reached_ms: int) -> None:
        for side in self._sides:
            side.expire(reached_ms)

    def _take(self, port: int, batch: Batch) -> Iterator[Out]:
        side, other = self._sides[port], self._sides[1 - port]
        slots = self._keys.lookup_or_add([batch.column(key) for key in side.keys])
        matches = self._count_partners(port, batch, slots) if side.keeps else other.counts(slots)
        events = self._changed(port, batch, slots, matches)
        for first, stop in self._chunks(other, events.slots):
            yield from self._apply_events(port, events, first, stop)

    def _count_partners(self, port: int, batch: Batch, slots: Slots) -> Numbers:
        """Return the number of partners of each row."""
        other = self._sides[1 - port]
        if self._where is None:
            return other.counts(slots)
        counts = np.zeros(len(slots), np.int64)
        for first, stop in self._chunks(other, slots):
            by, _ = self._partners(port, batch.slice(first, stop - first), slots[first:stop])
            counts[first:stop] = np.bincount(by, minlength=stop - first)
        return counts

    def _changed(self, port: int, batch: Batch, slots: Slots, matches: Numbers) -> _Events:
        """Apply a batch to the side, and return the changes. `matches` are the numbers of partners."""
        alone = matches == 0
        side, given = self._sides[port], self._spec.inputs[port]
        rows = batch.select(side.columns.names)
        stamps = hidden_column(batch, TS)
        if stamps is None:
            stamps = np.zeros(batch.num_rows, np.int64)
        if given.own is None:
            counts = side.counts(slots)
            side.add(slots, rows, stamps, alone & side.keeps, matches, None)
            comes = np.ones(batch.num_rows, np.bool_)
            return _events(rows, comes, slots, np.zeros(batch.num_rows, np.bool_), counts)
        comes = ~goes(batch)
        places = side.places(batch, comes)
        order = np.argsort(places, kind="stable")
        opens = np.concatenate([[True], places[order][1:] != places[order][:-1]])
        # Find the row that each row replaces: one of this batch, or a stored one.
        of_batch = np.full(len(places), -1, np.int64)
        of_batch[order[1:]] = np.where(~opens[1:] & comes[order[:-1]], order[:-1], -1)
        of_side = np.full(len(places), -1, np.int64)
        of_side[order[opens]] = side.at(places[order[opens]])
        replaces = (of_batch >= 0) | (of_side >= 0)
        if given.retracts and self._spec.ttl_ms is None and not (comes | replaces).all():
            missing = int(np.argmin(comes | replaces))
            raise missing_row_error(self.ctx, batch, missing, given.own or side.keys)
        # A replaced row is deleted before its replacement is inserted.
        at = np.concatenate([np.flatnonzero(replaces), np.flatnonzero(comes)])
        leaves = np.arange(len(at)) < np.count_nonzero(replaces)
        sequence = np.lexsort((~leaves, at))
        at, leaves = at[sequence], leaves[sequence]
        stored = np.where(leaves, of_side[at], -1)
        known = stored >= 0
        place = np.where(leaves, of_batch[at], at)
        place[known] = len(slots) + np.arange(np.count_nonzero(known))
        gone = side.rows.take(stored[known], side.columns.names)
        padded = np.zeros(len(at), np.bool_)
        padded[known] = side.padded(stored[known])
        padded[leaves & ~known] = alone[of_batch[at[leaves & ~known]]] & side.keeps
        of_rows = pa.concat_batches([rows, gone]).take(pa.array(place))
        of_slots = np.concatenate([slots, side.slots(stored[known])])[place]
        counts = side.counts(of_slots)
        side.remove(stored[known])
        closes = np.append(opens[1:], True)
        stays = order[closes & comes[order]]
        stays.sort()
        side.add(
            slots[stays],
            rows.take(pa.array(stays)),
            stamps[stays],
            alone[stays] & side.keeps,
            matches[stays],
            places[stays],
        )
        events = _events(of_rows, ~leaves, of_slots, padded, counts)
        # If a row replaces one with the same key, no partner is unmatched between the two events.
        both = np.flatnonzero(leaves[:-1] & (at[:-1] == at[1:]) & (of_slots[:-1] == of_slots[1:]))
        events.after[both] = events.before[both + 1] = np.maximum(events.after[both], 1)
        return events

    # --- output ---------------------------------------------------------------------------------------

    def _chunks(self, other: TableSide, slots: Slots) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows whose pairs form a few batches; at least one row."""
        pairs = np.cumsum(other.counts(slots) + 1)
        first = 0
        while first < len(pairs):
            most = (pairs[first - 1] if first else 0) + self.ctx.batch_rows
            stop = max(int(np.searchsorted(pairs, most, side="right")), first + 1)
            yield first, stop
            first = stop

    def _apply_events(self, port: int, events: _Events, first: int, stop: int) -> Iterator[Out]:
        other = self._sides[1 - port]
        some = slice(first, stop)
        comes, padded = events.comes[some], events.padded[some]
        of_pairs = self._spec.how not in ("semi", "anti")
        by, numbers = self._partners(port, events.rows.slice(first, stop - first), events.slots[some])
        given = []
        """For each row to emit: its event, its kind, and its partner, -1 for none."""
        if of_pairs:
            paired = ~padded[by]
            given.append((by[paired], _PAIRS, numbers[paired]))
        if other.keeps:
            back, alone = self._turns(other, events, some, by, numbers)
            given.append((by[back], _TAKES_BACK, numbers[back]))
            given.append((by[alone], _LEAVES_ALONE, numbers[alone]))
        if MAIN not in self.ctx.outputs:
            return
        if self._sides[port].keeps:
            lonely = np.where(comes, np.bincount(by, minlength=stop - first) == 0, padded)
            single = np.flatnonzero(lonely != (self._spec.how == "semi"))
            given.append((single, _PAIRS, np.full(len(single), -1, np.int64)))
        of = np.concatenate([of for of, _, _ in given])
        kinds = np.concatenate([np.full(len(of), kind, np.int8) for of, kind, _ in given])
        partners = np.concatenate([partners for _, _, partners in given])
        mine = kinds == _PAIRS
        inserts = np.where(mine, comes[of], (kinds == _LEAVES_ALONE) != (self._spec.how == "semi"))
        order = np.lexsort((kinds, of))
        for begin in range(0, len(order), self.ctx.batch_rows):
            rows = order[begin : begin + self.ctx.batch_rows]
            own = events.rows, of[rows] + first, mine[rows]
            yield Out(self._batch(port, own, partners[rows], inserts[rows]))

    def _turns(
        self, other: TableSide, events: _Events, some: slice, by: Numbers, numbers: Numbers
    ) -> tuple[Mask, Mask]:
        """Return two kinds of pairs: those in which a row of the other side gets its first partner, and
        those in which it loses its last one. Mark these rows."""
        comes = events.comes[some][by]
        if self._where is None:
            before, after = events.before[some][by], events.after[some][by]
            first, last = events.first[some][by], events.last[some][by]
        else:
            stored = other.matches(numbers)
            before, after, first, last = running_counts(numbers, comes, stored)
            other.match(numbers[last], after[last])
        back = comes & (before == 0) & (other.padded(numbers) | ~first)
        alone = ~comes & (after == 0)
        other.pad(numbers[last], after[last] == 0)
        return back, alone

    def _partners(self, port: int, rows: Batch, slots: Slots) -> tuple[Numbers, Numbers]:
        """Return for each row its partners on the other side, in the order in which they arrived."""
        other = self._sides[1 - port]
        by, numbers = self._of_key(other, slots)
        if self._where is None or not len(by):
            return by, numbers
        names = self._where.columns
        mine = rows.select(names.of(port)).take(pa.array(by))
        theirs = other.rows.take(numbers, names.of(1 - port))
        holds = self._where.holds((mine, theirs) if port == LEFT else (theirs, mine), len(by))
        return by[holds], numbers[holds]

    @staticmethod
    def _of_key(other: TableSide, slots: Slots) -> tuple[Numbers, Numbers]:
        """Return for each slot the current rows of the other side, in the order of their arrival."""
        found = other.find(slots)
        most = int((found.end - found.begin).sum())
        for by, places in found.pieces(max(most, 1)):
            numbers, _ = other.rows.at(places)
            there = other.exist(numbers)
            by, numbers = by[there], numbers[there]
            order = np.lexsort((numbers, by))
            return by[order], numbers[order]
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def _batch(
        self, port: int, own: tuple[Batch, Numbers, Mask], partners: Numbers, inserts: Mask
    ) -> Batch:
        output, columns = self.ctx.outputs[MAIN], self._spec.columns
        rows, at, there = own
        mine = rows.select(columns.of(port)).take(pa.array(at, mask=~there))
        found = partners >= 0
        theirs = self._sides[1 - port].rows.take(partners[found], columns.of(1 - port))
        place = np.cumsum(found) - 1
        theirs = theirs.take(pa.array(place, mask=~found))
        more = []
        if self._spec.gives_changes:
            codes = np.where(inserts, 0, 1).astype(np.int8)
            more = [pa.DictionaryArray.from_arrays(codes, [INSERT, DELETE]).dictionary_decode()]
        sides = (mine, theirs) if port == LEFT else (theirs, mine)
        return columns.batch(sides, output, np.zeros(len(at), np.int64), more=more)

    # --- memory and snapshots -------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Copy the current rows, if they are less than half of all stored rows, and drop keys."""
        alive = sum(side.alive for side in self._sides)
        if self._since_tidy < max(_TIDY_ROWS, alive):
            return
        self._since_tidy = 0
        if 2 * alive < sum(map(len, self._sides)) or len(self._keys) > 2 * alive:
            self._keys = KeySlots(len(self.ctx.ports[LEFT].keys))
            for side in self._sides:
                side.rebuild(self._keys)
                side.rows.spill(self.ctx.state_bytes // 2)

    def open(self, restored: Restored) -> None:
        for side in self._sides:
            side.restore(restored.get(side.state, ()), self._keys)
            side.rows.spill(self.ctx.state_bytes // 2)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot([side.part() for side in self._sides])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [side.whole() for side in self._sides]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for side in self._sides:
            side.force_full()

    def next_keys(self) -> None:
        self._keys = KeySlots(len(self.ctx.ports[LEFT].keys))
        for side in self._sides:
            side.clear()


def _events(rows: Batch, comes: Mask, slots: Slots, padded: Mask, counts: Numbers) -> _Events:
    """Return the events of these rows. `counts` is the number of rows of each slot before the batch."""
    return _Events(rows, comes, slots, padded, *running_counts(slots, comes, counts))
