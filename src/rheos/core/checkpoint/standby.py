"""Decides when a standby driver takes a job over, and when it can end. Pure.

It checks the note of the driver that runs the job (`driver_note`) repeatedly. Like the note, it only
decides who starts. If two drivers start, the log decides between them (CP2, CP41).
"""

from __future__ import annotations

from enum import Enum

from rheos.core.checkpoint.driver_note import WATCH_MS, Driver, DriverNote

LOOK_EVERY_MS = 1_000
_LONGEST_GAP_MS = 2 * LOOK_EVERY_MS


class StandbyView(Enum):
    BEHIND = "another driver runs the job"
    TAKES_OVER = "no driver runs the job"
    OVER = "the job has ended under another driver"


class Standby:
    """A standby driver of one job."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] | None = None
        """Owner and number of renewals of the note, as last seen."""
        self._looked_ms = 0
        self._silent_ms = 0
        """Time for which the note was watched without a change."""

    def look(self, note: DriverNote | None, driver: Driver, now_ms: int) -> StandbyView:
        """Decide after reading the note. `driver` is the process of the note; `now_ms` is monotonic.
        Call this about every LOOK_EVERY_MS, whenever the note could be read. A longer gap is not taken
        as silence of the driver, because this process may have been suspended or disconnected."""
        if note is None:
            # Notes are released, never removed. So a missing note means that this is no longer the same
            # store, for example because a folder is not mounted. A job must not start over there.
            return StandbyView.TAKES_OVER if self._seen is None else StandbyView.BEHIND
        if note.released:
            # If the job had already ended when this standby began, it is here to start the job.
            over = note.outcome is not None and self._seen is not None
            return StandbyView.OVER if over else StandbyView.TAKES_OVER
        if driver is Driver.DEAD:
            return StandbyView.TAKES_OVER
        gap_ms = min(now_ms - self._looked_ms, _LONGEST_GAP_MS)
        seen = note.owner, note.renewals
        self._silent_ms = self._silent_ms + gap_ms if seen == self._seen else 0
        self._seen, self._looked_ms = seen, now_ms
        silent = driver is Driver.UNKNOWN and self._silent_ms >= WATCH_MS
        return StandbyView.TAKES_OVER if silent else StandbyView.BEHIND
