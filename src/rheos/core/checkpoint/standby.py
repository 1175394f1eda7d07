"""When a driver that stands by takes a job over, and when nothing is left to stand by for. Pure.

It looks at the note of the driver that runs the job (`driver_note`), again and again. Like the note,
this decides only who begins; where two begin, the log decides between them (CP2, CP41).
"""

from __future__ import annotations

from enum import Enum

from rheos.core.checkpoint.driver_note import WATCH_MS, Driver, DriverNote

LOOK_EVERY_MS = 1_000
_LONGEST_GAP_MS = 2 * LOOK_EVERY_MS


class Standing(Enum):
    BEHIND = "another driver runs the job"
    TAKES_OVER = "no driver runs the job"
    OVER = "the job has ended under another driver"


class Standby:
    """Of one driver and one job."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] | None = None
        """Whose note it was, and how often renewed."""
        self._looked_ms = 0
        self._silent_ms = 0
        """For so long the note was looked at and did not change."""

    def look(self, note: DriverNote | None, driver: Driver, now_ms: int) -> Standing:
        """`driver` is the process of the note; `now_ms` is monotonic. To be called every LOOK_EVERY_MS
        or so, whenever the note could be read: time in which nobody looked does not count against the
        driver, since this one may have stood still, or been cut off, for as long."""
        if note is None:
            # Notes are released, not removed: a store that has lost one is not what it was, such as a
            # folder that is no longer mounted, and a job must not begin anew there.
            return Standing.TAKES_OVER if self._seen is None else Standing.BEHIND
        if note.released:
            # One who stands by for a job that had ended before is there to start it.
            over = note.outcome is not None and self._seen is not None
            return Standing.OVER if over else Standing.TAKES_OVER
        if driver is Driver.DEAD:
            return Standing.TAKES_OVER
        gap_ms = min(now_ms - self._looked_ms, _LONGEST_GAP_MS)
        seen = note.owner, note.renewals
        self._silent_ms = self._silent_ms + gap_ms if seen == self._seen else 0
        self._seen, self._looked_ms = seen, now_ms
        silent = driver is Driver.UNKNOWN and self._silent_ms >= WATCH_MS
        return Standing.TAKES_OVER if silent else Standing.BEHIND
