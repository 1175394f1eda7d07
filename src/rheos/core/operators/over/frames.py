"""Frames of rows in their order, and aggregates over them.

A row is what it is ordered by, a whole number or a text, and the arguments of the aggregates. The frame
of a row begins so many rows, or so far, before it, or at the first one, and ends with it, or so many
rows behind it; by distance it ends with the last row that stands at the same place.

    ROWS 1 PRECEDING          a  b  c         RANGE 1 PRECEDING      at 1  at 2  at 2
                                └──┘ of c                            └─────────────┘ of both at 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from typing import Any, NamedTuple

from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import MOST_DIGITS, decimal_mean, decimal_sum


class Fold(Enum):
    """An aggregate, as what a value adds to what came before."""

    COUNT = auto()
    SUM = auto()
    MEAN = auto()
    MIN = auto()
    MAX = auto()
    FIRST = auto()
    LAST = auto()
    BEFORE = auto()
    """The value at the begin of a frame that is whole: so many rows before."""
    AFTER = auto()
    """The value at its end: so many rows behind."""
    VARIANCE = auto()
    VARIANCE_POP = auto()
    STDDEV = auto()
    STDDEV_POP = auto()
    COUNT_DISTINCT = auto()
    RANK = auto()
    """Of what rows are ordered by: how many rows stand before those at the same place, and one."""
    DENSE_RANK = auto()
    """How many places there are up to the row's."""


@dataclass(frozen=True)
class FrameSpec:
    """Which rows."""

    by_rows: bool
    """Whether it is so many rows, or so far in what they are ordered by."""
    preceding: int | None
    """None: from the first one on."""
    descending: bool = False
    """Whether what rows are ordered by falls."""
    following: int = 0
    """How many rows behind its own belong to it; only by rows, and with a begin."""

    def __str__(self) -> str:
        begin = "UNBOUNDED" if self.preceding is None else str(self.preceding)
        end = f" {self.following} FOLLOWING" if self.following else ""
        return f"{'ROWS' if self.by_rows else 'RANGE'} {begin} PRECEDING{end}"


class FoldTooLarge(SumTooLarge):
    """A sum or a mean over the frame of a row that its type cannot hold."""

    def __init__(self, row: int, fold: int, *, what: str, limit: str) -> None:
        """`row` is a place among the fresh rows, `fold` one among the aggregates."""
        super().__init__(row, what=what, limit=limit)
        self.fold = fold


class FrameRow(NamedTuple):
    """A row."""

    by: Any
    values: tuple[Any, ...]


Kept = list[Any]
"""What is kept of the rows before: an accumulator for each aggregate where the frame has no begin, else
the entries that later frames may have."""


def over(
    kept: Kept,
    fresh: Sequence[FrameRow],
    folds: Sequence[Fold],
    frame: FrameSpec,
    frames: Sequence[FrameSpec] = (),
) -> tuple[list[tuple[Any, ...]], Kept]:
    """The aggregates for each of the rows that follow those kept, and what is kept then. Of one place
    in a frame by distance, all rows come at once; of frames that reach forward, all rows there are.
    Raises FoldTooLarge."""
    if frame.following:
        return over_ahead(kept, fresh, folds, frame, frames, ended=True)
    if frame.preceding is None:
        return _from_the_first(kept, fresh, folds, by_rows=frame.by_rows)
    entries: list[FrameRow] = [*(FrameRow(*each) for each in kept), *fresh]
    results = []
    begin = end = 0
    for place in range(len(kept), len(entries)):
        here = entries[place].by
        if frame.by_rows:
            begin, end = max(0, place - frame.preceding), place + 1
        else:
            while _far(entries[begin].by, here, frame):
                begin += 1
            end = max(end, place + 1)
            while end < len(entries) and entries[end].by == here:
                end += 1
        so_far = _folded(entries[begin:end], folds, frame)
        results.append(_results(so_far, folds, place - len(kept)))
    if not frame.by_rows:
        begin = next(
            (i for i, each in enumerate(entries) if not _far(each.by, entries[-1].by, frame)), 0
        )
    else:
        begin = max(0, len(entries) - frame.preceding)
    return results, [tuple(each) for each in entries[begin:]]


def over_ahead(
    kept: Kept,
    waiting: Sequence[FrameRow],
    folds: Sequence[Fold],
    frame: FrameSpec,
    frames: Sequence[FrameSpec],
    *,
    ended: bool,
) -> tuple[list[tuple[Any, ...]], Kept]:
    """The aggregates of the first of the rows that wait behind those kept: of as many as have all rows
    of their frames, or of all where no more come; and what is kept then. Each aggregate is over a frame
    of its own; `frame` is as wide as all of them. Raises FoldTooLarge."""
    assert frame.preceding is not None, "without a begin all rows would be kept"
    entries: list[FrameRow] = [*(FrameRow(*each) for each in kept), *waiting]
    until = len(entries) if ended else max(len(kept), len(entries) - frame.following)
    results = []
    for place in range(len(kept), until):
        made: list[Any] = []
        for at, (fold, own) in enumerate(zip(folds, frames, strict=True)):
            rows = entries[max(0, place - (own.preceding or 0)) : place + own.following + 1]
            values = [FrameRow(row.by, (row.values[at],)) for row in rows]
            made += _folded(values, [fold], own)
        results.append(_results(made, folds, place - len(kept)))
    return results, [tuple(each) for each in entries[max(0, until - frame.preceding) : until]]


def _far(by: Any, here: Any, frame: FrameSpec) -> bool:
    """Whether a row lies before the frame of another."""
    assert frame.preceding is not None
    return bool((by - here if frame.descending else here - by) > frame.preceding)


def _from_the_first(
    kept: Kept, fresh: Sequence[FrameRow], folds: Sequence[Fold], *, by_rows: bool
) -> tuple[list[tuple[Any, ...]], Kept]:
    so_far: Kept = kept or [None] * len(folds)
    results: list[tuple[Any, ...]] = []
    for place, entry in enumerate(fresh):
        so_far = [
            _ADD[fold](before, value)
            for fold, before, value in zip(folds, so_far, entry.values, strict=True)
        ]
        ends = by_rows or place + 1 == len(fresh) or fresh[place + 1].by != entry.by
        if ends:
            result = _results(so_far, folds, place)
            results += [result] * (place + 1 - len(results))
    return results, so_far


def _folded(entries: Sequence[FrameRow], folds: Sequence[Fold], frame: FrameSpec) -> Kept:
    so_far: Kept = []
    for place, fold in enumerate(folds):
        if fold is Fold.BEFORE or fold is Fold.AFTER:
            whole = len(entries) == (frame.preceding or 0) + frame.following + 1
            found = entries[0 if fold is Fold.BEFORE else -1].values[place]
            so_far.append((found,) if whole else None)
            continue
        add, made = _ADD[fold], None
        for entry in entries:
            made = add(made, entry.values[place])
        so_far.append(made)
    return so_far


def _results(so_far: Kept, folds: Sequence[Fold], row: int) -> tuple[Any, ...]:
    results = tuple(_result(fold, made) for fold, made in zip(folds, so_far, strict=True))
    for at, (fold, result) in enumerate(zip(folds, results, strict=True)):
        if fold is Fold.SUM and type(result) is int and not -_LIMIT <= result < _LIMIT:
            raise FoldTooLarge(row, at, what="sum", limit="64 bits")
        if fold in (Fold.SUM, Fold.MEAN) and isinstance(result, Decimal):
            digits, scale = result.as_tuple().digits, -int(result.as_tuple().exponent)
            if len(digits) > MOST_DIGITS:
                what = "sum" if fold is Fold.SUM else "mean"
                raise FoldTooLarge(row, at, what=what, limit=f"DECIMAL({MOST_DIGITS}, {scale})")
    return results


_LIMIT = 1 << 63


def _result(fold: Fold, made: Any) -> Any:
    match fold:
        case Fold.COUNT:
            return made or 0
        case Fold.MEAN:
            if made is None:
                return None
            # Rounded as in windows: the sum, and then the quotient.
            exact = isinstance(made[0], Decimal)
            return decimal_mean(*made) if exact else float(made[0]) / made[1]
        case Fold.FIRST | Fold.LAST | Fold.BEFORE | Fold.AFTER | Fold.RANK | Fold.DENSE_RANK:
            return None if made is None else made[0]
        case Fold.VARIANCE | Fold.VARIANCE_POP | Fold.STDDEV | Fold.STDDEV_POP:
            return _deviation(fold, made)
        case Fold.COUNT_DISTINCT:
            return len(made or ())
        case _:
            return made


def _deviation(fold: Fold, made: Any) -> float | None:
    """Of the count of values, their mean, and the sum of the squares of what they are apart from it."""
    number, _, squares = made or (0, 0.0, 0.0)
    by = number - (fold in (Fold.VARIANCE, Fold.STDDEV))
    if by <= 0:
        return None
    variance = float(squares / by)
    return variance**0.5 if fold in (Fold.STDDEV, Fold.STDDEV_POP) else variance


def _deviations(before: Any, value: Any) -> Any:
    if value is None:
        return before
    number, mean, squares = before or (0, 0.0, 0.0)
    apart = value - mean
    mean += apart / (number + 1)
    return number + 1, mean, squares + apart * (value - mean)


def _different(before: Any, value: Any) -> Any:
    if value is None:
        return before
    there = set() if before is None else before
    there.add(_key(value) if value == value else None)
    return there


def _rank(before: Any, by: Any) -> Any:
    """The rank, how many rows there are, and where the last one stands."""
    rank, rows, last = before or (1, 0, by)
    return (rank if by == last else rows + 1), rows + 1, by


def _dense_rank(before: Any, by: Any) -> Any:
    rank, last = before or (1, by)
    return (rank if by == last else rank + 1), by


def _count(before: Any, value: Any) -> Any:
    return before if value is None else (before or 0) + 1


def _sum(before: Any, value: Any) -> Any:
    if value is None or before is None:
        return before if value is None else value
    return _added(before, value)


def _added(one: Any, other: Any) -> Any:
    # Python's own sum of decimals is rounded to 28 digits.
    return decimal_sum(one, other) if isinstance(one, Decimal) else one + other


def _mean(before: Any, value: Any) -> Any:
    if value is None or before is None:
        return before if value is None else (value, 1)
    return _added(before[0], value), before[1] + 1


def _least(before: Any, value: Any) -> Any:
    # NaN is the greatest of all.
    return value if before is None or (value is not None and _key(value) < _key(before)) else before


def _greatest(before: Any, value: Any) -> Any:
    return value if before is None or (value is not None and _key(value) > _key(before)) else before


def _key(value: Any) -> tuple[bool, Any]:
    return value != value, value


_ADD: dict[Fold, Callable[[Any, Any], Any]] = {
    Fold.COUNT: _count,
    Fold.SUM: _sum,
    Fold.MEAN: _mean,
    Fold.MIN: _least,
    Fold.MAX: _greatest,
    # Of first and last, null is a value as any other.
    Fold.VARIANCE: _deviations,
    Fold.VARIANCE_POP: _deviations,
    Fold.STDDEV: _deviations,
    Fold.STDDEV_POP: _deviations,
    Fold.COUNT_DISTINCT: _different,
    Fold.RANK: _rank,
    Fold.DENSE_RANK: _dense_rank,
    Fold.FIRST: lambda before, value: (value,) if before is None else before,
    Fold.LAST: lambda before, value: (value,),
}
