"""Common parts of goldens: which rows are late, and the windows of a row. Plain Python over the rows in
order of arrival, without code of Rheos."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from tests.equivalence.corpus.program import Rows

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = -(2**63)


def frame(rows: Rows) -> pl.DataFrame:
    found = pl.from_arrow(rows.table)
    assert isinstance(found, pl.DataFrame)
    return found


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def millis(at: datetime | int) -> int:
    if isinstance(at, int):
        return at
    return (at - EPOCH) // timedelta(milliseconds=1)


def arrived(rows: Rows, counts: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Return the rows that count, in order, each with its time `ts` and with `wm`, the watermark of its
    split before it: the latest time so far, minus the bound and a millisecond."""
    bound = int(rows.bound.removesuffix("s")) * 1000
    latest = [NEVER] * rows.splits
    found = []
    for number, row in enumerate(rows.table.to_pylist()):
        if not counts(row):
            continue
        split = number % rows.splits
        ts = millis(row[rows.on or "at"])
        wm = NEVER if latest[split] == NEVER else latest[split] - bound - 1
        found.append({**row, "ts": ts, "wm": wm})
        latest[split] = max(latest[split], ts)
    return found


def starts(ts: int, size: int, every: int, offset: int = 0) -> list[int]:
    """Return the starts of all windows [start, start + size) that contain `ts`."""
    last = (ts - offset) // every * every + offset
    return list(range(last, ts - size, -every))


def by_window(
    rows: Iterable[Row],
    keys: Sequence[str],
    size: int,
    every: int | None = None,
    offset: int = 0,
    lateness: int = 0,
) -> tuple[dict[tuple[Hashable, ...], list[Row]], list[Row]]:
    """Return the rows of each (keys..., start), without those that are late for it, and the rows that
    are late for all their windows."""
    windows: dict[tuple[Hashable, ...], list[Row]] = defaultdict(list)
    late = []
    for row in rows:
        counts = [
            start
            for start in starts(row["ts"], size, every or size, offset)
            if start + size - 1 + lateness > row["wm"]
        ]
        for start in counts:
            windows[*(row[key] for key in keys), start].append(row)
        if not counts:
            late.append(row)
    return windows, late


def bare(rows: Iterable[Row]) -> list[Row]:
    """Return rows without the columns that `arrived` added."""
    return [{name: value for name, value in row.items() if name not in ("ts", "wm")} for row in rows]


def too_late(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are late within their split, for operators in event-time order."""
    return bare(row for row in rows if row["ts"] <= row["wm"])


def result(names: Sequence[str], key: tuple[Any, ...], size: int, **more: Any) -> Row:
    """Return a row of a window's output."""
    *values, start = key
    return {
        **dict(zip(names, values, strict=True)),
        "window_start": moment(start),
        "window_end": moment(start + size),
        **more,
    }


def known(rows: Iterable[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def quantile(values: Iterable[float], q: float) -> float | None:
    """Return a quantile with linear interpolation."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
