"""The two writers of a topic: one stages epochs, the other sends records immediately."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.kafka.client_options import ClientOptions, client
from rheos.connectors.kafka.epoch_commits import IfUnknown
from rheos.connectors.kafka.epoch_committer import EpochCommitter
from rheos.connectors.kafka.errors import kafka_error
from rheos.connectors.kafka.producing import Producing
from rheos.connectors.kafka.records import RecordEncoder, RecordLayout
from rheos.connectors.kafka.staged_epochs import EpochStaging
from rheos.connectors.kafka.transactions import Transactions
from rheos.connectors.staged_files import staging_error
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.errors import CheckpointError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.redaction import redacted_repr

_ENCODED_ROWS = 8_192
"""Maximum number of rows that are encoded at once."""
_GATHER_BYTES = 4 << 20
_REFRESH_US = 24 * 3_600_000_000
"""Age at which a mark is written again, long before brokers delete it."""
DELIVERY = OutsideCall(
    server="Kafka",
    call="sink, at least once: delivery of records",
    limit_s=60.0,
    limit="starts over whenever the brokers accept a record",
    then="the attempt fails, and restarts after at most 5 s; records since the last checkpoint are "
    "sent again",
)


@dataclass(frozen=True, repr=False)
class Target:
    """Configuration of the topic for its writers."""

    topic: str
    options: ClientOptions
    layout: RecordLayout
    id_prefix: str
    if_unknown: IfUnknown
    partitions: int = 0
    """Number of partitions of the topic when the job was submitted."""
    max_bytes: int = 0
    """Maximum size of a record, if it was known at that time."""
    folder: str | None = None
    """Folder in which epochs are staged."""

    __repr__ = redacted_repr


class _RowBuffer:
    """Buffer of rows, which are encoded some thousands at a time."""

    def __init__(self, target: Target, schema: pa.Schema) -> None:
        self._schema = schema
        self._encoder = _encoder(target, schema)
        self._rows: list[Batch] = []
        self._count = 0
        self._size_bytes = 0

    def add(self, batch: Batch) -> bool:
        """Add rows; return whether the buffer is full."""
        self._rows.append(batch)
        self._count += batch.num_rows
        self._size_bytes += batch.nbytes
        return self._count >= _ENCODED_ROWS or self._size_bytes >= _GATHER_BYTES

    def take(self) -> list[Batch]:
        """Return the buffered rows as records, and empty the buffer. Raises InputError."""
        rows, self._rows, self._count, self._size_bytes = self._rows, [], 0, 0
        if not rows:
            return []
        table = pa.Table.from_batches(rows, schema=self._schema).combine_chunks()
        return [self._encoder.encode(batch) for batch in table.to_batches(max_chunksize=_ENCODED_ROWS)]


def _encoder(target: Target, schema: pa.Schema) -> RecordEncoder:
    return RecordEncoder(
        target.layout, schema, partitions=target.partitions, max_bytes=target.max_bytes
    )


class ExactlyOnceWriter(SinkWriter):
    """Writer that stages each epoch in a file. Its name is generated when it is opened (KS1)."""

    def __init__(self, target: Target, ctx: SinkContext) -> None:
        assert target.folder is not None, "a runtime passes a folder to a sink that stages"
        place = f"{_safe(ctx.job)}-{_safe(ctx.operator)}-{ctx.attempt}-{ctx.subtask}"
        name = f"{target.id_prefix}-{place}-{uuid4().hex[:16]}"
        self._ctx = ctx
        self._folder = target.folder
        self._gathering = _RowBuffer(target, ctx.schema)
        self._staging = EpochStaging(target.folder, name, target.topic, ctx.attempt)
        self._transactions = Transactions(name, target.topic, target.options, target.if_unknown)
        self._transactions.create_mark()
        self._committer = EpochCommitter(
            target.options, target.folder, target.if_unknown, (name, self._transactions)
        )
        self._marked_us = ctx.clock.monotonic_us()
        self._counted = {"retries": 0, "brokers_away": 0}
        self._staged_bytes = 0
        """Total bytes staged by this writer."""
        self._finished_bytes = 0

    def committer(self) -> Committer:
        return self._committer

    def write(self, batch: Batch) -> None:
        if self._gathering.add(batch):
            self._stage()

    def has_room(self) -> bool:
        return self._transactions.has_room(self._staged_bytes)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._stage()
        try:
            epoch = self._staging.finish(checkpoint)
        except OSError as error:
            raise self._unwritable(error) from error
        self._count()
        now_us = self._ctx.clock.monotonic_us()
        if not epoch.records and now_us - self._marked_us < _REFRESH_US:
            return []
        self._marked_us = now_us
        # Sizes as in committables, since commits subtract those.
        self._finished_bytes += epoch.size_bytes
        self._staged_bytes = self._finished_bytes
        return [epoch.encoded()]

    def close(self) -> None:
        self._staging.abandon()
        self._transactions.close()

    def _count(self) -> None:
        """Count retries and outages of commits. Called in the operator's thread."""
        found = {"retries": self._transactions.retries, "brokers_away": self._transactions.brokers_away}
        for name, count in found.items():
            self._ctx.count(name, count - self._counted[name])
        self._counted = found

    def _stage(self) -> None:
        try:
            for batch in self._gathering.take():
                self._staging.write(batch)
                self._staged_bytes += batch.nbytes
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> CheckpointError:
        where = f"records could not be staged in {self._folder}"
        return staging_error(where, error, self._ctx.name)


class AtLeastOnceWriter(SinkWriter):
    """Writer that sends rows immediately, and waits at each barrier until all are delivered. It does
    not buffer rows, because it is not called while its stream pauses. Buffered rows would then wait for
    the barrier."""

    def __init__(self, target: Target, ctx: SinkContext) -> None:
        self._target = target
        self._encoder = _encoder(target, ctx.schema)
        self._producing = Producing(target.options, target.topic, stalled_s=DELIVERY.limit_s)
        self._ctx = ctx
        self._counted = 0

    def write(self, batch: Batch) -> None:
        try:
            for begin in range(0, batch.num_rows, _ENCODED_ROWS):
                self._producing.produce(self._encoder.encode(batch.slice(begin, _ENCODED_ROWS)))
        except client().KafkaException as error:
            doing = f"the topic {self._target.topic!r} cannot be written"
            raise kafka_error(error, doing, self._target.options) from None
        self._check()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._producing.deliver()
        away, self._counted = self._counted, self._producing.brokers_away
        self._ctx.count("brokers_away", self._counted - away)
        return []

    def close(self) -> None:
        self._producing.close()

    def _check(self) -> None:
        if self._producing.refused is not None:
            raise self._producing.refused


def _safe(text: str) -> str:
    """Return a part of the name that people recognise; uniqueness does not depend on it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:50]
