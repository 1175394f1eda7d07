"""Sink that sends each row as a message to a queue."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.connectors.aws.batch_delivery import BatchDelivery
from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.row_payloads import RowPayloads, pieces
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.connectors.sqs.publishing import DEDUPLICATIONS, GROUPS, QueuePublishing, SqsTarget
from rheos.connectors.sqs.registration import CONNECTOR
from rheos.connectors.sqs.session import LOGGER, Encoding, check_encoding, check_queue
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

Delivery = Literal["at_least_once", "effectively_once"]
_FIFO = ".fifo"
_MOST_ATTRIBUTES = 10


@located_at_call
def sink(
    queue: str,
    *,
    format: Format,
    value: str | Sequence[str] | None = None,
    attributes: str | Sequence[str] = (),
    group: str | None = None,
    deduplication: str | None = None,
    delivery: Delivery = "at_least_once",
    keep_order: bool = True,
    encoding: Encoding = "text",
    retry_for: str = "30s",
    region: str | None = None,
    endpoint: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> SqsSink:
    """Send each row as a message to an Amazon SQS queue, standard or FIFO.

    ```python
    counts.sink_to(rh.sqs.sink("counts.fifo", group="{page}", format=rh.formats.json()))
    ```

    Args:
        queue: name or URL of the queue, which must exist. Names of FIFO queues end with ".fifo".
        format: format of the payload, with one row per payload, such as rh.formats.json().
        value: the columns of the payload; all by default.
        attributes: columns that become message attributes, up to ten. A null or empty value is left
            out.
        group: the message group of a FIFO queue, which requires it, with names of columns in braces for
            their values. The queue keeps the order of a group.
        deduplication: the id by which a FIFO queue recognises repeated messages for five minutes, such
            as "{order_id}". By default Rheos makes the ids.
        delivery: "at_least_once" sends rows immediately, and after a failure some of them again.
            "effectively_once" sends rows when their checkpoint is complete, with ids that a FIFO queue
            recognises if they are sent again within five minutes.
        keep_order: whether messages of a group keep the order of their rows, also if the service
            refuses some of them for a moment. Then no request has two messages of one group.
        encoding: "text", or "base64" for payloads that are not text.
        retry_for: how long to retry, when the job is submitted, if the service is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        region: as in `rh.sqs.source`.
        endpoint: as in `rh.sqs.source`.
        options: as in `rh.sqs.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a FIFO queue without a group.
    """
    is_fifo = check_queue(queue).endswith(_FIFO)
    if delivery not in get_args(Delivery):
        raise ProgramError(
            f"delivery={delivery!r} is not known", hint='write "at_least_once" or "effectively_once"'
        )
    if is_fifo != (group is not None):
        raise ProgramError(
            f"the queue {queue!r} {'needs' if is_fifo else 'has no'} message groups",
            hint='write group="{country}" for a queue whose name ends with .fifo, and only for such',
        )
    if not is_fifo and (deduplication is not None or delivery == "effectively_once"):
        raise ProgramError(
            f"the queue {queue!r} does not recognise repeated messages",
            hint="choose a FIFO queue, whose name ends with .fifo",
        )
    if deduplication is not None and delivery == "effectively_once":
        raise ProgramError(
            'deduplication= is not for delivery="effectively_once", which makes the ids',
            hint="leave one of them out",
        )
    columns = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    if len(columns) > _MOST_ATTRIBUTES or len({*columns}) < len(columns):
        raise ProgramError(
            f"attributes={attributes!r} does not name up to {_MOST_ATTRIBUTES} columns",
            hint='write attributes=["country"]',
        )
    target = SqsTarget(
        AwsOptions.of(CONNECTOR.name, region, endpoint, options),
        queue,
        RowPayloads.of(format, value),
        check_encoding(encoding),
        columns,
        None if group is None else NamePattern.of(group, GROUPS),
        None if deduplication is None else NamePattern.of(deduplication, DEDUPLICATIONS),
        is_fifo and bool(keep_order),
    )
    return SqsSink(duration_ms(retry_for), target, delivery == "effectively_once")


@dataclass(frozen=True)
class SqsSink(SpillingSink):
    """Sink that `sqs.sink` creates."""

    target: SqsTarget
    effectively_once: bool

    @property
    def stages_all(self) -> bool:
        return self.effectively_once

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> SqsSink:
        publishing = QueuePublishing(self.target, schema)
        self.asked(publishing.check, publishing.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        publishing = QueuePublishing(self.target, schema)
        if self.effectively_once:
            return EpochDelivery(publishing, count, patience_ms)
        return BatchDelivery(publishing, count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        return [self.target.options.dataset(self.target.queue)]

    def describe(self) -> str:
        return f"SQS queue {self.target.queue} in {self.target.options.address}"


class EpochDelivery(BatchDelivery):
    """Sends the rows of staged epochs. A row has the same id in each try."""

    def __init__(self, publishing: QueuePublishing, count: Count, patience_ms: int) -> None:
        super().__init__(publishing, count, patience_ms, LOGGER)
        self._epoch = ""
        self._row = 0

    def begin_epoch(self, folder: SinkFolder, path: str) -> None:
        self._epoch, self._row = posixpath.basename(path), 0

    def write(self, batch: Batch) -> None:
        assert self._epoch, "rows belong to an epoch"
        for rows in pieces(batch):
            ids = [f"{self._epoch}#{self._row + row}" for row in range(rows.num_rows)]
            self.deliver(self._batches.pending(rows, ids))
            self._row += rows.num_rows
