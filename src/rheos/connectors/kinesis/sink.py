"""Sink that writes each row as a record of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.aws.batch_delivery import BatchDelivery
from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.kinesis.publishing import PARTITION_KEYS, KinesisTarget, StreamPublishing
from rheos.connectors.kinesis.registration import CONNECTOR
from rheos.connectors.kinesis.session import LOGGER, check_stream
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.row_payloads import RowPayloads
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call


@located_at_call
def sink(
    stream: str,
    *,
    format: Format,
    partition_key: str | None = None,
    value: str | Sequence[str] | None = None,
    keep_order: bool = False,
    retry_for: str = "30s",
    region: str | None = None,
    endpoint: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> KinesisSink:
    """Write each row as a record of an Amazon Kinesis stream, at least once.

    ```python
    counts.sink_to(
        rh.kinesis.sink("counts", partition_key="{page}", format=rh.formats.json(), region="eu-west-1")
    )
    ```

    Args:
        stream: name or ARN of the stream, which must exist.
        format: format of the payload, with one row per payload, such as rh.formats.json().
        partition_key: the partition key, with names of columns in braces for their values: strings or
            whole numbers, which are not empty. None for random keys, which use all shards alike.
        value: the columns of the payload; all by default.
        keep_order: whether records of one partition key are stored in the order of their rows, also if
            the service refuses some of them for a moment. Then no request has two records of one key.
        retry_for: how long to retry, when the job is submitted, if the service is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        region: as in `rh.kinesis.source`.
        endpoint: as in `rh.kinesis.source`.
        options: as in `rh.kinesis.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as an empty partition key.
    """
    if keep_order and partition_key is None:
        raise ProgramError("keep_order= needs a partition key", hint='write partition_key="{country}"')
    target = KinesisTarget(
        AwsOptions.of(CONNECTOR.name, region, endpoint, options),
        check_stream(stream),
        None if partition_key is None else NamePattern.of(partition_key, PARTITION_KEYS),
        RowPayloads.of(format, value),
        bool(keep_order),
    )
    return KinesisSink(duration_ms(retry_for), target)


@dataclass(frozen=True)
class KinesisSink(SpillingSink):
    """Sink that `kinesis.sink` creates."""

    target: KinesisTarget

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> KinesisSink:
        publishing = StreamPublishing(self.target, schema)
        self.asked(publishing.check, publishing.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return BatchDelivery(StreamPublishing(self.target, schema), count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        return [self.target.options.dataset(self.target.stream)]

    def describe(self) -> str:
        return f"Kinesis stream {self.target.stream} in {self.target.options.address}"
