"""Rows that are due in the order of event time, of one or several ports.

port 1 (broadcast)   10              12          places (`hidden.reached` plus one)
port 0                  10   11   11    12
runs                 10│10   11   11│12│12
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.records import HiddenColumns, Stamps
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch, strip_hidden


class Due(NamedTuple):
    """Rows of one port that are due, in order.

    The watermark before a row is the millisecond before its place (`hidden.reached`). A late row is at
    or before this watermark, all other rows are after it.
    """

    port: int
    rows: Batch
    hidden: HiddenColumns


def joined(due: Sequence[Due]) -> Due:
    """Return the rows of one port: its late ones, and those in time."""
    if len(due) == 1:
        return due[0]
    hidden = together([each.hidden for each in due])
    order = places(hidden)
    rows = pa.concat_batches([strip_hidden(each.rows) for each in due]).take(pa.array(order))
    return Due(due[0].port, rows, hidden.at(order))


def together(hidden: Sequence[HiddenColumns]) -> HiddenColumns:
    """Return the hidden columns of due rows of several ports."""
    marks = [each.marks for each in hidden]
    filled = [
        np.full(len(_required_times(each.stamps)), MIN_TIMESTAMP_MS) if mark is None else mark
        for each, mark in zip(hidden, marks, strict=True)
    ]
    return HiddenColumns(
        np.concatenate([_required_times(each.stamps) for each in hidden]),
        None if all(mark is None for mark in marks) else np.concatenate(filled),
        np.concatenate([_required_times(each.reached) for each in hidden]),
    )


def places(hidden: HiddenColumns) -> npt.NDArray[np.intp]:
    """Return the order of due rows: by place. Of rows with one place, late ones come first; others keep
    their order."""
    stamps, reached = _required_times(hidden.stamps), _required_times(hidden.reached)
    return np.lexsort((stamps > reached, reached))


def sources(due: Sequence[Due]) -> npt.NDArray[np.intp]:
    """Return for each due row, in order, the index in `due` of the rows that it belongs to."""
    of = np.repeat(np.arange(len(due)), [each.rows.num_rows for each in due])
    return of if len(due) < 2 else of[places(together([each.hidden for each in due]))]


def mean_run_length(of: npt.NDArray[np.intp]) -> int:
    """Return the mean number of rows in a run, rounded down. `of` is the result of `sources`."""
    return len(of) // (1 + int(np.count_nonzero(of[1:] != of[:-1])))


def runs(due: Sequence[Due], of: npt.NDArray[np.intp] | None = None) -> Iterator[Due]:
    """Yield due rows of several ports in order, as runs of rows of one port. `of` is the result of
    `sources`, if the caller has it."""
    if len(due) < 2:
        yield from due
        return
    of = sources(due) if of is None else of
    begins = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(of)]
    taken = [0] * len(due)
    for begin, end in pairwise(begins):
        at = int(of[begin])
        span = slice(taken[at], taken[at] + end - begin)
        taken[at] = span.stop
        yield part(due[at], span.start, span.stop)


def part(due: Due, start: int, stop: int) -> Due:
    """Return some of the rows."""
    return Due(due.port, due.rows.slice(start, stop - start), due.hidden.at(slice(start, stop)))


def _required_times(times: Stamps | None) -> Stamps:
    assert times is not None, "rows in the order of event time have timestamps"
    return times
