"""Assignment of the rows of a batch to windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rheos.core.errors import InputError, UserFunctionError
from rheos.core.graph.exact_decimals import ExactExpression
from rheos.core.graph.functions import TimeWindow
from rheos.core.graph.window_functions import GLOBAL, AssignerContext, WindowAssigner
from rheos.core.graph.windows import CountWindow, GlobalWindows, Session, Window
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.window.contract import FixedWindows, Ints, MergingWindows
from rheos.core.operators.window.kinds import windows_of
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch, strip_hidden
from rheos.core.safe_strings import shown

Bounds: TypeAlias = tuple[int, int]
"""Bounds of a window: [start_ms, end_ms)."""


@dataclass(frozen=True)
class RowWindowPairs:
    """Pairs of a row and one of its windows, in the order of the rows and then of the windows' ends."""

    rows: list[int]
    windows: list[Bounds]
    late: Ints
    """Rows that are late for all their windows."""
    purged: int = 0
    """Number of late rows that are late only because this subtask had purged their windows."""
    outside: int = 0
    """Number of rows without a window."""


class BatchRows(NamedTuple):
    """The rows of a batch, as columns and as records."""

    batch: Batch
    records: Sequence[Any]


_NONE_LATE: Ints = np.empty(0, np.int64)


class WindowAssignment(ABC):
    """The assignment of rows to windows of one kind."""

    merges: ClassVar[bool] = False

    @abstractmethod
    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        """Assign rows to windows.

        `ts` is the time by which windows are assigned. `wm` is the watermark of each row's own split,
        which decides whether a row is late. `passed_ms` is the operator's progress. For merging
        windows, the result has the window of each single row, and no row is late yet.
        """


class GlobalAssignment(WindowAssignment):
    """Assignment to a single window per key."""

    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        window = GLOBAL.start_ms, GLOBAL.end_ms
        return RowWindowPairs(list(range(len(rows.records))), [window] * len(rows.records), _NONE_LATE)


class FixedAssignment(WindowAssignment):
    """Assignment for windows with fixed bounds, by columnar arithmetic."""

    def __init__(self, windows: FixedWindows, lateness_ms: int) -> None:
        self._windows, self._lateness_ms = windows, lateness_ms

    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        assert ts is not None
        windows = self._windows
        assigned = windows.assign(ts, wm, self._lateness_ms, passed_ms)
        at = np.arange(len(ts)) if assigned.taken is None else np.flatnonzero(assigned.taken)
        slices, valids = (np.broadcast_to(pane, at.shape) for pane in assigned.panes)
        if not len(at):
            pairs: tuple[list[int], list[Bounds]] = [], []
        else:
            upto = int(windows.last_end(slices).max())
            ends, owner = windows.ends(*windows.due(slices, valids, MIN_TIMESTAMP_MS, upto))
            bounds = zip(windows.start_of(ends).tolist(), ends.tolist(), strict=True)
            pairs = at[owner].tolist(), list(bounds)
        late = _NONE_LATE if assigned.late is None else np.flatnonzero(assigned.late)
        return RowWindowPairs(*pairs, late, assigned.purged, assigned.outside)


class SessionAssignment(WindowAssignment):
    """Assignment to windows that grow with their rows."""

    merges = True

    def __init__(self, windows: MergingWindows) -> None:
        self._windows = windows

    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        assert ts is not None
        ends = self._windows.end_of(ts)
        windows = list(zip(ts.tolist(), ends.tolist(), strict=True))
        return RowWindowPairs(list(range(len(windows))), windows, _NONE_LATE)


class OwnGapAssignment(WindowAssignment):
    """Assignment to sessions whose gap is an expression over the row."""

    merges = True

    def __init__(self, gap: pl.Expr, ctx: OperatorContext) -> None:
        self._gap, self._ctx = ExactExpression(gap), ctx

    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        assert ts is not None
        frame = pl.DataFrame(strip_hidden(rows.batch))
        gaps = self._gap.values(frame)
        if gaps.dtype == pl.Duration:
            gaps = gaps.dt.total_milliseconds()
        bad = (gaps.is_null() | (gaps <= 0)).arg_max()
        if bad is not None and (gaps[bad] is None or gaps[bad] <= 0):
            raise InputError(
                f"the gap of the session is {gaps[bad]} ms",
                site=self._ctx.site,
                operator=self._ctx.name,
                record=shown(rows.records[bad]),
                hint="a gap must be longer than 0: filter out such rows upstream, or use another "
                "gap for them (.fill_null(...))",
            )
        ends = ts + gaps.to_numpy().astype(np.int64)
        windows = list(zip(ts.tolist(), ends.tolist(), strict=True))
        return RowWindowPairs(list(range(len(windows))), windows, _NONE_LATE)


class FunctionGap(WindowAssigner):
    """Assigner of sessions whose gap is a function of the record."""

    merges = True

    def __init__(self, gap: Callable[[Any], Duration | int]) -> None:
        self._gap = gap

    def assign(self, record: Any, timestamp: int, ctx: AssignerContext) -> list[TimeWindow]:
        gap = self._gap(record)
        ms = gap if isinstance(gap, int) else duration_ms(gap)
        if ms <= 0:
            raise UserFunctionError(
                f"the gap of the session is {shown(gap)}", hint="a gap must be longer than 0"
            )
        return [TimeWindow(timestamp, timestamp + ms)]


class UserAssignment(WindowAssignment):
    """Assignment by a user's function, row by row."""

    def __init__(self, assigner: WindowAssigner, lateness_ms: int, context: AssignerContext) -> None:
        self._assigner, self._lateness_ms, self._context = assigner, lateness_ms, context
        self.merges = assigner.merges  # type: ignore[misc]
        self._by_event_time = assigner.time == "event_time"
        self.at = 0
        """Index of the row for which the assigner was called last."""

    def place(
        self, rows: BatchRows, ts: Ints | None, wm: Ints | None, passed_ms: int
    ) -> RowWindowPairs:
        assert ts is not None
        assign, context, lateness = self._assigner.assign, self._context, self._lateness_ms
        at: list[int] = []
        windows: list[Bounds] = []
        late: list[int] = []
        purged = outside = 0
        decides = self._by_event_time and not self.merges
        for row, time in enumerate(ts.tolist()):
            self.at = row
            found = sorted(
                _bounds(assign(rows.records[row], time, context)), key=lambda w: (w[1], w[0])
            )
            if not found:
                outside += 1
                continue
            if decides:
                own = MIN_TIMESTAMP_MS if wm is None else wm.item(row)
                own_open = [w for w in found if w[1] - 1 + lateness > own]
                found = [w for w in own_open if w[1] - 1 + lateness > passed_ms]
                if not found:
                    late.append(row)
                    purged += bool(own_open)
                    continue
            at += [row] * len(found)
            windows += found
        return RowWindowPairs(at, windows, np.array(late, np.int64), purged, outside)


def _bounds(given: Any) -> list[Bounds]:
    """Return the bounds that an assigner returned. Raise UserFunctionError if they are invalid."""
    if isinstance(given, TimeWindow):
        given = [given]
    if not isinstance(given, Iterable):
        raise _no_windows(given)
    found = []
    for window in given:
        if not isinstance(window, tuple) or len(window) != 2:
            raise _no_windows(window)
        start, end = window
        if not (isinstance(start, int) and isinstance(end, int)):
            raise _no_windows(window)
        if not MIN_TIMESTAMP_MS < start < end < MAX_TIMESTAMP_MS:
            raise UserFunctionError(
                f"the assigner returned {shown(window)}, but a window must end after it starts",
                hint="return rh.TimeWindow(start_ms, end_ms), in ms since the epoch",
            )
        found.append((start, end))
    return found


def _no_windows(given: Any) -> UserFunctionError:
    return UserFunctionError(
        f"the assigner returned {shown(given)}, but must return windows",
        hint="return a list of rh.TimeWindow(start_ms, end_ms)",
    )


def assigning_of(
    windows: Window | WindowAssigner,
    lateness_ms: int,
    context: AssignerContext,
    ctx: OperatorContext,
) -> WindowAssignment:
    """Return the assignment for the program's windows."""
    if isinstance(windows, Session) and (gap := windows.gap_of_rows) is not None:
        if isinstance(gap, pl.Expr):
            return OwnGapAssignment(gap, ctx)
        windows = FunctionGap(gap)
    if isinstance(windows, WindowAssigner):
        return UserAssignment(windows, lateness_ms, context)
    if isinstance(windows, GlobalWindows | CountWindow):
        return GlobalAssignment()
    kind = windows_of(windows)
    if isinstance(kind, FixedWindows):
        return FixedAssignment(kind, lateness_ms)
    assert isinstance(kind, MergingWindows), f"{kind} belong to neither family"
    return SessionAssignment(kind)
