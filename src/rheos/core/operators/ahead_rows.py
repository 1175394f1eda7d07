"""Rejection of rows whose event times are far ahead of their split: `max_ahead` of a watermark.

A single timestamp in the year 2262 would advance the watermark to that year, and make every later row
late. So a row is rejected if it is more than `max_ahead` ahead of the latest time of its split. Like
lateness, this depends only on the rows of the split and their order. It uses no clock, so a replay
rejects the same rows.

After a pause, or a change from old files to new ones, all further rows of a split are ahead. After
`_AGREE` such rows in succession, within `max_ahead` of each other, the operator treats their time as
that of the split, and accepts the next rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import Restored
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.polars_frames import table_of_rows
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.times import Times

AHEAD = "ahead"
"""Name of the state, and of the counter of rejected rows."""

_AGREE = 100
"""Number of successive rejected rows that must agree before the split counts as having moved on."""

_STATE = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("latest_ms", pa.int64(), nullable=False),
        pa.field("run", pa.int64(), nullable=False),
        pa.field("run_ms", pa.int64(), nullable=False),
    ]
)


@dataclass(slots=True)
class _Split:
    latest_ms: int = MIN_TIMESTAMP_MS
    """Latest time of the accepted rows."""
    run: int = 0
    """Number of successive rejected rows whose times agree."""
    run_ms: int = 0
    """Time of the first row of that run."""


class AheadRows:
    """Decides, for the splits of one subtask, which rows are accepted."""

    def __init__(self, max_ahead_ms: int) -> None:
        self._max_ahead_ms = max_ahead_ms
        self._splits: dict[str, _Split] = {}

    def counting(self, split: str, times: Times) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the rows of a split that are accepted, in order; None if all are."""
        of_split = self._splits.setdefault(split, _Split())
        if of_split.latest_ms == MIN_TIMESTAMP_MS:
            # Before the first row of a split there is no time to compare with.
            of_split.latest_ms = int(times[0])
        most = int(times.max())
        if most > of_split.latest_ms + self._max_ahead_ms:
            latest = np.maximum(np.maximum.accumulate(times), of_split.latest_ms)
            if (times[1:] > latest[:-1] + self._max_ahead_ms).any() or (
                times[0] > of_split.latest_ms + self._max_ahead_ms
            ):
                return self._one_by_one(of_split, times)
        of_split.latest_ms, of_split.run = max(of_split.latest_ms, most), 0
        return None

    def _one_by_one(self, of_split: _Split, times: Times) -> npt.NDArray[np.bool_]:
        counts = np.ones(len(times), np.bool_)
        for row, time in enumerate(times.tolist()):
            if time > of_split.latest_ms + self._max_ahead_ms:
                if not of_split.run or abs(time - of_split.run_ms) > self._max_ahead_ms:
                    of_split.run, of_split.run_ms = 0, time
                of_split.run += 1
                if of_split.run <= _AGREE:
                    counts[row] = False
                    continue
            of_split.latest_ms, of_split.run = max(of_split.latest_ms, time), 0
        return counts

    # --- state ------------------------------------------------------------------------------------

    def restore(self, restored: Restored) -> None:
        for table in restored.get(AHEAD, ()):
            for row in table.to_pylist():
                self._splits[row["split"]] = _Split(row["latest_ms"], row["run"], row["run_ms"])

    def part(self, splits: Iterable[str]) -> SnapshotPart:
        """Return the state of these splits, and forget the others."""
        wanted = set(splits)
        self._splits = {id: each for id, each in self._splits.items() if id in wanted}
        rows = [
            {"split": id, "latest_ms": each.latest_ms, "run": each.run, "run_ms": each.run_ms}
            for id, each in sorted(self._splits.items())
        ]
        return SnapshotPart(AHEAD, StateKind.UNION, lambda: table_of_rows(rows, _STATE))
