"""`over`: adds to each row of an updating table aggregates over the rows around it.

State holds all rows of a key. When a row changes, the operator retracts each row whose aggregates have
changed, and emits it again. The rows are kept in order with their aggregates (`RowOrders`), so that the
operator computes only rows near the change again: those whose frames may include it, or begin or end
elsewhere because of it. It resumes the frames before them (`resumed_frames`).

```python
check_example(
    OperatorExample(
        lambda sales: sales.key_by("shop").transformation.add(
            OverSpec(
                OverColumns("day", ("price",), (Sum("price"),), ("total",)),
                FrameSpec(by_rows=True, preceding=1),
                ("id",),
            ),
            "over",
            {
                MAIN: StreamType(
                    pa.schema(
                        [
                            *sales.schema.remove(sales.schema.get_field_index("op")),
                            ("total", pa.int64()),
                            ("op", pa.string()),
                        ]
                    ),
                    False,
                    changes=Changes(("shop", "id"), retracts=True),
                )
            },
        ).stream,
        pa.schema(
            [
                ("shop", pa.string()),
                ("id", pa.int64()),
                ("day", pa.int64()),
                ("price", pa.int64()),
                ("op", pa.string()),
            ]
        ),
        [
            {"shop": "a", "id": 1, "day": 1, "price": 3, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "op": "insert"},
            {"shop": "a", "id": 2, "day": 2, "price": 4, "op": "insert"},
        ],
        upserts_by=("shop", "id"),
    ),
    {
        "out": [
            {"shop": "a", "id": 1, "day": 1, "price": 3, "total": 3, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 8, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 8, "op": "update_before"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 9, "op": "update_after"},
            {"shop": "a", "id": 2, "day": 2, "price": 4, "total": 7, "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.graph.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import goes, store_row, table_columns
from rheos.core.operators.changelog.retractions import ChangeBuffer, row_shape
from rheos.core.operators.changelog.row_orders import OrderChange, RowOrders
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.operators.over.event_time_over import OverColumns
from rheos.core.operators.over.moving_frames import (
    FrameRow,
    FrameSpec,
    FrameTooLarge,
    MovingFrames,
    distance,
)
from rheos.core.operators.over.resumed_frames import Entries, OverRow, ResumedFrames
from rheos.core.operators.row_order import alike, row_order, value_order
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import rows_of
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.keys import Key, KeyCodec

_ROWS = "rows"


@dataclass(frozen=True)
class OverSpec(KeySpec):
    columns: OverColumns
    frame: FrameSpec
    known_by: tuple[str, ...]
    """Primary key of the table."""

    kind: ClassVar[str] = "over"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return ChangelogOverOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        row = row_shape(table_columns(ports[0].schema))
        rows = TypeShape(name="dict", args=[TypeShape(name="str"), row])
        return {_ROWS: keyed_shape(ports[0], StatePurpose.MAP, rows)}

    def summary(self) -> str:
        return f"{self.columns} of {self.frame} by {self.columns.by}"


class ChangelogOverOperator(KeyedStateOperator):
    """Keeps the rows of each partition by their primary key."""

    def __init__(self, ctx: OperatorContext, spec: OverSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._state = self.backend.maps(_ROWS, str, object)
        self._limit = ctx.key_limit(KeyContents.OVER_ROWS)
        self._columns = table_columns(port.schema)
        tie = row_order(self._columns)
        places = self._columns.get_field_index
        self._by = places(spec.columns.by)
        by_order = value_order(self._columns.field(self._by).type)
        self._arguments = [places(name) for name in spec.columns.arguments]
        states = spec.columns.states(self._columns, spec.frame)
        self._frames = {*(spec.columns.frames or (spec.frame,))}
        self._resumed = ResumedFrames(
            lambda: MovingFrames(states, spec.frame, spec.columns.frames),
            self._frame_row,
            [*self._frames],
        )
        self._known_by = [places(name) for name in spec.known_by]
        self._orders: RowOrders[OverRow] = RowOrders(
            lambda row: by_order(row.values[self._by]),
            lambda row: tie(row.values),
            smallest=not spec.frame.descending,
        )

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, gone = self._codec.of(batch), goes(batch).tolist()
        rows = rows_of(batch.select(self._columns.names), None)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            some = range(first, min(first + stride, len(keys)))
            self.backend.prepare(keys[some.start : some.stop])
            items = [repr(tuple(rows[at][place] for place in self._known_by)) for at in some]
            of_rows = [*zip(some, keys[some.start : some.stop], items, strict=True)]
            made = []
            for (at, key, item), following in zip_longest(of_rows, of_rows[1:]):
                # The removal of a row that is replaced at once would change the rows around it twice.
                replaced = following is not None and following[1:] == (key, item)
                if gone[at] and replaced and not gone[at + 1]:
                    continue
                changed = self._changed(key, item, None if gone[at] else rows[at])
                made += [(row, op, at) for row, op in changed]
            yield from self._emit(made, batch)

    def _changed(self, key: Key, item: str, after: Any) -> Iterator[tuple[Any, str]]:
        """Replace a stored row by `after`, which may be None. Yield the changes to the rows of its key,
        each with the results it had or has."""
        stored = self._state.read(key, {})
        entries = self._orders.known(key)
        if entries is None:
            entries = self._orders.add(key, {item: OverRow(each) for item, each in stored.items()})
            for entry, results in zip(entries, self._results(entries, 0, len(entries)), strict=True):
                entry.row.results = results
        was = stored.get(item)
        if after is not None:
            store_row(self._state, self._limit, key, item, after, len(stored) + (was is None))
        elif was is not None:
            self._state.remove(key, item)
        else:
            return
        sorted_as = None if was is None else OverRow(was)
        change = self._orders.change(key, item, sorted_as, None if after is None else OverRow(after))
        yield from self._updated(entries, change)

    def _updated(self, entries: Entries, change: OrderChange[OverRow]) -> Iterator[tuple[Any, str]]:
        """Compute the results around a change, and yield the changes to rows in their order, a new row
        last."""
        gone, added = change.removed, None if change.added is None else entries[change.added].row
        begin, end = self._affected(entries, change)
        results = self._results(entries, begin, end)
        if added is not None and change.added is not None:
            added.results = results[change.added - begin]
        for at in range(begin, end + 1):
            if at == change.gap and gone is not None:
                yield from _replaced(gone, added)
            if at < end and at != change.added:
                row, result = entries[at].row, results[at - begin]
                yield from _replaced(row, after := OverRow(row.values, result))
                row.results = after.results
        if gone is None and added is not None:
            yield added.whole, INSERT

    def _frame_row(self, row: OverRow) -> FrameRow:
        return FrameRow(row.values[self._by], tuple(row.values[at] for at in self._arguments))

    def _affected(self, entries: Entries, change: OrderChange[OverRow]) -> tuple[int, int]:
        """Return the range of rows whose frames a change may have changed, with all of their peers."""
        by = self._by
        places = [at for at in (change.gap, change.added) if at is not None]
        values = [] if change.removed is None else [change.removed.values[by]]
        if change.added is not None:
            values.append(entries[change.added].row.values[by])
        begin, end = min(places), max(places)
        for frame in self._frames:
            if frame.by_rows:
                begin = min(begin, _moved(min(places), frame.following, -1, len(entries)))
                end = max(end, _moved(max(places) + 1, frame.preceding, 1, len(entries)))
            else:
                for at, value in zip(places, values, strict=True):
                    begin = min(begin, self._find_end(entries, at, value, frame.following, -1))
                    end = max(end, self._find_end(entries, at, value, frame.preceding, 1))
        if begin < end and not all(frame.by_rows for frame in self._frames):
            begin = self._find_end(entries, begin, entries[begin].row.values[by], 0, -1)
            end = self._find_end(entries, end, entries[end - 1].row.values[by], 0, 1)
        return begin, end

    def _find_end(self, entries: Entries, at: int, here: Any, far: int | None, step: int) -> int:
        """Return the end of the rows within a distance of a sort value and its peers: before the index
        `at` (`step` is -1), or from it on (`step` is 1)."""
        if far is None:
            return 0 if step < 0 else len(entries)
        frame, by = self._spec.frame, self._by
        while 0 <= (place := at - (step < 0)) < len(entries):
            there = entries[place].row.values[by]
            if there != here and (far <= 0 or step * distance(here, there, frame) > far):
                break
            at += step
        return at

    def _needed(self, entries: Entries, begin: int, end: int) -> tuple[int, int]:
        """Return the range of the rows in the frames of a range of rows, which is not empty."""
        first, stop = begin, end
        values = [entries[at].row.values[self._by] for at in (begin, end - 1)]
        for frame in self._frames:
            if frame.by_rows:
                first = min(first, _moved(begin, frame.preceding, -1, len(entries)))
                stop = max(stop, _moved(end, frame.following, 1, len(entries)))
            else:
                first = min(first, self._find_end(entries, begin, values[0], frame.preceding, -1))
                stop = max(stop, self._find_end(entries, end, values[1], frame.following, 1))
        return first, stop

    def _results(self, entries: Entries, begin: int, end: int) -> list[tuple[Any, ...]]:
        """Return the results of a range of rows that `_affected` returned."""
        if begin == end:
            return []
        columns = self._spec.columns
        try:
            return self._resumed.results(entries, begin, end, lambda: self._needed(entries, begin, end))
        except FrameTooLarge as error:
            values = entries[begin + error.row].row.values
            record = dict(zip(self._columns.names, values, strict=True))
            found = columns.too_large(error, record)
            found.key = ", ".join(repr(record[key]) for key in self.ctx.ports[0].keys)
            raise found.located(site=self.ctx.site, operator=self.ctx.name) from None

    def open(self, restored: Restored) -> None:
        super().open(restored)
        self._orders.clear()

    def next_keys(self) -> None:
        super().next_keys()
        self._orders.clear()

    def _emit(self, made: Sequence[tuple[Any, str, int]], batch: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        added = [output.schema.field(name) for name in self._spec.columns.results]
        changes = ChangeBuffer(self.ctx, pa.schema([*self._columns, *added]))
        for row, op, origin in made:
            changes.add(row, op, origin)
        yield from changes.of(batch)


def _replaced(before: OverRow, after: OverRow | None) -> Iterator[tuple[Any, str]]:
    if after is None:
        yield before.whole, DELETE
    elif not alike(was := before.whole, now := after.whole):
        yield was, UPDATE_BEFORE
        yield now, UPDATE_AFTER


def _moved(at: int, by: int | None, step: int, count: int) -> int:
    """Return the index that is a number of rows before `at` (`step` is -1) or after it, within `count`
    rows. None is the number of all rows."""
    if by is None:
        return 0 if step < 0 else count
    return min(max(at + step * max(by, 0), 0), count)
