"""A source or a sink without a job: one reader per split, or one writer and its committer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from rheos.core.connectors.capabilities import shared_client
from rheos.core.connectors.contract import EndOfSplit, ReaderContext, Sink, SinkContext, Source, Split
from rheos.core.connectors.sink_capabilities import own_committer, prepared, staged_sink
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.host.io import InlineIo, SystemClock

BATCH_ROWS = 8_192
_ACKNOWLEDGED_ROWS = 10_000


def read(source: Source, records: int, splits: Sequence[Split] | None = None) -> None:
    """Read this number of rows. A checkpoint is complete after each ten thousand.

    Args:
        source: The source.
        records: Number of its rows.
        splits: Its splits, if they were listed earlier.
    """
    woken = threading.Event()
    ctx = ReaderContext(SystemClock(), InlineIo(), lambda name, by: None, lambda batch: None, woken.set)
    client = ctx.client = shared_client(source, ctx)
    readers = {split.id: source.open(split, None, ctx) for split in splits or source.splits()}
    unread = dict(readers)
    taken = acknowledged = 0
    while taken < records and unread:
        woken.clear()
        before = taken
        for split, reader in list(unread.items()):
            polled = reader.poll(BATCH_ROWS)
            if isinstance(polled, EndOfSplit):
                del unread[split]
            elif isinstance(polled, pa.RecordBatch):
                taken += polled.num_rows
        if client is not None and (taken == records or taken - acknowledged >= _ACKNOWLEDGED_ROWS):
            client.completed({split: reader.position() for split, reader in readers.items()})
            acknowledged = taken
        if taken == before:
            woken.wait(1)
    for reader in readers.values():
        reader.close()
    if client is not None:
        client.close()
    assert taken == records, f"{taken} of {records} records were read"


class WrittenSink:
    """The writer of one subtask and its committer, which stay open."""

    def __init__(self, sink: Sink, schema: pa.Schema, folder: Path) -> None:
        made = staged_sink(prepared(sink, schema, ("job", "sink")), str(folder))
        ctx = SinkContext(JobId("job"), Attempt(1), "sink", 0, SystemClock(), InlineIo(), schema)
        self._writer = made.open(ctx)
        self._committer = own_committer(self._writer) or made.committer()
        self._checkpoint = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows, and complete a checkpoint."""
        self._checkpoint += 1
        for batch in rows.to_batches(BATCH_ROWS):
            self._writer.write(batch)
        made = self._writer.prepare(CheckpointId(self._checkpoint))
        if self._committer is not None:
            self._committer.commit(made)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()
