"""Results of joins, computed by comparing every row of one side with every one of the other."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, WatermarkMark
from rheos.testing import Right
from rheos.testing.harness import Step
from tests.worlds.join_programs import RowInTime

LEFT = pa.schema([("k", pa.string()), ("l", pa.int64()), ("at", pa.int64())])
RIGHT = pa.schema([("k", pa.string()), ("r", pa.int64()), ("then", pa.int64())])


class Parted(NamedTuple):
    left: list[RowInTime]
    right: list[RowInTime]
    late_left: list[int]
    late_right: list[int]


def drawn_script(rng: Random, rows: int, keys: int, step_ms: int = 4) -> list[Step]:
    """Generate rows of both sides, slightly out of order, with watermarks that make some late."""
    script: list[Step] = []
    watermark = MIN_TIMESTAMP_MS
    for number in range(rows):
        at = number * step_ms + rng.randrange(-20, 20)
        key = f"key {rng.randrange(keys)}"
        if rng.random() < 0.5:
            script.append({"k": key, "l": number, "at": at})
        else:
            script.append(Right({"k": key, "r": number, "then": at}))
        if rng.random() < 0.2:
            watermark = max(watermark, at - rng.randrange(12))
            script.append(WatermarkMark(watermark))
    return script


def parted(script: Iterable[Step]) -> Parted:
    """Return the rows of a script by side, and those that are late."""
    watermark = MIN_TIMESTAMP_MS
    found = Parted([], [], [], [])
    for step in script:
        if isinstance(step, WatermarkMark):
            watermark = step.timestamp_ms
            continue
        right = isinstance(step, Right)
        row: Any = step.row if isinstance(step, Right) else step
        number, at = (row["r"], row["then"]) if right else (row["l"], row["at"])
        if at <= watermark:
            (found.late_right if right else found.late_left).append(number)
        else:
            (found.right if right else found.left).append(RowInTime(row["k"], number, at))
    return found


class InWindow(NamedTuple):
    """Joined row of a window."""

    k: str
    l: int | None  # noqa: E741 - beside r
    r: int | None
    end: int


def window_joined(
    script: Iterable[Step], size: int, every: int, how: str
) -> tuple[list[InWindow], list[int]]:
    """Join rows in windows that start at multiples of `every`; also return the numbers of late rows."""
    windows: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
    late = []
    watermark = MIN_TIMESTAMP_MS
    for step in script:
        if isinstance(step, WatermarkMark):
            watermark = step.timestamp_ms
            continue
        right = isinstance(step, Right)
        row: Any = step.row if isinstance(step, Right) else step
        number, at = (row["r"], row["then"]) if right else (row["l"], row["at"])
        ends = [start + size for start in range(at // every * every, at - size, -every)]
        open_ends = [end for end in ends if end - 1 > watermark]
        late += [] if open_ends else [number]
        for end in open_ends:
            windows.setdefault((end, row["k"]), ([], []))[right].append(number)
    found = []
    for (end, key), (left, others) in windows.items():
        found += [InWindow(key, one, other, end) for one in left for other in others]
        if how in ("left", "full") and not others:
            found += [InWindow(key, one, None, end) for one in left]
        if how in ("right", "full") and not left:
            found += [InWindow(key, None, other, end) for other in others]
    return found, late
