"""Calendar windows computed by plain Python, one time at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from rheos.core.graph.calendars import CalendarCut
from rheos.core.protocol.durations import CalendarLength

EPOCH = datetime(1970, 1, 1)
MONDAY = datetime(1969, 12, 29)


def ms_of(at: datetime) -> int:
    return (at - EPOCH.replace(tzinfo=UTC)) // timedelta(milliseconds=1)


def first_shown(local: datetime, zone: ZoneInfo) -> int:
    """Return the first instant, in ms, at which a clock shows a local time, or a later one."""
    at = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == local:
        return ms_of(at)
    # The local time is skipped: the end of the gap is where the offset changes.
    before, after = at - timedelta(days=2), at + timedelta(days=2)
    was = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == was:
            before = middle
        else:
            after = middle
    return ms_of(after)


def _instants(ts: int, length: CalendarLength, cut: CalendarCut, more: int = 0) -> list[int]:
    """Return the instants at which the steps around a time begin. Clocks were set by up to a day."""
    zone = ZoneInfo(cut.zone)
    offset = timedelta(milliseconds=cut.offset_ms)
    at = EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=ts)
    moved = at.astimezone(zone).replace(tzinfo=None) - offset
    if length.months:
        number = ((moved.year - 1970) * 12 + moved.month - 1) // length.months
        months = [(number + by) * length.months for by in range(-3 - more, 4 + more)]
        starts = [datetime(1970 + m // 12, m % 12 + 1, 1) for m in months]
    else:
        size = timedelta(milliseconds=length.ms)
        reach = 3 + timedelta(days=1) // size + more
        anchor = MONDAY if size % timedelta(weeks=1) == timedelta(0) else EPOCH
        number = (moved - anchor) // size
        starts = [anchor + (number + by) * size for by in range(-reach, reach + 1)]
    return [first_shown(start + offset, zone) for start in starts]


def windows_of(ts: int, cut: CalendarCut) -> list[tuple[int, int]]:
    """Return the windows that contain a time, by their ends."""
    if cut.grows:
        ((first, last),) = _holding(ts, pairwise(_instants(ts, cut.size, cut)))
        found, step = [], ts
        while step < last:
            ((_, step),) = _holding(step, pairwise(_instants(step, cut.every, cut)))
            found.append((first, step))
        return found
    steps = cut.most_steps
    begins = _instants(ts, cut.every, cut, steps)
    # If several steps start at one instant, the first of them ends a window.
    ends = [place for place in range(steps, len(begins)) if begins[place] > begins[place - 1]]
    return _holding(ts, ((begins[place - steps], begins[place]) for place in ends))


def _holding(ts: int, windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(start, end) for start, end in windows if start <= ts < end]
