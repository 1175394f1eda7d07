"""Rows whose event times are far ahead of their split: `max_ahead` of a watermark.

One timestamp of the year 2262 would carry the watermark there, and make every row after it late. So a
row is refused that is more than `max_ahead` ahead of the latest time of its split. Like lateness, this
follows from the rows of the split and their order alone: no clock is asked, and a replay decides the
same.

A split may also have moved on, after a pause or from old files to new ones. Then all its rows are
ahead. When `_AGREE` of them have come one after the other, within `max_ahead` of each other, the split
is where they are: the next rows count again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import Restored
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.times import Times

AHEAD = "ahead"
"""The name of the state, and of the counter of rows that were refused."""

_AGREE = 100
"""Number of rows in a row that must agree before a split has moved on."""

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
    """The latest time of the rows that counted."""
    run: int = 0
    """Number of rows in a row that were refused and agree."""
    run_ms: int = 0
    """Time of the first of them."""


class AheadRows:
    """Decides for the splits of one subtask which rows count."""

    def __init__(self, max_ahead_ms: int) -> None:
        self._max_ahead_ms = max_ahead_ms
        self._splits: dict[str, _Split] = {}

    def counting(self, split: str, times: Times) -> npt.NDArray[np.bool_] | None:
        """Returns a mask of the next rows of a split that are accepted; None if all are."""
        of_split = self._splits.setdefault(split, _Split())
        if of_split.latest_ms == MIN_TIMESTAMP_MS:
            # Nothing is known of the split before its first row.
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
        """Returns the state of these splits, and forgets the others."""
        wanted = set(splits)
        self._splits = {id: each for id, each in self._splits.items() if id in wanted}
        rows = [
            {"split": id, "latest_ms": each.latest_ms, "run": each.run, "run_ms": each.run_ms}
            for id, each in sorted(self._splits.items())
        ]
        return SnapshotPart(AHEAD, StateKind.UNION, lambda: pa.Table.from_pylist(rows, schema=_STATE))
