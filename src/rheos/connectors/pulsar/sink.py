"""Sink that publishes each row as a message of Pulsar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.pulsar.client_options import PulsarOptions, client
from rheos.connectors.pulsar.publishing import PulsarPublishing, PulsarTarget
from rheos.connectors.pulsar.session import LOGGER
from rheos.connectors.pulsar.source import is_topic
from rheos.connectors.row_payloads import RowPayloads
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

Compression = Literal["none", "lz4", "zlib", "zstd", "snappy"]


@located_at_call
def sink(
    url: str,
    *,
    topic: str,
    format: Format,
    value: str | Sequence[str] | None = None,
    key: str | None = None,
    event_time: str | None = None,
    properties: str | Sequence[str] = (),
    compression: Compression = "none",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> PulsarSink:
    """Publish each row as a message, at least once.

    ```python
    counts.sink_to(
        rh.pulsar.sink("pulsar://localhost:6650", topic="counts", format=rh.formats.json(), key="page")
    )
    ```

    Args:
        url: as in `rh.pulsar.source`.
        topic: the topic, with or without partitions.
        format: format of the payload, with one row per payload, such as rh.formats.json().
        value: the columns of the payload; all by default.
        key: the column with the key of a message, a string or a whole number. It selects the partition;
            messages without a key are distributed.
        event_time: the column with the event time of a message.
        properties: columns that become properties of a message.
        compression: compression of messages.
        retry_for: how long to retry, when the job is submitted, if the brokers are down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        options: as in `rh.pulsar.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as an unknown compression.
    """
    client()
    if not is_topic(topic):
        raise ProgramError(f"topic={topic!r} does not name a topic", hint='write topic="counts"')
    if compression not in get_args(Compression):
        known = ", ".join(get_args(Compression))
        raise ProgramError(f"compression={compression!r} is not known", hint=f"choose one of {known}")
    target = PulsarTarget(
        PulsarOptions.of(url, options),
        topic,
        RowPayloads.of(format, value),
        key,
        event_time,
        (properties,) if isinstance(properties, str) else tuple(properties),
        compression,
    )
    return PulsarSink(duration_ms(retry_for), target)


@dataclass(frozen=True)
class PulsarSink(SpillingSink):
    """Sink that `pulsar.sink` creates."""

    target: PulsarTarget

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> PulsarSink:
        publishing = PulsarPublishing(self.target, schema)
        self.asked(publishing.open, publishing.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        publishing = PulsarPublishing(self.target, schema)
        return ConfirmedDelivery(publishing, count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("pulsar", self.target.options.address, [self.target.topic])

    def describe(self) -> str:
        return f"Pulsar at {self.target.options.address}, topic {self.target.topic}"
