"""Progress of the windows of a subtask, and its restoration after a restart.

It is stored by key group, with the parameters of the windows, in the state FIRED. Subtasks may have
different watermarks at a barrier: if channels become idle and active again, a watermark depends on when
the subtask received their marks. A restored subtask resumes from the highest watermark of its own
groups, because windows up to it are purged already; groups with lower watermarks catch up first. No
window fires twice, and no row is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import UnrestorableError
from rheos.core.graph.state import Time
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.window.contract import FixedWindows, Ints, Windows
from rheos.core.operators.window.frames import KEY_GROUP
from rheos.core.operators.window.kinds import stored_windows
from rheos.core.operators.window.pane_columns import SLICE
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS

FIRED = "fired"

_OTHERS = {
    "first_group",
    "end_group",
    "fired_through",
    "states",
    "lateness_ms",
    "kind",
    "time",
    "arrived",
}
"""Columns that are not parameters of the windows."""


def stored_name(name: str, by: int | str) -> str:
    """Return the name of the column that stores one parameter of the windows."""
    return f"{name}_ms" if isinstance(by, int) else name


class WindowProgress:
    """Progress of the key groups of one subtask."""

    def __init__(
        self, ctx: OperatorContext, windows: Windows, lateness_ms: int, time: Time = "event_time"
    ) -> None:
        self._ctx = ctx
        self._windows = windows
        self._lateness_ms = lateness_ms
        self._time = time
        self.watermark = MIN_TIMESTAMP_MS
        """Watermark up to which windows have fired, except those of lagging groups."""
        self.lagging = LaggingKeyGroups()
        self.states: set[str] = set()
        """Names of the states that were restored."""
        self.arrived = MIN_TIMESTAMP_MS
        """Number of the last row that arrived, with windows of processing time."""
        self._purged: Ints = np.zeros(0, dtype=np.int64)

    def table(self, states: Sequence[str]) -> pa.Table:
        """Return the progress as a table to store. `states` names the states that hold complete
        panes."""
        groups = self._ctx.key_groups
        fired = np.full(len(groups), self.watermark)
        for group, through in self.lagging.groups.items():
            fired[group - groups.start] = through
        starts = np.concatenate([[0], np.flatnonzero(np.diff(fired)) + 1])[: len(fired)]
        ends = np.concatenate([starts[1:], [len(fired)]])[: len(starts)]
        rows = len(starts)
        by_clock = {}
        if self._time == "processing_time":
            arrived = pa.array([self.arrived] * rows, pa.int64())
            by_clock = {"time": pa.array([self._time] * rows, pa.string()), "arrived": arrived}
        cut = {
            stored_name(name, by): pa.array(
                [by] * rows, pa.int64() if isinstance(by, int) else pa.string()
            )
            for name, by in self._windows.cut.items()
        }
        return pa.table(
            {
                "first_group": pa.array(starts + groups.start, pa.int32()),
                "end_group": pa.array(ends + groups.start, pa.int32()),
                "fired_through": pa.array(fired[starts]),
                **cut,
                "states": pa.array([list(states)] * rows, pa.list_(pa.string())),
                "lateness_ms": pa.array(np.full(rows, self._lateness_ms)),
                "kind": pa.array([self._windows.kind] * rows, pa.string()),
                **by_clock,
            }
        )

    def restore(self, tables: Iterable[pa.Table]) -> None:
        """Resume from the progress that several subtasks have stored. Raise UnrestorableError if their
        windows had other parameters."""
        own = self._ctx.key_groups
        fired = np.full(len(own), MIN_TIMESTAMP_MS)
        self._purged = np.full(len(own), MIN_TIMESTAMP_MS)
        for table in tables:
            for row in table.to_pylist():
                self._check(row)
                self.states.update(row["states"])
                self.arrived = max(self.arrived, row.get("arrived", self.arrived))
                begin, stop = max(row["first_group"], own.start), min(row["end_group"], own.stop)
                if begin < stop:
                    mine = slice(begin - own.start, stop - own.start)
                    fired[mine] = row["fired_through"]
                    # Parts written without the column contain all panes.
                    if "lateness_ms" in row:
                        self._purged[mine] = row["fired_through"] + 1 - row["lateness_ms"]
        if len(fired):
            self.watermark = int(fired.max())
        behind = np.flatnonzero(fired < self.watermark)
        self.lagging = LaggingKeyGroups({own.start + int(group): int(fired[group]) for group in behind})

    def _check(self, row: dict[str, object]) -> None:
        cut = {
            name.removesuffix("_ms"): by
            for name, by in row.items()
            if name not in _OTHERS and isinstance(by, int | str)
        }
        stored = stored_windows(str(row.get("kind") or ""), cut)
        time = row.get("time", "event_time")
        if stored != self._windows or time != self._time:
            raise UnrestorableError(
                f"the state belongs to {_described(stored, time)}, but the program now declares "
                f"{_described(self._windows, self._time)}",
                site=self._ctx.site,
                operator=self._ctx.name,
                hint="keep the windows, or change the operator's uid to start it empty",
            )

    def unpurged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the restored rows whose panes were not purged after the rows were written."""
        if not isinstance(self._windows, FixedWindows):
            # Each part is a full one (`merging_panes`), without purged panes.
            return frame
        groups = frame[KEY_GROUP].to_numpy().astype(np.int64) - self._ctx.key_groups.start
        there = self._windows.last_end(frame[SLICE].to_numpy()) > self._purged[groups]
        return frame if there.all() else frame.filter(pl.Series(there))

    def begin_anew(self) -> None:
        """Reset the progress, as if no row had arrived."""
        assert not self.lagging.groups, "the restored windows have caught up"
        self.watermark = MIN_TIMESTAMP_MS


def _described(windows: Windows, time: object) -> str:
    return f"{windows}{' in processing time' if time == 'processing_time' else ''}"


class LaggingKeyGroups:
    """The key groups of a restored subtask that have fired less than the others, and their keys."""

    def __init__(self, groups: dict[int, int] | None = None) -> None:
        self.groups = groups or {}
        """Watermark up to which each group has fired."""
        self._keys: dict[int, list[pl.DataFrame]] = {}

    def note(self, table: pl.DataFrame, keys: list[str]) -> None:
        for through in set(self.groups.values()):
            groups = [group for group, fired in self.groups.items() if fired == through]
            found = table.filter(pl.col(KEY_GROUP).is_in(groups)).select(keys).unique()
            if found.height:
                self._keys.setdefault(through, []).append(found)

    def by_watermark(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the keys that have fired through each watermark, the lowest one first."""
        for through in sorted(self._keys):
            yield through, pl.concat(self._keys[through]).unique()
