"""Rows of several ports that wait for the watermark, and come together in the order of event time.

They are in memory alone: batch is where they wait, and it takes no checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.operators.records import hidden_column
from rheos.protocol.elements import TS, WM, Batch
from rheos.protocol.types import rows_of
from rheos.state.keys import Key, KeyCodec

Numbers = npt.NDArray[np.int64]


class DueRows(NamedTuple):
    """Rows by time; of one time by port, and of one port as they came."""

    ports: list[int]
    keys: list[Key]
    rows: list[Any]
    stamps: Numbers
    marks: Numbers | None
    """The watermarks of their splits, where they carry them."""


class RowsByTime:
    def __init__(self) -> None:
        self._batches: list[tuple[int, Batch]] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, port: int, batch: Batch) -> None:
        self._batches.append((port, batch))

    def take(
        self, until_ms: int, codecs: Sequence[KeyCodec], records: Sequence[type | None]
    ) -> DueRows:
        """The rows at or before `until_ms`; by port, how keys are read and what records are made."""
        waiting, self._batches = self._batches, []
        keys: list[Key] = []
        rows: list[Any] = []
        ports: list[Numbers] = []
        stamps: list[Numbers] = []
        marks: list[Numbers] = []
        for port, batch in waiting:
            passed = batch.column(TS).to_numpy() <= until_ms
            if not passed.all():
                self._batches.append((port, batch.filter(pa.array(~passed))))
                batch = batch.filter(pa.array(passed))
            keys += codecs[port].of(batch)
            rows += rows_of(batch, records[port])
            ports.append(np.full(batch.num_rows, port, np.int64))
            stamps.append(batch.column(TS).to_numpy())
            mark = hidden_column(batch, WM)
            if mark is not None:
                marks.append(mark)
        of_port, at = np.concatenate(ports), np.concatenate(stamps)
        order = np.lexsort((of_port, at))
        places = order.tolist()
        return DueRows(
            ports=of_port[order].tolist(),
            keys=[keys[place] for place in places],
            rows=[rows[place] for place in places],
            stamps=at[order],
            marks=np.concatenate(marks)[order] if len(marks) == len(waiting) else None,
        )
