"""Publishing of rows as records of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa

from rheos.connectors.aws.batch_delivery import BatchEntry, BatchLimits, BatchPublishing, RefusedEntry
from rheos.connectors.aws.client_options import AwsOptions, is_temporary
from rheos.connectors.kinesis.session import kinesis_session, named_stream
from rheos.connectors.name_patterns import NamePattern, NameSyntax
from rheos.connectors.row_payloads import PayloadEncoder, RowPayloads
from rheos.core.connectors.schemas import shown_row
from rheos.core.protocol.elements import Batch

PARTITION_KEYS = NameSyntax(
    argument="partition_key",
    part="a part",
    names=r"[^{}]+",
    values=r"^[\s\S]+$",
    values_rule="is not empty",
    example="{country}",
    most_bytes=256,
)
_LIMITS = BatchLimits(500, 5 << 20)


@dataclass(frozen=True)
class KinesisTarget:
    """Configuration of where and how rows are written. Frozen: it is sent to the workers."""

    options: AwsOptions
    stream: str
    partition_key: NamePattern | None
    """None for random keys."""
    payloads: RowPayloads
    keeps_order: bool

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be written to the stream {self.stream!r}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be written."""
        if self.partition_key is not None:
            self.partition_key.check(schema)
        self.payloads.check(schema)


class StreamPublishing(BatchPublishing):
    """Writes rows to the stream, by requests for up to 500 records."""

    def __init__(self, target: KinesisTarget, schema: pa.Schema) -> None:
        super().__init__(_LIMITS, target.doing, keeps_order=target.keeps_order)
        self._target = target
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._session = kinesis_session(target.options, target.doing)

    def check(self) -> None:
        """Raise RheosError if the stream does not exist, or the service does not answer."""
        named = named_stream(self._target.stream)
        self._session.ask(lambda client: client.describe_stream_summary(**named))

    def entries(self, rows: Batch, ids: Sequence[str] | None) -> Sequence[BatchEntry]:
        pattern = self._target.partition_key
        keys = [uuid4().hex for _ in range(rows.num_rows)] if pattern is None else pattern.names(rows)
        return [
            BatchEntry(
                row, key, len(payload) + len(key.encode()), {"Data": payload, "PartitionKey": key}
            )
            for row, (key, payload) in enumerate(zip(keys, self._encoder.encode(rows), strict=True))
        ]

    def send(self, rows: Batch, entries: Sequence[BatchEntry]) -> Sequence[RefusedEntry]:
        named = named_stream(self._target.stream)
        records = [entry.request for entry in entries]

        def largest() -> str | None:
            # If the service refuses the whole request, a record is too large.
            return shown_row(rows, max(entries, key=lambda entry: entry.size_bytes).row)

        answer: Any = self._session.ask(
            lambda client: client.put_records(Records=records, **named), largest
        )
        return [
            RefusedEntry(at, code, str(each.get("ErrorMessage", "")), is_temporary(code))
            for at, each in enumerate(answer["Records"])
            if (code := str(each.get("ErrorCode") or ""))
        ]

    def close(self) -> None:
        self._session.close()
