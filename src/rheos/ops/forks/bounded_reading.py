"""Reads a split from its position in one checkpoint to that in a later one of the same job.

Positions belong to the connectors, and can only be compared for equality. A reader may pass one in the
middle of a batch. So rows are read one by one where it may be: from the first row whose event time has
reached the maximum before the position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.errors import ConfigurationError
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import Restored
from rheos.core.operators.event_times import event_times
from rheos.core.operators.source_split import SPLITS
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.ops.forks.tape import SplitTape, TapeEnd


@dataclass(frozen=True)
class SplitPosition:
    """The position of a split in a checkpoint."""

    position: bytes | None
    """Position at which to stop; None: the end of the split."""
    max_ts: int


@dataclass(frozen=True)
class Positions:
    """The position of each split of a source in a checkpoint."""

    checkpoint: int
    splits: Mapping[str, SplitPosition | None]
    """Positions by split; None for a split that has not begun."""

    @staticmethod
    def of_state(checkpoint: int, restored: Restored) -> Positions:
        """Return the positions from the source's state in a checkpoint."""
        rows = [row for table in restored.get(SPLITS, ()) for row in table.to_pylist()]
        return Positions(checkpoint, {row["split"]: _reached(row) for row in rows})

    def of(self, split: Split, begin: bytes | None) -> SplitPosition | None:
        """Return the position up to which a split is read from `begin`; None if nothing is read. A
        split that is missing in the checkpoint is read to its end if it had begun; otherwise it was not
        discovered."""
        if split.id in self.splits:
            return self.splits[split.id]
        return None if begin is None else SplitPosition(None, MIN_TIMESTAMP_MS)


def _reached(row: Mapping[str, object]) -> SplitPosition | None:
    position, max_ts = row["position"], row["max_ts"]
    assert isinstance(position, bytes | None)
    assert isinstance(max_ts, int)
    if row["finished"]:
        return SplitPosition(None, max_ts)
    return None if position is None else SplitPosition(position, max_ts)


class PositionedReader(WrappedReader):
    """A reader that tapes what it reads. `until` is None if nothing is to be read. `heard` is called
    whenever anything arrives."""

    def __init__(
        self,
        source: Source,
        split: Split,
        begin: bytes | None,
        ctx: ReaderContext,
        tape: SplitTape,
        until: SplitPosition | None,
        watermark: Watermark | None,
        heard: Callable[[], None],
        ended: Callable[[TapeEnd], EndOfSplit],
    ) -> None:
        self._rejected: list[Batch] = []
        self._open: Callable[[bytes | None], SplitReader] = lambda at: source.open(
            split, at, replace(ctx, reject=self._rejected.append)
        )
        super().__init__(self._open(begin))
        self._split = split
        self._tape = tape
        self._until = until
        self._watermark = watermark
        self._heard = heard
        self._ended = ended
        self._there = until is None or begin == until.position is not None
        self._one_by_one = until is not None and not self._tells(until)

    def _tells(self, until: SplitPosition) -> bool:
        """Return whether event time can show that rows are before the position."""
        by_column = self._watermark is not None and self._watermark.on is not None
        return until.position is None or (by_column and until.max_ts > MIN_TIMESTAMP_MS)

    def poll(self, max_rows: int) -> Polled:
        if self._there or self._until is None:
            return self._ended(TapeEnd.NOW)
        until, before = self._until, self._reader.position()
        polled = self._reader.poll(1 if self._one_by_one else max_rows)
        if isinstance(polled, Pending):
            return polled
        self._heard()
        if isinstance(polled, EndOfSplit):
            return self._end_of_split(until)
        if until.position is None:
            return self._tape_output(polled)
        if not self._one_by_one and self._may_be_beyond(polled, until.max_ts):
            self._one_by_one = True
            if not isinstance(polled, TimeReached):
                # The batch is read again, row by row.
                self._rejected.clear()
                self._reader.close()
                self._reader = self._open(before)
                return Pending(0)
        self._there = self._reader.position() == until.position
        return self._tape_output(polled)

    def _may_be_beyond(self, polled: Batch | TimeReached, max_ts: int) -> bool:
        if isinstance(polled, TimeReached):
            return polled.event_time_ms >= max_ts
        assert self._watermark is not None, "without one, rows are read one by one"
        times = event_times(polled, self._watermark, first=False)
        return bool(len(times)) and int(times.max()) >= max_ts

    def _tape_output(self, polled: Batch | TimeReached) -> Polled:
        for rejected in self._rejected:
            self._tape.reject(rejected)
        self._rejected.clear()
        if isinstance(polled, TimeReached):
            self._tape.reached(polled)
        elif isinstance(polled, pa.RecordBatch) and polled.num_rows:
            self._tape.add(polled, capabilities.places(self._reader))
        return polled

    def _end_of_split(self, until: SplitPosition) -> EndOfSplit:
        if until.position is not None:
            raise ConfigurationError(
                f"the split {self._split.id!r} ended before its position in the later "
                "checkpoint: it has changed since",
                hint="leave out --until to read all input that is available now",
            )
        for rejected in self._rejected:
            self._tape.reject(rejected)
        self._rejected.clear()
        return self._ended(TapeEnd.READ)
