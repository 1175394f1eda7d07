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
from itertools import accumulate, zip_longest
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import goes, store_row, table_columns
from rheos.core.operators.changelog.retractions import ChangeBuffer, changes_out, row_shape
from rheos.core.operators.changelog.row_orders import RowOrders
from rheos.core.operators.changelog.top_rows import Numbers, TopRows
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
from rheos.core.operators.running_values import ranked
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
    """Top-N of append-only rows. Rows that cannot be among the first of their key are filtered out a
    batch at a time. The order of the others and their changes are computed from columns. Only rows that
    are stored become Python rows."""

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
        if not len(places):
            return
        slots = slots[places]
        touched = np.unique(slots).tolist()
        # Rows are identified by number: first the current ones, then those that may enter.
        kept = [row for slot in touched for row in tops[slot]]
        arriving = batch.select(self._columns.names).take(pa.array(places))
        rows = _join_rows(batch_of(kept, self._columns), arriving) if kept else arriving
        sizes = [len(tops[slot]) for slot in touched]
        first = self._ordered(rows, np.concatenate([np.repeat(touched, sizes), slots]))
        for slot, size, end in zip(touched, sizes, accumulate(sizes), strict=True):
            first.add_key(slot, range(end - size, end))
        first.enter(slots.tolist(), range(len(kept), rows.num_rows))
        self._store(first, keys, kept, rows)
        if MAIN in self.ctx.outputs and first.entered:
            changes = first.changes()
            shown = rows.take(pa.array(changes.rows))
            columns = dict(zip(shown.schema.names, shown.columns, strict=True))
            columns |= {RANK: pa.array(changes.ranks), OP: changes.ops}
            yield from changes_out(self.ctx, columns, places[changes.origins - len(kept)], batch)

    def _store(self, ranked: TopRows, keys: Sequence[Key], kept: Sequence[Any], rows: Batch) -> None:
        """Store the first rows of the keys that have new ones."""
        first = len(kept)
        new = [number for numbers in ranked.numbers.values() for number in numbers if number >= first]
        values = dict(zip(new, rows_of(rows.take(pa.array(new, pa.int64())), None), strict=True))
        values |= enumerate(kept)
        for slot, numbers in ranked.numbers.items():
            if any(number >= first for number in numbers):
                self._state.values[keys[slot]] = [values[number] for number in numbers]
                self._state.dirty.add(keys[slot])

    def _ordered(self, rows: Batch, slots: Numbers) -> TopRows:
        """Return the order of rows with these keys. Only rows of a key with equal values are compared
        as Python rows."""
        ranks, _ = ranked(_rankable(rows.column(self._by)), greatest=not self._spec.smallest)
        places, order = ranks, np.lexsort([ranks, slots])
        same = (np.diff(ranks[order]) == 0) & (np.diff(slots[order]) == 0)
        if same.any():
            tied = order[np.append(same, False) | np.append(False, same)]
            ties = [self._tie(row) for row in rows_of(rows.take(pa.array(tied)), None)]
            codes = {tie: code for code, tie in enumerate(sorted(set(ties)))}
            places = ranks * len(codes)
            places[tied] += np.array([codes[tie] for tie in ties], np.int64)
        return TopRows(self._spec.n, places, ranks if self._spec.with_ties else None)

    def _top(self, key: Key) -> list[Any]:
        top: Any = self._state.values.get(key, MISSING)
        if top is MISSING:
            top = self._state.fetch(key)
        return [] if top is ABSENT else top

    def _may_enter(self, batch: Batch, slots: Slots, tops: Sequence[Sequence[Any]]) -> Numbers:
        """Return the rows that may be among the first. Rows without a value are not. If a key already
        has `n` rows, a row may be if it does not rank after all of them."""
        n, field = self._spec.n, self._columns.field(self._by)
        last = [top[n - 1][self._by] if len(top) >= n else None for top in tops]
        values = _rankable(batch.column(field.name))
        enters = values.is_valid()
        if any(value is not None for value in last):
            lasts = _rankable(column_of(last, pa.field(field.name, plain_type(field.type))))
            lasts = lasts.take(pa.array(slots))
            compare = pc.less_equal if self._spec.smallest else pc.greater_equal
            better = compare(values, lasts)
            if pa.types.is_floating(values.type):
                better = pc.or_(better, pc.is_nan(lasts if self._spec.smallest else values))
            enters = pc.and_(enters, pc.fill_null(better, True))
        return np.flatnonzero(enters.to_numpy(zero_copy_only=False))


def _join_rows(before: Batch, arriving: Batch) -> Batch:
    """Return the rows of two batches with the same columns."""
    columns = zip(before.columns, arriving.columns, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays(pair) for pair in columns], schema=before.schema
    )


def _rankable(values: pa.Array) -> pa.Array:
    """Return values of a type that Arrow can rank."""
    kind = plain_type(values.type)
    return values.cast(pa.float32() if pa.types.is_float16(kind) else kind)


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
