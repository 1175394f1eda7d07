"""Rows whose lateness is not decided yet: rows of merging windows whose watermark had passed them on
arrival.

Such a row is late, unless a window of its key was open from the row's own end up to the row's
watermark. Then the row belongs to that window. The operator decides this when its watermark has passed
that of the row. Until then it buffers the row, with all its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.operators.contract import PortType
from rheos.core.operators.records import HiddenColumns, hidden_column, with_hidden
from rheos.core.operators.window.contract import MergingWindows, PaneAssignment
from rheos.core.operators.window.frames import frame_of, key_names, paned
from rheos.core.operators.window.layout import PaneLayout
from rheos.core.operators.window.merging import covering
from rheos.core.operators.window.merging_panes import EVER, MergingPanes
from rheos.core.operators.window.merging_trigger import MergingTrigger
from rheos.core.operators.window.pane_columns import OPEN_FROM
from rheos.core.operators.window.panes import MemoryBudget
from rheos.core.operators.window.stored_rows import TIME, StoredRows
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, WM, Batch

STATE = "undecided"
_WM = "wm"


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """Rows whose lateness is decided, as they arrived, with the hidden columns TS and WM."""

    rows: Batch
    assigned: PaneAssignment | None
    """Panes of the rows; None if they are late."""
    purged: int = 0
    """Number of late rows that their own watermark had not passed."""


class LateCandidates:
    """The undecided rows of one subtask."""

    def __init__(
        self, windows: MergingWindows, port: PortType, lateness_ms: int, memory: MemoryBudget
    ) -> None:
        self._windows = windows
        # A window that ends at e is passed by a watermark unless e >= watermark + this.
        self._ahead_ms = 2 - lateness_ms
        self._keys = key_names(port.keys)
        self._rows = StoredRows(port)
        self._schema = pa.schema([*self._rows.schema, (TS, pa.int64()), (WM, pa.int64())])
        self.kinds = {**self._rows.kinds, _WM: pl.Int64()}
        """Columns of the state, without those of the pane."""
        self.nullable = self._rows.nullable
        self.store = MergingPanes(windows.pane, self._merge, self._keys, memory, joins=False)
        self.layout = PaneLayout(STATE, self.store, self._merge_frames, (TIME, _WM))

    def _merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return pl.concat([frame[[*self.kinds, *by]] for frame in frames])

    def _merge_frames(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return self._merge(frames, self._windows.pane)

    def add(self, batch: Batch, purged_through: int) -> None:
        """Buffer rows until the operator's watermark, now `purged_through`, passes their own."""
        ts, wm = hidden_column(batch, TS), hidden_column(batch, WM)
        assert ts is not None, "windows have event time"
        own = np.full(len(ts), MIN_TIMESTAMP_MS) if wm is None else wm
        passed = np.maximum(own, purged_through) + self._ahead_ms
        assigned = PaneAssignment((passed, passed, ts), None, None)
        pane = self._windows.pane
        rows = paned(frame_of(batch, self._rows.columns, assigned, pane), assigned, pane)
        self.store.add(self._merge_frames([rows.hstack([pl.Series(_WM, own)])]))

    def decided(self, watermark: int, trigger: MergingTrigger) -> Iterator[DecidedRows]:
        """Decide about the rows whose watermark this one has passed, and yield them."""
        # Their pane is open at one time only, which is their watermark + `_ahead_ms`.
        upto = watermark - 1 + self._ahead_ms
        if not self.store.has(EVER, upto):
            return
        parts, taken = self.store.parts(), self.store.take(upto)
        for places in parts:
            frames = list(taken.rows(places))
            if not frames:
                continue
            rows = pl.concat(frames)
            ends = self._windows.end_of(rows[TIME].to_numpy())
            found = trigger.look_up(rows.select(self._keys).unique(), places)
            passed = rows[OPEN_FROM].to_numpy()
            taken_up = np.zeros(rows.height, dtype=np.bool_)
            if found is not None:
                taken_up = covering(rows, ends, passed, found.windows, self._keys) >= 0
            if taken_up.any():
                theirs = rows.filter(pl.Series(taken_up))
                panes = tuple(theirs[name].to_numpy() for name in self._windows.pane)
                yield DecidedRows(self._batch(theirs), PaneAssignment(panes, None, None))
            if not taken_up.all():
                by_itself = rows[_WM].to_numpy() + self._ahead_ms > ends
                purged = int((~taken_up & ~by_itself).sum())
                yield DecidedRows(self._batch(rows.filter(pl.Series(~taken_up))), None, purged)

    def _batch(self, rows: pl.DataFrame) -> Batch:
        hidden = HiddenColumns(*(rows[name].to_numpy() for name in (TIME, _WM)))
        return with_hidden(self._rows.batch(rows), self._schema, hidden)
