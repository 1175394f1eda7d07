"""`top_n`: the first rows of each key in the order of a column, as a table by key and rank.

For append-only rows, state holds only the first rows of each key. For a changelog, it holds all rows,
because another row moves up when one of the first is deleted.

```python
check_example(
    OperatorExample(
        lambda bids: bids.key_by("item").top_n(2, by="price"),
        pa.schema([("item", pa.string()), ("user", pa.int64()), ("price", pa.int64())]),
        [
            {"item": "tea", "user": 1, "price": 3},
            {"item": "tea", "user": 2, "price": 5},
            {"item": "tea", "user": 3, "price": 2},
        ],
    ),
    {
        "out": [
            {"item": "tea", "user": 1, "price": 3, "rank": 1, "op": "insert"},
            {"item": "tea", "user": 1, "price": 3, "rank": 1, "op": "update_before"},
            {"item": "tea", "user": 2, "price": 5, "rank": 1, "op": "update_after"},
            {"item": "tea", "user": 1, "price": 3, "rank": 2, "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, zip_longest
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import goes, store_row, table_columns
from rheos.core.operators.changelog.retractions import ChangeBuffer, changes_out, row_shape
from rheos.core.operators.changelog.row_orders import RowOrders
from rheos.core.operators.contract import (
    KeySpec,
    Operator,
    OperatorContext,
    Out,
    PortType,
    Restored,
)
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.operators.row_order import alike, plain_type, row_order, value_order
from rheos.core.protocol.columns import column_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import batch_of, rows_of
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.slots import Slots
from rheos.core.state.stores import ABSENT, MISSING

RANK = "rank"
_TOP, _ROWS = "top", "rows"
_OPS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
_NONE = -1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopNSpec(KeySpec):
    n: int
    by: str
    smallest: bool
    of_changes: tuple[str, ...] | None
    """Primary key of the table, if the input is a changelog."""
    with_ties: bool = False
    """Whether rows with the value of the last rank are included."""

    kind: ClassVar[str] = "top-n"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TopNOperator(ctx, self) if self.of_changes is None else TopNOfChanges(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        row = row_shape(table_columns(ports[0].schema))
        if self.of_changes is None:
            return {_TOP: keyed_shape(ports[0], StatePurpose.VALUE, TypeShape(name="list", args=[row]))}
        rows = TypeShape(name="dict", args=[TypeShape(name="str"), row])
        return {_ROWS: keyed_shape(ports[0], StatePurpose.MAP, rows)}

    def summary(self) -> str:
        ties = " with ties" if self.with_ties else ""
        return f"the {self.n} {'smallest' if self.smallest else 'largest'}{ties} by {self.by}"


class _TopN(KeyedStateOperator):
    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._columns = table_columns(port.schema)
        self._by = self._columns.get_field_index(spec.by)
        self._value_order = value_order(self._columns.field(self._by).type)
        self._tie = row_order(self._columns)

    def _place(self, row: Any) -> Any:
        """Return the sort key of a row whose value is not null."""
        return self._value_order(row[self._by])


class TopNOperator(_TopN):
    """Top-N of append-only rows. Most rows are not among the first of their key, and are filtered out a
    batch at a time. The others become Python rows; their changes are selected from columns."""

    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx, spec)
        self._state = self.backend.values(_TOP, object)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        self._codec.refuse_nulls(batch)
        for first in range(0, batch.num_rows, self.backend.stride):
            yield from self._entered(batch.slice(first, self.backend.stride))

    def _entered(self, batch: Batch) -> Iterator[Out]:
        index = KeyIndex(self._codec.types)
        slots = index.lookup_or_add([batch.column(name) for name in self.ctx.ports[0].keys])
        firsts = np.empty(len(index), np.int64)
        firsts[slots[::-1]] = np.arange(batch.num_rows)[::-1]
        keys = self._codec.of(batch.take(pa.array(firsts)))
        self.backend.prepare(keys)
        tops = [self._top(key) for key in keys]
        places = self._may_enter(batch, slots, tops)
        rows = rows_of(batch.select(self._columns.names).take(pa.array(places)), None)
        # Rows are identified by number: first the current ones, then those that may enter.
        kept: list[Any] = []
        numbers: dict[int, list[int]] = {}
        for slot in np.unique(slots[places]).tolist():
            numbers[slot] = list(range(len(kept), len(kept) + len(tops[slot])))
            kept += tops[slot]
        entries = _Entries()
        for number, (row, slot, place) in enumerate(
            zip(rows, slots[places].tolist(), places.tolist(), strict=True), len(kept)
        ):
            top = tops[slot]
            rank = self._rank(top, row)
            if rank is None:
                continue
            after = [*top[:rank], row, *top[rank:]]
            size = self._size(after)
            tops[slot] = after = after[:size]
            now = [*numbers[slot][:rank], number, *numbers[slot][rank:]][:size]
            entries.add(rank, top, numbers[slot], after, now, place)
            numbers[slot] = now
            self._state.values[keys[slot]] = after
            self._state.dirty.add(keys[slot])
        if MAIN in self.ctx.outputs and entries.origins:
            yield from self._changes(entries, kept, batch, places)

    def _top(self, key: Key) -> list[Any]:
        top: Any = self._state.values.get(key, MISSING)
        if top is MISSING:
            top = self._state.fetch(key)
        return [] if top is ABSENT else top

    def _may_enter(self, batch: Batch, slots: Slots, tops: Sequence[Sequence[Any]]) -> Numbers:
        """Return a mask of the rows that may be among the first. If a key already has `n` rows, a row
        may be if it does not rank after all of them."""
        n, field = self._spec.n, self._columns.field(self._by)
        last = [top[n - 1][self._by] if len(top) >= n else None for top in tops]
        if all(value is None for value in last):
            return np.arange(batch.num_rows)
        kind = plain_type(field.type)
        lasts = column_of(last, pa.field(field.name, kind)).take(pa.array(slots))
        values = batch.column(field.name).cast(kind)
        compare = pc.less_equal if self._spec.smallest else pc.greater_equal
        enters = compare(values, lasts)
        if pa.types.is_floating(kind):
            enters = pc.or_(enters, pc.is_nan(lasts if self._spec.smallest else values))
        return np.flatnonzero(pc.fill_null(enters, True).to_numpy(zero_copy_only=False))

    def _size(self, rows: Sequence[Any]) -> int:
        """Return the number of first rows."""
        n = self._spec.n
        if len(rows) <= n or not self._spec.with_ties:
            return min(len(rows), n)
        last = self._place(rows[n - 1])
        return next((at for at in range(n, len(rows)) if self._place(rows[at]) != last), len(rows))

    def _rank(self, top: Sequence[Any], row: Any) -> int | None:
        """Return the number of rows of the key that rank before this row; None if it is not among the
        first."""
        if row[self._by] is None:
            return None
        place, smallest, value = self._place, self._spec.smallest, self._place(row)
        rank, tie, n = len(top), None, self._spec.n
        if rank >= n and (other := place(top[n - 1])) != value and (other < value) == smallest:
            return None
        while rank:
            other = place(top[rank - 1])
            if other == value:
                tie = self._tie(row) if tie is None else tie
                if tie >= self._tie(top[rank - 1]):
                    break
            elif (other < value) == smallest:
                break
            rank -= 1
        return rank if rank < n or self._spec.with_ties else None

    def _changes(
        self, entries: _Entries, kept: Sequence[Any], batch: Batch, places: Numbers
    ) -> Iterator[Out]:
        picks, ranks, ops, origins = entries.columns()
        before = batch_of(kept, self._columns)
        entered = batch.select(self._columns.names).take(pa.array(places))
        columns = {
            field.name: pa.concat_arrays([before.column(at), entered.column(at)]).take(picks)
            for at, field in enumerate(self._columns)
        }
        yield from changes_out(self.ctx, {**columns, RANK: ranks, OP: ops}, origins, batch)


class _Entries:
    """Changes among the first rows: for each rank the old and the new row, by their numbers."""

    def __init__(self) -> None:
        self._was: list[int] = []
        """Number of the old row at each changed rank; _NONE if the rank is new."""
        self._now: list[int] = []
        """Number of the new row; _NONE if the rank is gone."""
        self._ranks: list[int] = []
        self.origins: list[int] = []

    def add(
        self,
        rank: int,
        top: Sequence[Any],
        was: Sequence[int],
        after: Sequence[Any],
        now: Sequence[int],
        origin: int,
    ) -> None:
        """Record that a row has entered after `rank` others: the old first rows with their numbers, the
        new ones, and the place of the row."""
        shifted = [not alike(*pair) for pair in zip(top[rank:], after[rank:], strict=False)]
        grown, shrunk = max(len(after) - len(top), 0), max(len(top) - len(after), 0)
        ranks: Sequence[int] = range(rank, max(len(after), len(top)))
        before, behind = [*was[rank:], *[_NONE] * grown], [*now[rank:], *[_NONE] * shrunk]
        if not all(shifted):
            # A row has replaced an equal one.
            keeps = [*shifted, *[True] * (grown + shrunk)]
            ranks = list(compress(ranks, keeps))
            before, behind = list(compress(before, keeps)), list(compress(behind, keeps))
        self._was += before
        self._now += behind
        self._ranks += ranks
        self.origins += [origin] * len(before)

    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array, Numbers]:
        """Return for each change: the number of its row, the rank, its kind, and the row that caused
        it."""
        was, now = np.array(self._was, np.int64), np.array(self._now, np.int64)
        had, has = was != _NONE, now != _NONE
        picks, ops = np.stack([was, now], 1), np.empty((len(was), 2), np.int64)
        ops[:, 0] = np.where(has, _OPS.index(UPDATE_BEFORE), _OPS.index(DELETE))
        ops[:, 1] = np.where(had, _OPS.index(UPDATE_AFTER), _OPS.index(INSERT))
        there = np.stack([had, has], 1)
        change = np.nonzero(there)[0]
        return (
            pa.array(picks[there]),
            pa.array(np.array(self._ranks, np.int64)[change] + 1),
            pa.array(_OPS).take(pa.array(ops[there])),
            np.array(self.origins, np.int64)[change],
        )


class TopNOfChanges(_TopN):
    """Top-N of an updating table."""

    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx, spec)
        self._state = self.backend.maps(_ROWS, str, object)
        self._limit = ctx.key_limit(KeyContents.RANKED_ROWS)
        assert spec.of_changes is not None
        self._known_by = [self._columns.get_field_index(name) for name in spec.of_changes]
        self._ranked = pa.schema([*self._columns, pa.field(RANK, pa.int64())])
        self._orders: RowOrders[Any] = RowOrders(self._place, self._tie, smallest=spec.smallest)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, gone = self._codec.of(batch), goes(batch).tolist()
        rows = rows_of(batch.select(self._columns.names), None)
        made = ChangeBuffer(self.ctx, self._ranked)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            self.backend.prepare(keys[first : first + stride])
            for at in range(first, min(first + stride, len(keys))):
                before, after = self._change(keys[at], rows[at], gone[at])
                _rank(before, after, at, made)
        yield from made.of(batch)

    def _change(self, key: Key, row: Any, gone: bool) -> tuple[Sequence[Any], Sequence[Any]]:
        """Apply a change, and return the first rows before and after it."""
        item = repr(tuple(row[place] for place in self._known_by))
        stored = self._state.read(key, {})
        was, now = stored.get(item), None if gone or row[self._by] is None else row
        before = self._first(key, stored)
        if now is not None:
            store_row(self._state, self._limit, key, item, now, len(stored) + (was is None))
        elif was is not None:
            self._state.remove(key, item)
        self._orders.change(key, item, was, now)
        return before, self._first(key, stored)

    def _first(self, key: Key, stored: Mapping[str, Any]) -> list[Any]:
        return self._orders.first(self._spec.n, key, stored, with_ties=self._spec.with_ties)

    def open(self, restored: Restored) -> None:
        super().open(restored)
        self._orders.clear()

    def next_keys(self) -> None:
        super().next_keys()
        self._orders.clear()


def _rank(before: Sequence[Any], after: Sequence[Any], at: int, made: ChangeBuffer) -> None:
    """Record the changes of each rank."""
    for rank, (was, now) in enumerate(zip_longest(before, after), 1):
        if was is None:
            made.add((*now, rank), INSERT, at)
        elif now is None:
            made.add((*was, rank), DELETE, at)
        elif not alike(was, now):
            made.add((*was, rank), UPDATE_BEFORE, at)
            made.add((*now, rank), UPDATE_AFTER, at)
