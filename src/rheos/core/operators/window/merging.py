"""The rule that decides which rows of a key form one window, vectorised over many keys.

A row at `ts` starts as a window of its own, up to `end`. It is *open* from the first time that its
watermark had not passed, until its end:

    open_from = max(ts, watermark + 2 - lateness)        open_to = end

The watermark has passed a window that ends at e when e - 1 + lateness <= watermark. A window that ends
at `open_from` is the first one that it has not passed. Rows whose open times overlap or touch form one
window. The window starts at its first row and ends at the latest end.

    watermark 12          [ row 5, gap 10: open from 14 to 15
    ts    0    5   10   15   20   25
          a----------)                       ends at 10, passed: the row is no part of it
               .........[b)                  a window [5, 15) of its own
                         [c---------)        ts 15: touches it: [5, 25)

The rule determines the windows of any set of rows, whatever their order, and however they were merged
before. A pane is (open_to, open_from, first_row) of one row, or of several rows that already form one
window. If rows arrive in the order of their watermarks, Flink computes the same windows.

If `open_from > end`, the watermark had passed the row when it arrived. Such a row has no window of its
own. It is late unless a window was open all the way from the row's end to its watermark (`covering`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rheos.core.operators.window.contract import Ints
from rheos.core.operators.window.pane_columns import END, FIRST, OPEN_FROM, OPEN_TO, START

_NUMBER = "number"


SPANS = [pl.col(OPEN_TO).max(), pl.col(OPEN_FROM).min(), pl.col(FIRST).min()]
"""Pane of several panes that form one window."""


def all_meet(frame: pl.DataFrame) -> bool:
    """Return whether all rows are open at a common time, so that every key has one window."""
    return bool(frame[OPEN_FROM].to_numpy().max() <= frame[OPEN_TO].to_numpy().min())


def joined(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the rows, each with the pane of all rows of the frame in the same window."""
    if frame.height < 2:
        return frame
    if all_meet(frame):
        return frame.with_columns(span.over(keys) for span in SPANS)
    order, begin = _sorted(frame, keys)
    number = _numbers(order, begin)
    panes = _panes(frame, order, begin)
    return frame.with_columns(pl.Series(name, values[number]) for name, values in panes.items())


def windows_of(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[pl.DataFrame, Ints]:
    """Return the windows that panes form, with key, OPEN_FROM, END and START; and, for each row of the
    frame, the number of its window."""
    order, begin = _sorted(frame, keys)
    panes = _panes(frame, order, begin)
    windows = frame.select(keys)[order[begin]].hstack(
        [
            pl.Series(OPEN_FROM, panes[OPEN_FROM]),
            pl.Series(END, panes[OPEN_TO]),
            pl.Series(START, panes[FIRST]),
        ]
    )
    return windows, _numbers(order, begin)


def containing(rows: pl.DataFrame, windows: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """Return for each row with a pane the number of its window, or -1 if it is in no window."""
    opened = rows[OPEN_FROM].to_numpy()
    return covering(rows, opened, opened, windows, keys)


def covering(
    rows: pl.DataFrame, low: Ints, high: Ints, windows: pl.DataFrame, keys: Sequence[str]
) -> Ints:
    """Return, for each row, the number of its key's window that is open from `low` to `high`, or -1.
    Windows of a key do not overlap."""
    nowhere = np.full(rows.height, -1, dtype=np.int64)
    if not windows.height or not rows.height:
        return nowhere
    codes = _codes(pl.concat([windows.select(keys), rows.select(keys)]), keys)
    of_windows, of_rows = codes[: windows.height], codes[windows.height :]
    opened, ends = windows[OPEN_FROM].to_numpy(), windows[END].to_numpy()
    times = np.unique(opened)
    most = len(times) + 1
    places = of_windows * most + np.searchsorted(times, opened) + 1
    order = np.argsort(places)
    wanted = of_rows * most + np.searchsorted(times, low, side="right")
    at = np.searchsorted(places[order], wanted, side="right") - 1
    found = order[np.maximum(at, 0)]
    there = (at >= 0) & (of_windows[found] == of_rows) & (high <= ends[found])
    return np.where(there, found, nowhere)


def _codes(frame: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """Return a number for each row that identifies its key: that of the first row with the key."""
    numbered = frame.select(keys).with_row_index(_NUMBER)
    return numbered.select(pl.col(_NUMBER).first().over(keys)).to_series().to_numpy().astype(np.int64)


def _small(opened: Ints, ends: Ints) -> tuple[Ints, Ints, int]:
    """Return small numbers in the order of the times, and an upper bound of them. A small number
    combined with a row number fits into int64."""
    low, high = int(opened.min()), int(ends.max())
    if (high - low + 1) * (len(opened) + 1) < 2**62:
        return opened - low, ends - low, high - low + 1
    found, rank = np.unique(np.concatenate([opened, ends]), return_inverse=True)
    return rank[: len(opened)], rank[len(opened) :], len(found)


def _sorted(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[Ints, Ints]:
    """Return an order in which rows of a window are adjacent, and where windows begin in it."""
    if not frame.height:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    codes = _codes(frame, keys)
    opened, ends, most = _small(frame[OPEN_FROM].to_numpy(), frame[OPEN_TO].to_numpy())
    order = np.argsort(codes * most + opened)
    codes, opened, ends = codes[order], opened[order], ends[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = codes[1:] != codes[:-1]
    # The latest end of each key so far.
    of_key = np.cumsum(begins) * most
    reached = np.maximum.accumulate(of_key + ends) - of_key
    begins[1:] |= opened[1:] > reached[:-1]
    return order, np.flatnonzero(begins)


def _numbers(order: Ints, begin: Ints) -> Ints:
    """Return for each row the number of its window."""
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.repeat(np.arange(len(begin)), np.diff(begin, append=len(order)))
    return numbers


def _panes(frame: pl.DataFrame, order: Ints, begin: Ints) -> dict[str, Ints]:
    """Return the panes of windows, computed from those of their rows."""
    if not len(begin):
        return dict.fromkeys((OPEN_TO, OPEN_FROM, FIRST), begin)
    return {
        OPEN_TO: np.maximum.reduceat(frame[OPEN_TO].to_numpy()[order], begin),
        OPEN_FROM: frame[OPEN_FROM].to_numpy()[order[begin]],
        FIRST: np.minimum.reduceat(frame[FIRST].to_numpy()[order], begin),
    }
