"""Windows with a process function: rows are stored unchanged, and passed to the function when a window
fires.

```python
class Longest(rh.WindowFunction):
    def process(self, records: list, ctx: rh.WindowContext):
        yield {"page": ctx.key, "end": ctx.window.end_ms, "took": max(r.took for r in records)}

check_example(
    OperatorExample(
        lambda hits: hits.key_by("page")
        .window(rh.Sliding("10ms", every="5ms"))
        .process(Longest(), returns={"page": str, "end": int, "took": int}),
        pa.schema([("page", pa.string()), ("took", pa.int64()), ("at", pa.int64())]),
        [{"page": "home", "took": 5, "at": 1}, {"page": "home", "took": 7, "at": 6}],
        on="at",
    ),
    {
        "out": [
            {"page": "home", "end": 5, "took": 5},
            {"page": "home", "end": 10, "took": 7},
            {"page": "home", "end": 15, "took": 7},
        ]
    },
)
```
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import RheosError
from rheos.core.graph.functions import TimeWindow
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.records import (
    HiddenColumns,
    UserRaised,
    not_iterable,
    user_error,
    with_hidden,
    wrong_type,
)
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.contract import PaneAssignment
from rheos.core.operators.window.frames import paned
from rheos.core.operators.window.layout import PaneLayout
from rheos.core.operators.window.pane_columns import END
from rheos.core.operators.window.panes import PaneStore
from rheos.core.operators.window.stored_rows import TIME, StoredRows
from rheos.core.operators.window.trigger import Firing
from rheos.core.protocol.types import TypeMismatch, batch_of, columns_to_python, rows_of
from rheos.core.safe_strings import shown
from rheos.core.state.key_limit import CountedLimit, KeyContents

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec

STATE = "rows"

_ROWS_AT_ONCE = 1 << 14
"""Maximum rows that are Python objects at once, unless a key has more in one window."""


class _Context:
    """The WindowContext of the user's function. One object serves all calls."""

    __slots__ = ("key", "window")

    def __init__(self) -> None:
        self.key: Any = None
        self.window = TimeWindow(0, 0)


class WindowRowsOperator(WindowOperator):
    """Windows that store their rows unchanged."""

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        super().__init__(ctx, spec)
        self._rows = StoredRows(ctx.ports[0])
        self._index = self._store(self._merge)
        self._limit = CountedLimit(ctx.key_limit(KeyContents.WINDOW_ROWS))

    def _columns(self) -> Mapping[str, str]:
        return self._rows.columns

    def _contents(self) -> Iterable[PaneStore]:
        return [self._index]

    def _absorb(self, rows: pl.DataFrame, assigned: PaneAssignment) -> pl.DataFrame:
        rows = paned(rows, assigned, self._windows.pane)
        self._index.add(rows)
        self._limit.add(rows.height, self._index.height, self._index.largest)
        return rows

    def _merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        columns = [*self._rows.columns, *by]
        return pl.concat([frame[columns] for frame in frames])

    # --- snapshots ------------------------------------------------------------------------------------

    def _state_names(self) -> list[str]:
        return [STATE]

    def _layouts(self) -> Iterator[PaneLayout]:
        yield PaneLayout(STATE, self._index, partial(self._merge, by=self._windows.pane), (TIME,))

    def _restore(self, restored: Restored) -> None:
        for frame in self._restored_frames(restored, STATE, self._rows.kinds, self._rows.nullable):
            self._note_restored(frame)
            self._add(self._index, frame.select(*self._rows.columns, *self._windows.pane))


class WindowProcessOperator(WindowRowsOperator):
    """Calls the function for each key and window, with its records sorted by timestamp. Records with
    the same timestamp are sorted by their columns, nulls last."""

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        super().__init__(ctx, spec)
        assert spec.fn is not None
        # Subtasks that share a process must not share the user's object.
        self._process: Callable[[list[Any], Any], Any] = copy.deepcopy(spec.fn).process
        self._context = _Context()

    def _fire(self, firing: Firing) -> Iterator[Out]:
        frames = firing.rows_of(self._index)
        if not frames:
            return
        # The end of a window is the first part of its identity.
        group = [END, *self._keys]
        rows = self._merge(frames, self._windows.window)
        rows = rows.sort([*group, TIME, *self._rows.values], nulls_last=True)
        named = [pl.col(column).first() for column in self._windows.window if column != END]
        groups = rows.group_by(group, maintain_order=True).agg(pl.len(), *named)
        windows = list(zip(self._windows.starts(groups).tolist(), groups[END].to_list(), strict=True))
        lengths = groups["len"].to_numpy()
        pending = _Pending(self.ctx)
        stops = np.cumsum(lengths)
        begin = 0
        while begin < len(windows):
            offset = int(stops[begin] - lengths[begin])
            # As many whole groups as fit, and at least one.
            stop = max(begin + 1, int(np.searchsorted(stops, offset + _ROWS_AT_ONCE, side="right")))
            batch = self._rows.batch(rows.slice(offset, int(stops[stop - 1]) - offset))
            records = self._records(batch)
            starts = (stops[begin:stop] - lengths[begin:stop] - offset).tolist()
            keys = self._keys_of(batch, starts)
            for key, window, start, length in zip(
                keys, windows[begin:stop], starts, lengths[begin:stop].tolist(), strict=True
            ):
                yield from self._call(
                    key, TimeWindow(*window), records[start : start + length], pending
                )
            begin = stop
        yield from pending.flush()

    def _records(self, batch: pa.RecordBatch) -> list[Any]:
        return rows_of(batch, self._spec.record)

    def _keys_of(self, batch: pa.RecordBatch, rows: list[int]) -> Iterable[Any]:
        chosen = pa.array(rows, pa.int64())
        columns = [columns_to_python(batch.column(key).take(chosen)) for key in self.ctx.ports[0].keys]
        return columns[0] if len(columns) == 1 else zip(*columns, strict=True)

    def _call(
        self, key: Any, window: TimeWindow, records: list[Any], pending: _Pending
    ) -> Iterator[Out]:
        context = self._context
        context.key, context.window = key, window
        pending.begin(key, window, records)
        try:
            result = self._process(records, context)
        except UserRaised as error:
            raise pending.located(user_error(self.ctx, error, key=key)) from error
        if result is None:
            return
        if not isinstance(result, Iterable):
            raise pending.located(not_iterable(self.ctx, result, record=None, key=key))
        outputs = iter(result)
        while True:
            try:
                more = list(islice(outputs, pending.room))
            except UserRaised as error:
                raise pending.located(user_error(self.ctx, error, key=key)) from error
            pending.take(more)
            if pending.room:
                return
            yield from pending.flush()


class _Pending:
    """Outputs that are not a batch yet, and the calls that returned them."""

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._schema = ctx.outputs[MAIN].schema
        self._record = ctx.outputs[MAIN].type.record
        self._outputs: list[Any] = []
        self._starts: list[int] = []
        self._calls: list[tuple[Any, TimeWindow, int, Any]] = []

    @property
    def room(self) -> int:
        return self._ctx.batch_rows - len(self._outputs)

    def begin(self, key: Any, window: TimeWindow, records: list[Any]) -> None:
        """Attribute the following output to this call."""
        if self._starts and self._starts[-1] == len(self._outputs):
            self._starts.pop()
            self._calls.pop()
        self._starts.append(len(self._outputs))
        self._calls.append((key, window, len(records), records[0]))

    def take(self, outputs: list[Any]) -> None:
        self._outputs += outputs

    def flush(self) -> Iterator[Out]:
        if not self._outputs:
            return
        try:
            batch = batch_of(self._outputs, self._schema, self._record)
        except TypeMismatch as mismatch:
            call = bisect_right(self._starts, mismatch.index) - 1
            error = wrong_type(self._ctx, mismatch, key=self._calls[call][0])
            raise self.located(error, call) from mismatch
        counts = np.diff([*self._starts, len(self._outputs)])
        ends = np.array([window.end_ms for _, window, *_ in self._calls], dtype=np.int64)
        self._outputs, self._starts, self._calls = [], [0], self._calls[-1:]
        yield Out(with_hidden(batch, self._schema, HiddenColumns(np.repeat(ends - 1, counts))))

    def located(self, error: RheosError, call: int = -1) -> RheosError:
        """Add the window of a call, and an example of its records, to an error. Return the error."""
        _, window, count, first = self._calls[call]
        error.record = (
            f"{count} of the window from {window.start_ms} to {window.end_ms} ms, the first of "
            f"which is {shown(first)}"
        )
        return error
