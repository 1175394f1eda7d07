"""Source of a subscription to MQTT topics. It has one split, whose messages are acknowledged at
checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgingSource
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.mqtt.client_options import MqttOptions, client
from rheos.connectors.mqtt.subscription import FIELDS, REJECTED, MqttReading, SubscribedRows
from rheos.connectors.mqtt.topics import topic_filters
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

Acknowledge = Literal["checkpoint", "received"]
_MOST_ID_BYTES = 65_535
_MOST_KEPT_S = (1 << 32) - 2
"""Longest time that MQTT can express; one second more means forever."""


@located_at_call
def source(
    url: str,
    *,
    topic: str | Sequence[str],
    client_id: str,
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    acknowledge: Acknowledge = "checkpoint",
    keep_for: str = "7d",
    retained: bool = True,
    on_error: OnError = "fail",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> MqttSource:
    """Read messages of MQTT topics at least once, by a persistent session with QoS 1.

    ```python
    alarms = rh.mqtt.source(
        "mqtt://localhost:1883",
        topic="plants/+/alarms",
        client_id="alarms",
        format=rh.formats.json(),
        schema=Alarm,
    )
    ```

    The broker stores messages for the source from its first connection on, and deletes those that it
    acknowledges. The source acknowledges the messages of a checkpoint once the checkpoint is complete.
    So the broker sends those of an interrupted checkpoint again. One subtask reads.

    Args:
        url: "mqtt://host:1883", or "mqtts://host:8883" for TLS; with user:password@ if required.
        topic: a topic filter such as "plants/+/alarms" or "plants/#", or several.
        client_id: name of the session at the broker. Each source of each job needs its own.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a message that become columns, with their names: "topic", and "retained"
            (whether it is the last value of a topic from before the subscription).
        acknowledge: "checkpoint" as above. "received" acknowledges messages when the job reads them: a
            failure loses those since the last checkpoint. Use it if the broker limits the number of
            messages without an acknowledgement, and you cannot raise that limit.
        keep_for: how long the broker keeps messages while the job is down.
        retained: whether a new session first receives the retained messages of its topics.
        on_error: what to do with a message that does not fit the schema: "fail" the job, or "skip" it,
            which counts it (`skipped`) and emits it to the side output "rejected".
        retry_for: how long to retry (`retries`) if the broker is down, before the job fails and is
            restarted by its strategy.
        options: files for TLS: tls_ca_file, tls_cert_file, tls_key_file.

    Returns:
        The source, for `env.from_source`. It is unbounded.

    Raises:
        ProgramError: An argument is invalid, such as a topic filter.
        SchemaError: The schema has a column that the format cannot decode.
    """
    client()
    check_on_error(on_error)
    if acknowledge not in get_args(Acknowledge):
        raise ProgramError(
            f"acknowledge={acknowledge!r} is not known", hint='write "checkpoint" or "received"'
        )
    is_text = isinstance(client_id, str) and client_id.isprintable()
    if not is_text or not 0 < len(client_id.encode(errors="replace")) <= _MOST_ID_BYTES:
        raise ProgramError(f"client_id={client_id!r} is not a name", hint='write client_id="alarms"')
    keeps_s = duration_ms(keep_for) // 1000
    if not 0 < keeps_s <= _MOST_KEPT_S:
        raise ProgramError(
            f"keep_for={keep_for!r} is not between 1 second and 136 years", hint='write keep_for="7d"'
        )
    rows, record = declared_rows(check_format(format), schema)
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, FIELDS)
    of = SubscribedRows(
        options=MqttOptions.of(url, options),
        decoding=decoding,
        filters=topic_filters(topic),
        client_id=client_id,
        keeps_s=keeps_s,
        at_checkpoints=acknowledge == "checkpoint",
        retained=bool(retained),
        retry_for_ms=duration_ms(retry_for),
    )
    return MqttSource(of, record if decoding.schema == rows else None)


@dataclass(frozen=True)
class MqttSource(AcknowledgingSource):
    """Source that `mqtt.source` creates."""

    of: SubscribedRows
    rejected: ClassVar[pa.Schema] = REJECTED

    def only_reader(self) -> str | None:
        return "the broker sends the messages of a client id to one client"

    def lost_by_failure(self) -> str | None:
        if self.of.at_checkpoints:
            return None
        return "messages since the last checkpoint, because they are acknowledged when they are read"

    def splits(self) -> Sequence[Split]:
        return [Split(self.of.client_id)]

    def new_reading(
        self, split: Split, position: MessagePosition | None, ctx: ReaderContext
    ) -> MqttReading:
        return MqttReading(self.of, position, ctx)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("mqtt", self.of.options.address, self.of.filters)

    def describe(self) -> str:
        return f"MQTT topic {', '.join(self.of.filters)} at {self.of.options.address}"
