"""Source of queues. A split is a queue, whose messages are acknowledged at checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgingSource
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.rabbitmq.client_options import RabbitmqOptions, client
from rheos.connectors.rabbitmq.queue_reading import FIELDS, REJECTED, QueueReading, QueueRows
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

_MOST_NAME_BYTES = 255
_MOST_PREFETCH = 65_535


@located_at_call
def source(
    url: str,
    *,
    queue: str | Sequence[str],
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    prefetch: int = 10_000,
    on_error: OnError = "fail",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> RabbitmqSource:
    """Read messages of RabbitMQ queues at least once.

    ```python
    orders = rh.rabbitmq.source(
        "amqp://localhost", queue="orders", format=rh.formats.json(), schema=Order
    )
    ```

    The source acknowledges the messages of a checkpoint once the checkpoint is complete, and the server
    deletes them then. After a failure the server delivers those of an interrupted checkpoint again.
    Each queue is a split: its watermark and its lateness are its own.

    Args:
        url: "amqp://user:password@host:5672/vhost", "amqps://..." for TLS.
        queue: the name of a queue, or several. They must exist.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a message that become columns, with their names: "routing_key", "exchange",
            "redelivered".
        prefetch: maximum number of messages per queue that are not acknowledged, up to 65,535. So it is
            also the number of messages per checkpoint.
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
    names = (queue,) if isinstance(queue, str) else tuple(queue)
    if not names or not all(map(_is_name, names)) or len(set(names)) < len(names):
        raise ProgramError(f"queue={queue!r} does not name queues", hint='write queue="orders"')
    if not isinstance(prefetch, int) or not 0 < prefetch <= _MOST_PREFETCH:
        raise ProgramError(
            f"prefetch={prefetch!r} is not between 1 and {_MOST_PREFETCH}", hint="write prefetch=10_000"
        )
    rows, record = declared_rows(check_format(format), schema)
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, FIELDS)
    of = QueueRows(
        options=RabbitmqOptions.of(url, options),
        decoding=decoding,
        prefetch=prefetch,
        retry_for_ms=duration_ms(retry_for),
    )
    return RabbitmqSource(of, record if decoding.schema == rows else None, names)


def _is_name(name: Any) -> bool:
    is_text = isinstance(name, str) and name.isprintable()
    return is_text and 0 < len(name.encode(errors="replace")) <= _MOST_NAME_BYTES


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
