"""Rows that wait for the watermark, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.protocol.elements import TS, Batch

_MOST_RUNS = 64


class _Run(NamedTuple):
    """Rows sorted by time."""

    stamps: npt.NDArray[np.int64]
    rows: Batch


class HeldRows:
    """Keeps runs sorted by time, so that what the watermark has passed is cut off without looking at
    what it has not. Small runs are merged."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, rows: Batch) -> None:
        if rows.num_rows:
            self._runs.append(_run(rows))
        if len(self._runs) > _MOST_RUNS:
            self._runs.sort(key=lambda run: len(run.stamps), reverse=True)
            small = [run.rows for run in self._runs[_MOST_RUNS // 2 :]]
            self._runs[_MOST_RUNS // 2 :] = [_run(pa.concat_batches(small))]

    def take(self, until_ms: int) -> Batch | None:
        """The rows at or before `until_ms`, in no order; None where there are none."""
        due: list[Batch] = []
        rest: list[_Run] = []
        for run in self._runs:
            cut = int(np.searchsorted(run.stamps, until_ms, side="right"))
            if cut:
                due.append(run.rows.slice(0, cut))
            if cut < len(run.stamps):
                rest.append(_Run(run.stamps[cut:], run.rows.slice(cut)))
        self._runs = rest
        return pa.concat_batches(due) if due else None

    def batches(self) -> Sequence[Batch]:
        """All rows; the batches do not change any more."""
        return [run.rows for run in self._runs]


def _run(rows: Batch) -> _Run:
    stamps = rows.column(TS).to_numpy()
    if bool(np.all(stamps[:-1] <= stamps[1:])):
        return _Run(stamps, rows)
    order = np.argsort(stamps, kind="stable")
    return _Run(stamps[order], rows.take(pa.array(order)))
