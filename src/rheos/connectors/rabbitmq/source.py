"""Source of queues. A split is a queue, whose messages are acknowledged at checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec
import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgingSource
from rheos.connectors.decoded_source import DecodedSource
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.rabbitmq.client_options import RabbitmqOptions, client
from rheos.connectors.rabbitmq.queue_reading import FIELDS, REJECTED, QueueReading, QueueRows
from rheos.connectors.rabbitmq.stream_reading import (
    STREAM_FIELDS,
    STREAM_REJECTED,
    RabbitmqStreamReading,
    RabbitmqStreamRows,
    StreamStart,
)
from rheos.connectors.removed_messages import OnRemoved, continues_after_removal
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.moments import moment_ms
from rheos.core.site import located_at_call

_MOST_NAME_BYTES = 255
_MOST_PREFETCH = 65_535


@located_at_call
def source(
    url: str,
    *,
    queue: str | Sequence[str] | None = None,
    stream: str | Sequence[str] | None = None,
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    prefetch: int = 10_000,
    start: Literal["earliest"] | datetime | int = "earliest",
    on_removed: OnRemoved = "fail",
    on_error: OnError = "fail",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> RabbitmqSource | RabbitmqStreamSource:
    """Read messages of RabbitMQ queues at least once, or of its streams exactly once.

    ```python
    orders = rh.rabbitmq.source(
        "amqp://localhost", queue="orders", format=rh.formats.json(), schema=Order
    )
    ```

    The source acknowledges the messages of a checkpoint once the checkpoint is complete, and the server
    deletes them then. After a failure the server delivers those of an interrupted checkpoint again.
    A stream keeps its messages: the offset of the last message read is in the job's checkpoints.
    Each queue or stream is a split: its watermark and its lateness are its own.

    Args:
        url: "amqp://user:password@host:5672/vhost", "amqps://..." for TLS.
        queue: the name of a queue, or several. They must exist.
        stream: instead of `queue`, the name of a stream, or several: queues that were declared with
            `x-queue-type: stream`, such as the partitions of a super stream.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a message that become columns, with their names: "routing_key", "exchange",
            "redelivered"; of a stream "routing_key", "exchange", "offset".
        prefetch: maximum number of messages per queue that are not acknowledged, up to 65,535. So it is
            also the number of messages of a queue per checkpoint.
        start: start of a job without a checkpoint in a stream: "earliest", an offset, or a datetime:
            the block of messages that the server stored at that time, or the next one.
        on_removed: what to do if a stream has removed messages after the job's position: "fail", or
            "continue" with the first message that exists, counted as `removed`.
        on_error: what to do with a message that does not fit the schema: "fail" the job, or "skip" it,
            which counts it (`skipped`) and emits it to the side output "rejected".
        retry_for: how long to retry (`retries`) if the server is down, before the job fails and is
            restarted by its strategy.
        options: files for TLS: tls_ca_file, tls_cert_file, tls_key_file.

    Returns:
        The source, for `env.from_source`. It is unbounded.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that the format cannot decode.
    """
    client()
    check_on_error(on_error)
    if (queue is None) == (stream is None):
        raise ProgramError(
            "queue= or stream= is missing" if queue is None else "queue= and stream= are both given",
            hint='write queue="orders", or stream="orders" for a stream',
        )
    given = stream if queue is None else queue
    names = (given,) if isinstance(given, str) else tuple(given or ())
    if not names or not all(map(_is_name, names)) or len(set(names)) < len(names):
        what = "stream" if queue is None else "queue"
        raise ProgramError(f"{what}={given!r} does not name {what}s", hint=f'write {what}="orders"')
    if not isinstance(prefetch, int) or not 0 < prefetch <= _MOST_PREFETCH:
        raise ProgramError(
            f"prefetch={prefetch!r} is not between 1 and {_MOST_PREFETCH}", hint="write prefetch=10_000"
        )
    rows, record = declared_rows(check_format(format), schema)
    fields = FIELDS if stream is None else STREAM_FIELDS
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, fields)
    server, record = RabbitmqOptions.of(url, options), record if decoding.schema == rows else None
    begin, continues = _stream_start(start), continues_after_removal(on_removed)
    if stream is not None:
        read = RabbitmqStreamRows(server, decoding, prefetch, continues, duration_ms(retry_for))
        return RabbitmqStreamSource(read, record, names, begin)
    if begin != StreamStart() or continues:
        raise ProgramError("start= and on_removed= are for streams", hint='write stream="orders"')
    of = QueueRows(
        options=server,
        decoding=decoding,
        prefetch=prefetch,
        retry_for_ms=duration_ms(retry_for),
    )
    return RabbitmqSource(of, record, names)


def _is_name(name: Any) -> bool:
    is_text = isinstance(name, str) and name.isprintable()
    return is_text and 0 < len(name.encode(errors="replace")) <= _MOST_NAME_BYTES


def _stream_start(start: Any) -> StreamStart:
    if start == "earliest":
        return StreamStart()
    if isinstance(start, datetime):
        return StreamStart(since_ms=moment_ms(start))
    if isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 1 << 63:
        return StreamStart(start)
    raise ProgramError(
        f"start={start!r} is not a position in a stream",
        hint='write "earliest", a datetime or an offset',
    )


@dataclass(frozen=True)
class RabbitmqSource(AcknowledgingSource):
    """Source that `rabbitmq.source` creates."""

    of: QueueRows
    queues: tuple[str, ...]
    rejected: ClassVar[pa.Schema] = REJECTED

    def only_reader(self) -> str | None:
        return "the server delivers each message of a queue to one consumer"

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in self.queues]

    def new_reading(
        self, split: Split, position: MessagePosition | None, ctx: ReaderContext
    ) -> QueueReading:
        return QueueReading(self.of, split.id, position, ctx)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("amqp", self.of.options.address, self.queues)

    def describe(self) -> str:
        return f"RabbitMQ queues {', '.join(self.queues)} at {self.of.options.address}"


@dataclass(frozen=True)
class RabbitmqStreamSource(DecodedSource):
    """Source that `rabbitmq.source` creates for streams."""

    of: RabbitmqStreamRows
    streams: tuple[str, ...]
    start: StreamStart
    bounded: ClassVar[bool] = False  # type: ignore[misc]
    rejected: ClassVar[pa.Schema] = STREAM_REJECTED

    def splits(self) -> Sequence[Split]:
        return [Split(name, msgspec.msgpack.encode(self.start)) for name in self.streams]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        start = msgspec.msgpack.decode(split.payload, type=StreamStart)
        at = None if position is None else MessagePosition.decode(position)
        return RabbitmqStreamReading(self.of, split.id, start, at, ctx).start()

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("amqp", self.of.options.address, self.streams)

    def describe(self) -> str:
        return f"RabbitMQ streams {', '.join(self.streams)} at {self.of.options.address}"
