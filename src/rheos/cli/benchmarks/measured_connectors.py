"""Measuring points of a benchmark: rows that leave the source, and updates from the keyed operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from rheos.cli.benchmarks.recorder import Recorder
from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.connectors.contract import (
    Polled,
    ReaderContext,
    Sink,
    SinkContext,
    SinkWriter,
    Split,
    SplitReader,
)
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId

SINK: Final = "sink"
SOURCE: Final = "source"


@dataclass(frozen=True)
class MeasuringSink(Sink):
    """Sink that counts rows and drops them. It is chained to its upstream operator, so a row arrives as
    soon as it leaves that operator. `since` is the column with the wall-clock time, in ns, from which a
    row's latency counts."""

    folder: str
    since: str

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _MeasuringWriter(Recorder(self.folder, SINK, ctx.clock), self.since)

    def describe(self) -> str:
        return "measure"


class _MeasuringWriter(SinkWriter):
    def __init__(self, recorder: Recorder, since: str) -> None:
        self._recorder = recorder
        self._since = since

    def write(self, batch: Batch) -> None:
        since = np.asarray(batch.column(self._since).to_numpy(zero_copy_only=False), np.int64)
        self._recorder.record(batch.num_rows, since)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []

    def close(self) -> None:
        self._recorder.close()


@dataclass(frozen=True, eq=False)
class MeasuredSource(WrappedSource):
    """Source whose rows are counted when they are emitted, for programs without a result per row.

    Credits bound the rows that are emitted but not processed. So over some seconds, the rate at the
    source equals the rate of processing.
    """

    folder: str

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = super().open(split, position, ctx)
        return _MeasuredReader(reader, Recorder(self.folder, SOURCE, ctx.clock))


class _MeasuredReader(WrappedReader):
    def __init__(self, reader: SplitReader, recorder: Recorder) -> None:
        super().__init__(reader)
        self._recorder = recorder

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if isinstance(polled, pa.RecordBatch):
            self._recorder.record(polled.num_rows)
        return polled

    def close(self) -> None:
        super().close()
        self._recorder.close()
