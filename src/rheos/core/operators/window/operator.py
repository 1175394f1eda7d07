"""Windows with built-in aggregates: columnar partial states, merged when a window fires.

```python
def window(first_ms: int) -> dict:
    start = datetime.fromtimestamp(first_ms / 1000, UTC)
    return {"window_start": start, "window_end": start + timedelta(milliseconds=10)}

check_example(
    OperatorExample(
        lambda hits: hits.key_by("page")
        .window(rh.Tumbling("10ms"))
        .aggregate(hits=rh.agg.count(), slowest=rh.agg.max("took")),
        pa.schema([("page", pa.string()), ("took", pa.int64()), ("at", pa.int64())]),
        [
            {"page": "home", "took": 5, "at": 1},
            {"page": "home", "took": 7, "at": 9},
            WatermarkMark(9),
            {"page": "home", "took": 3, "at": 10},
        ],
        on="at",
    ),
    {
        "out": [
            {"page": "home", **window(0), "hits": 2, "slowest": 7},
            {"page": "home", **window(10), "hits": 1, "slowest": 3},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.errors import InputError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.contract import FixedWindows, PaneAssignment
from rheos.core.operators.window.frames import KEY_GROUP, batches_of, empty_frame, in_order, paned
from rheos.core.operators.window.layout import PaneLayout
from rheos.core.operators.window.pane_columns import END, START
from rheos.core.operators.window.panes import PaneStore
from rheos.core.operators.window.pending_rows import PendingRows
from rheos.core.operators.window.table_contract import AggregateTable
from rheos.core.operators.window.trigger import Firing
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM
from rheos.core.protocol.state_config import NewAggregates
from rheos.core.state.key_limit import CountedLimit, KeyContents

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec

_TIME = pl.Datetime("ms", "UTC")


class WindowAggregateOperator(WindowOperator):
    """Emits a row per key and window: key, window_start, window_end, and the aggregates.

    Rows are combined by key and pane on arrival, a batch at a time.
    """

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        super().__init__(ctx, spec)
        tables = Tables(self._keys, spec.aggregates, ctx.ports[0].schema, self._windows)
        self._totals = tables.totals
        self._others = tables.others
        self._of_nothing = tables.of_nothing
        self._needs = tables.needs
        self._index = self._store(self._totals.merge, self._totals.reduce_of)
        self._other_stores = [self._store(table.merge) for table in self._others]
        # Fixed windows end; a session of a key may not.
        merging = () if isinstance(self._windows, FixedWindows) else self._others
        self._limits = [CountedLimit(ctx.key_limit(KeyContents.WINDOW_ROWS)) for _ in merging]
        if isinstance(self._windows, FixedWindows):
            self._waiting = PendingRows(ctx.state_bytes)
        self._used = dict(zip(self._keys, ctx.ports[0].keys, strict=True)) | tables.inputs

    def _columns(self) -> Mapping[str, str]:
        return self._used

    def _contents(self) -> Iterable[PaneStore]:
        return [self._index, *self._other_stores]

    def _absorb(self, rows: pl.DataFrame, assigned: PaneAssignment) -> pl.DataFrame:
        pane = self._windows.pane
        spans = [] if self._others else self._family.spans(rows)
        one_by_one = bool(spans) and self._index.takes_rows(rows.height)
        each = self._totals.of_each(rows, pane) if one_by_one else None
        if each is not None:
            self._index.add(each)
            return each
        if not spans:
            rows = self._family.arranged(rows)
        by = pane if pane[0] in rows.columns and not spans else ()
        for table, store in zip(self._others, self._other_stores, strict=True):
            store.add(paned(table.partial(rows, by), assigned, pane))
        for limit, store in zip(self._limits, self._other_stores, strict=False):
            limit.add(rows.height, store.height, store.largest)
        totals = paned(self._totals.partial(rows, by, spans), assigned, pane)
        self._index.add(totals)
        return totals

    def _fire(self, firing: Firing) -> Iterator[Out]:
        frames = firing.rows_of(self._index)
        if not frames:
            return
        on = [*self._keys, *self._windows.window]
        result = self._finished(self._totals, frames, firing.is_merged(self._index))
        for table, store in zip(self._others, self._other_stores, strict=True):
            frames = firing.rows_of(store)
            if frames:
                result = result.join(
                    self._finished(table, frames, firing.is_merged(store)), on=on, how="left"
                )
        output = self.ctx.outputs[MAIN]
        result = result.with_columns(pl.Series(START, self._windows.starts(result)))
        rows = in_order(result, [END, *self._keys]).select(self._results(result.columns))
        for batch in batches_of(rows, output.schema, self.ctx.batch_rows):
            yield Out(batch)

    def _finished(
        self, table: AggregateTable, frames: list[pl.DataFrame], is_merged: bool
    ) -> pl.DataFrame:
        merged = frames[0] if is_merged else self._merged(table, frames)
        try:
            return table.finish(merged)
        except SumTooLarge as error:
            row = merged.row(error.row, named=True)
            start = self._windows.starts(merged.slice(error.row, 1))[0]
            what, hint = error.text(self._spec.aggregates.values())
            raise InputError(
                f"{what} in the window from {start} to {row[END]} ms",
                site=self.ctx.site,
                operator=self.ctx.name,
                key=", ".join(repr(row[key]) for key in self._keys),
                hint=hint,
            ) from None

    def _merged(self, table: AggregateTable, frames: list[pl.DataFrame]) -> pl.DataFrame:
        """Return the state of each key and window."""
        window = self._windows.window
        if len(window) > 1:
            return table.merge(frames, window)
        of_rows = [frame[END].to_numpy() for frame in frames]
        ends = {int(end) for of in of_rows for end in (of.min(), of.max())}
        if len(ends) > 1:
            return table.merge(frames, window)
        # Within one window the key alone identifies a row, which halves the cost.
        merged = table.merge(frames, ())
        return merged.with_columns(pl.Series(END, np.full(merged.height, ends.pop(), np.int64)))

    def _results(self, present: list[str]) -> list[pl.Expr]:
        """Return the output's columns, from the results of the tables. If a window has no value in
        a column, the table of the column lacks the window."""
        end = pl.col(END)
        results = [
            pl.col(inside).alias(key)
            for inside, key in zip(self._keys, self.ctx.ports[0].keys, strict=True)
        ]
        results += [
            pl.col(START).cast(_TIME).alias("window_start"),
            end.cast(_TIME).alias("window_end"),
        ]
        for name in self._spec.aggregates:
            value = pl.col(name) if name in present else pl.lit(None)
            of_nothing = self._of_nothing.get(name)
            if of_nothing is not None:
                value = value.fill_null(of_nothing)
            lacks = self._totals.lacks(self._needs[name])
            if lacks is not None:
                value = pl.when(lacks).then(None).otherwise(value)
            results.append(value.alias(name))
        results.append((end - 1).alias(TS))
        if WM in self.ctx.outputs[MAIN].schema.names:
            results.append(pl.lit(MIN_TIMESTAMP_MS).alias(WM))
        if SWM in self.ctx.outputs[MAIN].schema.names:
            results.append((end - 2).alias(SWM))
        return results

    def _state_names(self) -> list[str]:
        return [table.name for table in (self._totals, *self._others)]

    def _layouts(self) -> Iterator[PaneLayout]:
        totals = self._totals
        yield PaneLayout(totals.name, self._index, totals.merge_totals)
        if totals.has_limbs:
            limbs = totals.merge_limbs
            yield PaneLayout(totals.sums_name, self._index, limbs, totals.limb_order, measures=False)
        for table, store in zip(self._others, self._other_stores, strict=True):
            yield PaneLayout(
                table.name, store, partial(table.merge, by=self._windows.pane), table.required
            )

    def _restore(self, restored: Restored) -> None:
        totals, pane = self._totals, self._windows.pane
        nothing = empty_frame(self.ctx.ports[0].schema, self._used)
        others = self._stored_of_others(restored)

        def completed(frame: pl.DataFrame) -> pl.DataFrame:
            return self._completed(frame, others, nothing)

        kinds, optional = totals.kinds(nothing), totals.optional
        for frame in self._restored_frames(restored, totals.name, kinds, optional, completed):
            self._note_restored(frame)
            self._add(self._index, totals.merge([frame.select(pl.exclude(KEY_GROUP))], pane))
        for long in self._restored_frames(restored, totals.sums_name, totals.limb_kinds(nothing), ()):
            self._add(self._index, totals.with_limbs(nothing, long))
        for table, store in zip(self._others, self._other_stores, strict=True):
            kinds = table.kinds(nothing)
            nullable = () if self.ctx.state.new_aggregates is None else kinds
            for frame in self._restored_frames(restored, table.name, kinds, nullable):
                self._add(store, frame.select(*self._keys, *pane, *table.required))

    def _stored_of_others(self, restored: Restored) -> set[str]:
        """Return the values stored in addition to the totals, by the names that aggregates use."""
        found: set[str] = set()
        for table in self._others:
            if table.name in self._progress.states:
                # Without a table here, no value of any column was stored for these panes.
                columns = next((of.column_names for of in restored.get(table.name, ())), table.required)
                found |= table.stored_of(columns)
        return found

    def _completed(
        self, panes: pl.DataFrame, others: Container[str], nothing: pl.DataFrame
    ) -> pl.DataFrame:
        """Return restored panes of the totals, with the state of aggregates that are new since. The new
        state is that of no rows. It is marked if the user wants null for such panes."""
        stored = self._totals.stored_of(panes.columns)
        needed = dict.fromkeys(need for needs in self._needs.values() for need in needs)
        lacking = [need for need in needed if need not in stored and need not in others]
        if not lacking or not panes.height:
            return self._totals.completed(panes, nothing)
        match self.ctx.state.new_aggregates:
            case NewAggregates.NULL:
                return self._totals.marked(self._totals.completed(panes, nothing), lacking)
            case NewAggregates.SINCE:
                return self._totals.completed(panes, nothing)
            case None:
                raise self._missing_state(self._totals.name, min(lacking))
