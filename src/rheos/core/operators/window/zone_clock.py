"""The local time of a zone, for whole columns of times.

`zoneinfo` converts one time at a time. So the clock looks up the changes of the UTC offset once for
each year that occurs, and keeps them as two sorted arrays. A whole column then takes one binary search.

Zone rules repeat every 400 years. So for a year beyond those of `datetime`, the clock uses the year at
the same position in the cycle. Years before the first year have its offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_DAY_S = 86_400
_CYCLE_MS = 146_097 * _DAY_S * 1000
_FIRST_YEAR = 3
_LAST_YEAR = 2400
_FEW_YEARS = 50
"""Maximum span in years for which every year is looked up, and not only those that occur."""

_EPOCH = datetime.fromtimestamp(0, UTC)


@cache
def zone_clock(zone: str) -> ZoneClock:
    """Return the clock of a zone. The process has one object for each zone."""
    return ZoneClock(zone)


class ZoneClock:
    """Converts between instants, in ms since the epoch, and local times, in ms without a zone."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)
        self._changes: dict[int, list[tuple[int, int]]] = {}
        """Changes by year: instants, each with the UTC offset from then on, both in ms."""
        self._known = _Changes.of([])

    def local(self, instants: Ints) -> Ints:
        """Return the local times at these instants."""
        folded, moved = _folded(instants)
        return folded + self._changes_around(folded).offsets(folded) + moved

    def instants(self, local: Ints) -> Ints:
        """Return the first instant at which the clock shows each of these local times, or a later one.
        For a skipped local time this is the end of the gap; for one that occurs twice it is the first.
        """
        folded, moved = _folded(local)
        return self._changes_around(folded).first_shown(folded) + moved

    def _changes_around(self, times: Ints) -> _Changes:
        if not len(times):
            return self._known
        first, last = _year_of(times.min()), _year_of(times.max())
        years: Iterable[int] = range(first, last + 1)
        if last - first > _FEW_YEARS:
            years = np.unique(_year_of(times)).tolist()
        wanted = {year + by for year in years for by in (-1, 0, 1)}
        missing = wanted - self._changes.keys()
        if missing:
            for year in missing:
                self._changes[year] = self._of_year(year)
            self._known = _Changes.of(
                change for year in sorted(self._changes) for change in self._changes[year]
            )
        return self._known

    def _of_year(self, year: int) -> list[tuple[int, int]]:
        first = int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
        end = int((datetime(year + 1, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
        offset = self._offset_s(first)
        found = [(first * 1000, offset * 1000)]
        for day in range(first + _DAY_S, end + 1, _DAY_S):
            now = self._offset_s(min(day, end - 1))
            if now != offset:
                before, after = day - _DAY_S, min(day, end - 1)
                while after - before > 1:
                    middle = (before + after) // 2
                    if self._offset_s(middle) == offset:
                        before = middle
                    else:
                        after = middle
                found.append((after * 1000, now * 1000))
                offset = now
        return found

    def _offset_s(self, instant_s: int) -> int:
        at = (_EPOCH + timedelta(seconds=instant_s)).astimezone(self._zone)
        offset = at.utcoffset()
        assert offset is not None
        return round(offset.total_seconds())


class _Changes:
    """Changes of the UTC offset, in order."""

    def __init__(self, at: Ints, offset: Ints) -> None:
        self._at = at
        self._offset = offset
        # Local time at the end of each stretch of one offset, as a running maximum: if the clock is set
        # back, a stretch may end later than the next one.
        ends = at[1:] + offset[:-1]
        self._shown_until = np.maximum.accumulate(ends) if len(ends) else ends

    @classmethod
    def of(cls, changes: Iterable[tuple[int, int]]) -> _Changes:
        pairs = np.array([*changes], dtype=np.int64).reshape(-1, 2)
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    def offsets(self, instants: Ints) -> Ints:
        return self._offset[np.searchsorted(self._at, instants, side="right") - 1]

    def first_shown(self, local: Ints) -> Ints:
        stretch = np.searchsorted(self._shown_until, local, side="right")
        first: Ints = np.maximum(self._at[stretch], local - self._offset[stretch])
        return first


def _folded(times: Ints) -> tuple[Ints, Ints | int]:
    """Return the times moved into years that `datetime` supports, and the offsets to add back."""
    low, high = _year_start(_FIRST_YEAR), _year_start(_LAST_YEAR + 1)
    if not len(times) or (int(times.min()) >= low and int(times.max()) < high):
        return times, 0
    cycles = np.where(times >= high, (times - high) // _CYCLE_MS + 1, 0)
    folded = np.maximum(times - cycles * _CYCLE_MS, low)
    return folded, times - folded


def _year_of(times: Any) -> Any:
    return times.astype("datetime64[ms]").astype("datetime64[Y]").astype(np.int64) + 1970


def _year_start(year: int) -> int:
    return int(np.datetime64(f"{year:04}-01-01", "ms").astype(np.int64))
