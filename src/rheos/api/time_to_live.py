"""The time for which tables keep rows: `ttl=` of joins and of folded changes."""

from __future__ import annotations

from typing import Any, Literal

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms

FOREVER = "forever"
TimeToLive = Duration | Literal["forever"]


def time_to_live_ms(ttl: Any) -> int | None:
    """Return a time to live in ms; None for "forever". Raise ProgramError if it is invalid."""
    if ttl is None:
        raise ProgramError(
            "an unbounded join keeps every row, because ttl= is not set",
            hint='write ttl="7d" to drop rows that are 7 days older than the watermark; or '
            f'ttl="{FOREVER}" if both sides are small. To join rows that are close in time, '
            "use .interval_join(...), .window_join(...) or .temporal_join(...)",
        )
    if ttl == FOREVER:
        return None
    ms = duration_ms(ttl)
    if ms < 1:
        raise ProgramError(f"ttl must be greater than 0, not {ttl!r}", hint='write ttl="7d"')
    return ms
