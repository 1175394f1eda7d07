"""Sink that publishes each row as a message, which the server confirms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.rabbitmq.client_options import RabbitmqOptions, client
from rheos.connectors.rabbitmq.publishing import (
    ROUTING_KEYS,
    OnUnrouted,
    RabbitmqPublishing,
    RabbitmqTarget,
)
from rheos.connectors.rabbitmq.session import LOGGER
from rheos.connectors.row_payloads import RowPayloads
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

_MOST_NAME_BYTES = 255


@located_at_call
def sink(
    url: str,
    *,
    routing_key: str,
    format: Format,
    exchange: str = "",
    value: str | Sequence[str] | None = None,
    on_unrouted: OnUnrouted = "fail",
    persistent: bool = True,
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> RabbitmqSink:
    """Publish each row as a message that RabbitMQ confirms, at least once.

    ```python
    counts.sink_to(
        rh.rabbitmq.sink(
            "amqp://localhost", exchange="pages", routing_key="{page}", format=rh.formats.json()
        )
    )
    ```

    Args:
        url: as in `rh.rabbitmq.source`.
        routing_key: the routing key, with names of columns in braces for their values: strings or whole
            numbers, which are not empty and have no dots, `*` or `#`. Without an exchange, it is the
            name of a queue.
        format: format of the payload, with one row per payload, such as rh.formats.json().
        exchange: the exchange, which must exist; by default messages go to the queue.
        value: the columns of the payload; all by default.
        on_unrouted: what to do with a message that no queue receives: "fail" the job with the row, or
            "drop" it.
        persistent: whether durable queues write the messages to disk.
        retry_for: how long to retry, when the job is submitted, if the server is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        options: as in `rh.rabbitmq.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as an empty routing key.
    """
    client()
    is_name = isinstance(exchange, str) and len(exchange.encode(errors="replace")) <= _MOST_NAME_BYTES
    if not is_name or (exchange and not exchange.isprintable()):
        raise ProgramError(f"exchange={exchange!r} is not a name", hint='write exchange="orders"')
    if on_unrouted not in get_args(OnUnrouted):
        raise ProgramError(f"on_unrouted={on_unrouted!r} is not known", hint='write "fail" or "drop"')
    target = RabbitmqTarget(
        RabbitmqOptions.of(url, options),
        exchange,
        NamePattern.of(routing_key, ROUTING_KEYS),
        RowPayloads.of(format, value),
        on_unrouted,
        bool(persistent),
    )
    return RabbitmqSink(duration_ms(retry_for), target)


@dataclass(frozen=True)
class RabbitmqSink(SpillingSink):
    """Sink that `rabbitmq.sink` creates."""

    target: RabbitmqTarget

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> RabbitmqSink:
        publishing = RabbitmqPublishing(self.target, schema)
        self.asked(publishing.open, publishing.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        publishing = RabbitmqPublishing(self.target, schema)
        return ConfirmedDelivery(publishing, count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        names = [f"{self.target.exchange}.{self.target.routing_key}".strip(".")]
        return server_datasets("amqp", self.target.options.address, names)

    def describe(self) -> str:
        target = self.target
        to = f"exchange {target.exchange}, " if target.exchange else ""
        return f"RabbitMQ at {target.options.address}, {to}routing key {target.routing_key}"
