"""Event-time progress of the splits of one subtask: the interface of all watermark strategies.

A strategy determines a *reach* for each row: the event time to which the row advances its split. The
split's watermark after the row is the greatest reach so far, minus the bound and 1 ms. `watermarks`
lists the strategies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import Restored
from rheos.core.operators.event_times import event_times
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.snapshots import SnapshotPart
from rheos.core.times import Times


class SplitEventTime(ABC):
    """Event-time progress of all splits of one subtask, by split id."""

    period_ms: int | None = None
    """Interval at which `look` and `periodic` are called."""
    clock_ms: int | None = None
    """Latest clock reading, if event time follows the clock; None if it follows the rows. The reading
    applies to all splits alike, and replaces all other progress of a split."""

    def __init__(self, watermark: Watermark | None) -> None:
        self._watermark = watermark

    def times(self, batch: Batch, *, first: bool) -> Times:
        """Return the event times of the next rows of a split; `first` means that they are its first.
        Raise InputError for a row without a valid time."""
        assert self._watermark is not None, "rows without a watermark have no event time"
        return event_times(batch, self._watermark, first=first)

    @abstractmethod
    def of_rows(self, split: str, batch: Batch, times: Times) -> Times:
        """Return the reach of each of the next rows of a split; `times` are their event times."""

    def look(self) -> None:
        """Read the clock. It is called before `periodic` is called for each split."""

    def periodic(self, split: str, now_ms: int) -> int:
        """Return the reach of the split as time passes."""
        return MIN_TIMESTAMP_MS

    def restore(self, restored: Restored) -> None:
        """Restore the state of the strategy, before any other call."""

    def parts(self, splits: Iterable[str]) -> list[SnapshotPart]:
        """Return the snapshot parts of those splits."""
        return []
