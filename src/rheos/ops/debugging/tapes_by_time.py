"""Tapes of several splits, played in the order of event time.

No record shows the order in which a job has read its splits. A job that keeps up reads rows as they are
written, in all splits at once, so the tapes are played like that. A split that had not begun is played
as one that is discovered at its first row. Until then it does not hold the watermark back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.event_times import event_times
from rheos.core.operators.source import SourceSpec
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import OperatorId
from rheos.ops.forks.tape import Tape, TapedSource

_ROWS = 1024
_FEW_ROWS = 20_000
"""Maximum number of rows in tapes that are played row by row if splits alternate. For longer tapes the
number of rows in a turn grows with the length."""


@dataclass
class Turns:
    """Chooses the next split, over all sources that have event time in a column."""

    next_ms: dict[tuple[OperatorId, str], int] = field(default_factory=dict)
    """Time of the next row of each open split."""

    def of_others(self, split: tuple[OperatorId, str]) -> float:
        return min((ms for other, ms in self.next_ms.items() if other != split), default=inf)


@dataclass(frozen=True, eq=False)
class EventTimeSource(TapedSource):
    id: OperatorId
    watermark: Watermark
    begun: Collection[str]
    """The splits for which the checkpoint has a position."""
    turns: Turns

    def endless(self, split: Split) -> bool:
        """Return True: all splits are open at once, so that each has its turn."""
        return True

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _InTimeReader(super().open(split, position, ctx), split, self)


def in_time(
    spec: SourceSpec, id: OperatorId, tape: Tape, begun: Collection[str], turns: Turns
) -> SourceSpec:
    """Return the source that plays its tape, in the order of event time if a column has it."""
    watermark = spec.watermark
    if watermark is None or watermark.on is None:
        return replace(spec, source=TapedSource(spec.source, tape))
    return replace(spec, source=EventTimeSource(spec.source, tape, id, watermark, begun, turns))


class _InTimeReader(WrappedReader):
    def __init__(self, reader: SplitReader, split: Split, source: EventTimeSource) -> None:
        super().__init__(reader)
        self._split = (source.id, split.id)
        self._source = source
        self._turns = source.turns
        self._least_rows = 1 + source.tape.rows // _FEW_ROWS
        self._begun = split.id in source.begun
        self._said_ms = MIN_TIMESTAMP_MS
        self._rows: Batch | None = None
        self._times: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._other: Polled | None = None
        """Result of the next poll if it has no rows."""
        self._fill()

    def _fill(self) -> None:
        """Read the next rows or mark."""
        polled = self._reader.poll(_ROWS)
        if isinstance(polled, pa.RecordBatch) and polled.num_rows:
            self._rows, self._other = polled, None
            self._times = event_times(polled, self._source.watermark, first=False)
            self._turns.next_ms[self._split] = int(self._times[0])
        else:
            self._rows, self._other = None, polled
            self._turns.next_ms.pop(self._split, None)

    def poll(self, max_rows: int) -> Polled:
        if self._rows is None:
            polled = self._other
            assert polled is not None
            if not isinstance(polled, EndOfSplit):
                self._fill()
            return polled
        turn_ms = self._turns.of_others(self._split)
        if self._times[0] > turn_ms:
            return self._following(turn_ms)
        self._begun = True
        beyond = np.flatnonzero(self._times > turn_ms)
        count = int(beyond[0]) if len(beyond) else len(self._times)
        count = min(max(count, self._least_rows), len(self._times), max_rows)
        given, self._rows = self._rows.slice(0, count), self._rows.slice(count)
        self._times = self._times[count:]
        if len(self._times):
            self._turns.next_ms[self._split] = int(self._times[0])
        else:
            self._fill()
        return given

    def _following(self, turn_ms: float) -> Polled:
        """Return the result of a poll while another split has its turn."""
        if self._begun or turn_ms <= self._said_ms:
            return Pending(0)
        self._said_ms = int(turn_ms)
        return TimeReached(self._said_ms)

    def has_caught_up(self) -> bool:
        return self._rows is None and capabilities.has_caught_up(self._reader)

    def close(self) -> None:
        self._turns.next_ms.pop(self._split, None)
        super().close()
