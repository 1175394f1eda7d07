"""Sink that publishes each row as a message with QoS 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.mqtt.client_options import MqttOptions, client
from rheos.connectors.mqtt.connection import LOGGER
from rheos.connectors.mqtt.publishing import MqttPublishing, MqttTarget
from rheos.connectors.mqtt.topics import TOPICS
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.row_payloads import RowPayloads
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call


@located_at_call
def sink(
    url: str,
    *,
    topic: str,
    format: Format,
    value: str | Sequence[str] | None = None,
    retain: bool = False,
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> MqttSink:
    """Publish each row as a message with QoS 1, at least once.

    ```python
    counts.sink_to(
        rh.mqtt.sink("mqtt://localhost:1883", topic="counts/{page}", format=rh.formats.json())
    )
    ```

    Args:
        url: as in `rh.mqtt.source`.
        topic: the topic, with names of columns in braces for their values: strings or whole numbers,
            which are not empty and have no `/`, `+` or `#`.
        format: format of the payload, with one row per payload, such as rh.formats.json().
        value: the columns of the payload; all by default.
        retain: whether the broker keeps the last message of each topic for later subscribers.
        retry_for: how long to retry, when the job is submitted, if the broker is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        options: as in `rh.mqtt.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a topic with a wildcard.
    """
    client()
    target = MqttTarget(
        MqttOptions.of(url, options),
        NamePattern.of(topic, TOPICS),
        RowPayloads.of(format, value),
        bool(retain),
    )
    return MqttSink(duration_ms(retry_for), target)


@dataclass(frozen=True)
class MqttSink(SpillingSink):
    """Sink that `mqtt.sink` creates."""

    target: MqttTarget

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> MqttSink:
        publishing = MqttPublishing(self.target, schema)
        self.asked(publishing.open, publishing.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        publishing = MqttPublishing(self.target, schema)
        return ConfirmedDelivery(publishing, count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("mqtt", self.target.options.address, [self.target.topic])

    def describe(self) -> str:
        return f"MQTT at {self.target.options.address}, topic {self.target.topic}"
