"""Where a benchmark measures: as rows leave the source, and as updates leave the keyed operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rheos.bench.recorder import Recorder
from rheos.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    SourceClient,
    Split,
    SplitReader,
)
from rheos.protocol.elements import Batch
from rheos.protocol.ids import CheckpointId

SINK: Final = "sink"
SOURCE: Final = "source"


@dataclass(frozen=True)
class MeasuringSink(Sink):
    """Counts rows and drops them. It is chained to the operator before it, so that a row arrives in
    the moment in which it leaves that operator. `since` is the column of the wall-clock time, in ns,
    from which a row's latency counts."""

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
class MeasuredSource(Source):
    """A source whose rows are counted as they are handed out, for programs that do not answer each row.

    What is handed out and not yet processed is bounded by the credits, so over seconds the one rate is
    the other.
    """

    source: Source
    folder: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.source.schema)
        object.__setattr__(self, "bounded", self.source.bounded)

    def record_class(self) -> type | None:
        return self.source.record_class()

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return self.source.client(ctx)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = self.source.open(split, position, ctx)
        return _MeasuredReader(reader, Recorder(self.folder, SOURCE, ctx.clock))

    def describe(self) -> str:
        return self.source.describe()


class _MeasuredReader(SplitReader):
    def __init__(self, reader: SplitReader, recorder: Recorder) -> None:
        self._reader = reader
        self._recorder = recorder

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if not isinstance(polled, Pending | EndOfSplit):
            self._recorder.record(polled.num_rows)
        return polled

    def position(self) -> bytes:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()
        self._recorder.close()
