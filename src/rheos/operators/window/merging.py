"""When rows of a key are one window: the rule of merging windows, vectorised over many keys.

A row at `ts` begins as a window of its own, up to `end`. Of that it is *open* from where its watermark
had not passed it, to its end:

    open_from = max(ts, watermark + 2 - lateness)        open_to = end

(a window that ends at e is passed when e - 1 + lateness <= watermark: one that ends at `open_from` is
the first that is not). Rows whose open times meet or touch are one window. It starts with the first row
of all, and ends with the last end.

    watermark 12          [ row 5, gap 10: open from 14 to 15
    ts    0    5   10   15   20   25
          a----------)                       ends at 10, passed: the row is no part of it
               .........[b)                  a window [5, 15) of its own
                         [c---------)        ts 15: touches it: [5, 25)

This says of any set of rows which windows there are, whatever their order, and however they were merged
before: a pane is (open_to, open_from, first_row) of one row, or of several that are one window already.
That is what Flink finds where rows come in the order of their watermarks.

A row with `open_from > end` was passed when it came. It has no window of its own, and is late unless
it finds one that was open all the while, from the row's end to its watermark (`covering`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rheos.operators.window.columns import END, FIRST, OPEN_FROM, OPEN_TO, START
from rheos.operators.window.contract import Ints

_NUMBER = "number"


def joined(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows, each with the pane of all rows of the frame that are one window with it."""
    if frame.height < 2:
        return frame
    ends, opened = frame[OPEN_TO].to_numpy(), frame[OPEN_FROM].to_numpy()
    if opened.max() <= ends.min():
        # Each is open at one time, at least: so every key has one window.
        return frame.with_columns(
            pl.col(OPEN_TO).max().over(keys),
            pl.col(OPEN_FROM).min().over(keys),
            pl.col(FIRST).min().over(keys),
        )
    order, begin = _windows(frame, keys)
    counts = np.diff(begin, append=len(order))
    columns = []
    for name, reduced in _panes(frame, order, begin).items():
        values = np.empty(len(order), dtype=np.int64)
        values[order] = np.repeat(reduced, counts)
        columns.append(pl.Series(name, values))
    return frame.with_columns(columns)


def windows_of(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The windows that panes make: key, OPEN_FROM, END and START of each."""
    order, begin = _windows(frame, keys)
    panes = _panes(frame, order, begin)
    return frame.select(keys)[order[begin]].hstack(
        [
            pl.Series(OPEN_FROM, panes[OPEN_FROM]),
            pl.Series(END, panes[OPEN_TO]),
            pl.Series(START, panes[FIRST]),
        ]
    )


def containing(rows: pl.DataFrame, windows: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """For each row with a pane, the number of the window that it is in; -1 where it is in none."""
    return covering(rows, rows[OPEN_FROM].to_numpy(), rows[OPEN_FROM].to_numpy(), windows, keys)


def covering(
    rows: pl.DataFrame, low: Ints, high: Ints, windows: pl.DataFrame, keys: Sequence[str]
) -> Ints:
    """For each row, the number of its key's window that is open from `low` to `high`, or -1.
    Windows of a key are open one after the other."""
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
    """A number for each row, by its key: that of the first row with it."""
    numbered = frame.select(keys).with_row_index(_NUMBER)
    return numbered.select(pl.col(_NUMBER).first().over(keys)).to_series().to_numpy().astype(np.int64)


def _windows(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[Ints, Ints]:
    """The order in which rows of one window follow each other, and where in it windows begin."""
    codes, opened = _codes(frame, keys), frame[OPEN_FROM].to_numpy()
    order = np.lexsort((opened, codes))
    codes, opened = codes[order], opened[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = codes[1:] != codes[:-1]
    # The latest end so far of each key. Ends by their rank leave room for the number of the key.
    ends, rank = np.unique(frame[OPEN_TO].to_numpy()[order], return_inverse=True)
    of_key = np.cumsum(begins) * len(ends)
    reached = ends[np.maximum.accumulate(of_key + rank) - of_key]
    begins[1:] |= opened[1:] > reached[:-1]
    return order, np.flatnonzero(begins)


def _panes(frame: pl.DataFrame, order: Ints, begin: Ints) -> dict[str, Ints]:
    """The panes of windows, from those of their rows."""
    if not len(begin):
        return dict.fromkeys((OPEN_TO, OPEN_FROM, FIRST), begin)
    return {
        OPEN_TO: np.maximum.reduceat(frame[OPEN_TO].to_numpy()[order], begin),
        OPEN_FROM: frame[OPEN_FROM].to_numpy()[order[begin]],
        FIRST: np.minimum.reduceat(frame[FIRST].to_numpy()[order], begin),
    }
