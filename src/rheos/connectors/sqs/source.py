"""Source of a queue. A split is a consumer, whose messages are deleted at checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgingSource
from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.sqs.queue_reading import (
    ATTRIBUTE,
    FIELDS,
    OPTIONAL,
    REJECTED,
    SqsReading,
    SqsRows,
)
from rheos.connectors.sqs.registration import CONNECTOR
from rheos.connectors.sqs.session import Encoding, check_encoding, check_queue
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

_MOST_IN_FLIGHT = 100_000
_MOST_CONSUMERS = 1_000
_LEAST_HIDDEN_MS, _MOST_HIDDEN_MS = 10_000, 43_200_000


@located_at_call
def source(
    queue: str,
    *,
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    consumers: int = 1,
    in_flight: int = 10_000,
    visibility: str = "60s",
    encoding: Encoding = "text",
    on_error: OnError = "fail",
    retry_for: str = "30s",
    region: str | None = None,
    endpoint: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> SqsSource:
    """Read messages of an Amazon SQS queue at least once.

    ```python
    orders = rh.sqs.source(
        "orders", region="eu-central-1", format=rh.formats.json(), schema=Order
    )
    ```

    The source deletes the messages of a checkpoint once the checkpoint is complete. Until then it hides
    them from other consumers, for as long as the checkpoint takes. After a failure the service delivers
    them again. Each consumer is a split: its watermark and its lateness are its own.

    Args:
        queue: name or URL of the queue, which must exist.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a message that become columns, with their names: "message_id", "sent",
            "receive_count" (how often it was delivered), "group" of a FIFO queue, and
            "attribute.country" for the message attribute "country", as a string.
        consumers: number of consumers, each of which receives up to ten messages per request.
        in_flight: maximum number of messages per consumer that are not deleted. So it is also the
            number of messages per checkpoint.
        visibility: time for which a delivery hides a message, between "10s" and "12h". It is extended
            in time. It is also how long messages of a job that was killed stay hidden.
        encoding: "text", or "base64" if payloads of other bytes were sent so.
        on_error: what to do with a message that does not fit the schema: "fail" the job, or "skip" it,
            which counts it (`skipped`) and emits it to the side output "rejected".
        retry_for: how long to retry (`retries`) if the service is down, before the job fails and is
            restarted by its strategy.
        region: the region; by default that of the AWS configuration.
        endpoint: URL of the service, if not that of the region, such as that of an emulator.
        options: aws_access_key_id, aws_secret_access_key, aws_session_token or profile_name, if not
            those of the AWS configuration. Their values are shown nowhere.

    Returns:
        The source, for `env.from_source`. It is unbounded.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that the format cannot decode.
    """
    check_on_error(on_error)
    for name, value, most in (
        ("consumers", consumers, _MOST_CONSUMERS),
        ("in_flight", in_flight, _MOST_IN_FLIGHT),
    ):
        if not isinstance(value, int) or not 0 < value <= most:
            raise ProgramError(
                f"{name}={value!r} is not between 1 and {most}", hint=f"write {name}={min(most, 10)}"
            )
    hidden_ms = duration_ms(visibility)
    if not _LEAST_HIDDEN_MS <= hidden_ms <= _MOST_HIDDEN_MS:
        raise ProgramError(
            f"visibility={visibility!r} is not between 10 s and 12 h", hint='write visibility="60s"'
        )
    rows, record = declared_rows(check_format(format), schema)
    asked = metadata or {}
    attributes = [str(name) for name in asked if str(name).startswith(ATTRIBUTE)]
    fields = {**dict.fromkeys(attributes, pa.string()), **FIELDS}
    optional = (*attributes, *OPTIONAL)
    decoding = PayloadDecoding.of(format, rows, asked, on_error, fields, optional)
    of = SqsRows(
        options=AwsOptions.of(CONNECTOR.name, region, endpoint, options),
        queue=check_queue(queue),
        decoding=decoding,
        encoding=check_encoding(encoding),
        in_flight=in_flight,
        hidden_s=hidden_ms // 1000,
        retry_for_ms=duration_ms(retry_for),
    )
    return SqsSource(of, record if decoding.schema == rows else None, consumers)


@dataclass(frozen=True)
class SqsSource(AcknowledgingSource):
    """Source that `sqs.source` creates."""

    of: SqsRows
    consumers: int
    rejected: ClassVar[pa.Schema] = REJECTED

    def only_reader(self) -> str | None:
        return "the service delivers each message of a queue to one consumer"

    def splits(self) -> Sequence[Split]:
        return [Split(f"{self.of.queue}#{number}") for number in range(self.consumers)]

    def new_reading(
        self, split: Split, position: MessagePosition | None, ctx: ReaderContext
    ) -> SqsReading:
        return SqsReading(self.of, split.id, position, ctx)

    def datasets(self) -> Sequence[Dataset]:
        return [self.of.options.dataset(self.of.queue)]

    def describe(self) -> str:
        return f"SQS queue {self.of.queue} in {self.of.options.address}"
