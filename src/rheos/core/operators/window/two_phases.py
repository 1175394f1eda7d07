"""Windows in two phases: upstream subtasks combine their rows, and the subtask of the windows merges
partials.

    rows ─ combine ─ partials ═ exchange ═ partials ─ windows ─ results

The first phase keeps no rows between batches: it emits the partials of each batch at once (`partials`).
So no watermark, barrier or idle mark can overtake its rows, and it has no state.

The first phase decides whether a row is late, by the watermark of the row's split, as all operators do.
If the second phase has purged a partial's window, the partial is late there (`late_purged`). That
happens only if its split was idle.

```python
check_timeline(
    lambda sales: sales.window_all(rh.Tumbling("10s")).aggregate(
        sales=rh.agg.count(), most=rh.agg.max("price")
    ),
    '''
    5@1s 7@9s 3@12s
    w12s      > 0s,10s,2,7
    4@13s w20s > 10s,20s,2,4
    ''',
    {"price": int, "at": datetime},
    event_time="at",
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.count import ROWS
from rheos.core.operators.contract import Needed, Operator, OperatorContext, Out, PortType, SplitSpec
from rheos.core.operators.origins import Origin, RowsOfWindow
from rheos.core.operators.window.contract import FixedWindows, PaneAssignment
from rheos.core.operators.window.frames import empty_frame, frame_of, paned
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.pane_columns import PANE
from rheos.core.operators.window.partials import Partials, listed
from rheos.core.operators.window.pending_rows import PendingRows
from rheos.core.operators.window.states import window_states
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SWM, TS, WM, Batch
from rheos.core.protocol.shapes import StateShape

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec

_MOST_PARTIALS = 1 << 10
"""Maximum number of partials buffered for merging. Each combines a whole batch of rows."""


def partials_of(windows: WindowSpec, key: str, schema: pa.Schema) -> Partials:
    """Return the partials of fixed windows over rows of `schema`. Column `key` has a single value."""
    kind = windows_of(windows.window)
    assert isinstance(kind, FixedWindows)
    return Partials(key, windows.aggregates, schema, kind)


@dataclass(frozen=True)
class WindowCombineSpec(SplitSpec):
    """The first phase: converts rows into partials."""

    kind: ClassVar[str] = "combine"

    windows: WindowSpec
    key: str

    def operator(self, ctx: OperatorContext) -> Operator:
        return WindowCombineOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        return column == WM if column in (WM, SWM) else None

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        read = {name for agg in self.windows.aggregates.values() for name in agg.columns}
        return frozenset({self.key, *read}).intersection(columns.names)


@dataclass(frozen=True)
class MergedWindowSpec(SplitSpec):
    """The second phase: merges partials into results. Its state is that of windows over the rows."""

    kind: ClassVar[str] = "window"

    windows: WindowSpec
    rows: PortType
    """The rows from which partials are computed."""

    def operator(self, ctx: OperatorContext) -> Operator:
        return MergedWindowOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        return False if column in (WM, SWM) else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return window_states(self.windows, self.rows)

    def origin(self) -> Origin:
        return RowsOfWindow(self.windows.lateness_ms, of_partials=True)


class WindowCombineOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: WindowCombineSpec) -> None:
        super().__init__(ctx)
        self._windows = windows_of(spec.windows.window)
        self._lateness_ms = spec.windows.lateness_ms
        self._partials = partials_of(spec.windows, spec.key, ctx.ports[0].schema)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        ts, wm = batch.column(TS).to_numpy(), batch.column(WM).to_numpy()
        assigned = self._windows.assign(ts, wm, self._lateness_ms, MIN_TIMESTAMP_MS)
        if assigned.outside:
            self.ctx.count("outside_windows", assigned.outside)
        if assigned.late is not None:
            self.ctx.count("late", int(assigned.late.sum()))
        if assigned.taken is not None:
            batch = batch.filter(pa.array(assigned.taken))
        if not batch.num_rows:
            return
        rows = frame_of(batch, self._partials.inputs, assigned, self._windows.pane)
        made = self._partials.made(rows, assigned)
        for begin in range(0, made.num_rows, self.ctx.batch_rows):
            yield Out(made.slice(begin, self.ctx.batch_rows))


class MergedWindowOperator(WindowAggregateOperator):
    def __init__(self, ctx: OperatorContext, spec: MergedWindowSpec) -> None:
        super().__init__(replace(ctx, ports=(spec.rows,)), spec.windows)
        (key,) = spec.rows.keys
        kept = partials_of(spec.windows, key, spec.rows.schema).kept
        self._partials = dict(zip([*self._keys, *kept], [key, *kept], strict=True))
        self._nothing = empty_frame(spec.rows.schema, self._used)
        self._waiting = PendingRows(ctx.state_bytes, _MOST_PARTIALS)

    def _columns(self) -> Mapping[str, str]:
        return self._partials

    def _assigned(self, batch: Batch) -> PaneAssignment:
        """Assign partials to the panes that they belong to, except windows that are purged here."""
        assert isinstance(self._windows, FixedWindows)
        slices, valids = (batch.column(name).to_numpy() for name in PANE)
        passed = max(self._progress.watermark - self._spec.lateness_ms + 1, MIN_TIMESTAMP_MS)
        valids, left = self._windows.due(slices, valids, passed, MAX_TIMESTAMP_MS)
        taken = left > 0
        if taken.all():
            return PaneAssignment((slices, valids), None, None)
        purged = int(np.count_nonzero(~taken))
        return PaneAssignment((slices[taken], valids[taken]), taken, ~taken, purged)

    def _count_late(self, late: Batch, purged: int) -> None:
        rows = pc.sum(late.column(ROWS.name)).as_py()
        self.ctx.count("late", rows)
        self.ctx.count("late_purged", rows)

    def _absorb(self, rows: pl.DataFrame, assigned: PaneAssignment) -> pl.DataFrame:
        pane, totals = self._windows.pane, self._totals
        index = [*self._keys, *pane]
        partials = paned(rows, assigned, pane)
        for table, store in zip(self._others, self._other_stores, strict=True):
            store.add(listed(partials, index, table.name))
        frames = [partials[[*index, *totals.required, *totals.optional]]]
        if totals.has_exact:
            limbs = listed(partials, index, totals.sums_name)
            frames.append(totals.with_limbs(self._nothing, limbs))
        merged = totals.merge(frames, pane)
        self._index.add(merged)
        return merged
