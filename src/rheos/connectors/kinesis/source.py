"""Source of a stream: a split is a shard, and a position a sequence number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec
import pyarrow as pa

from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.decoded_source import DecodedSource
from rheos.connectors.kinesis.positions import ShardPosition
from rheos.connectors.kinesis.records import FIELDS, REJECTED
from rheos.connectors.kinesis.registration import CONNECTOR
from rheos.connectors.kinesis.session import LOGGER, check_stream, kinesis_session
from rheos.connectors.kinesis.shard_reading import ShardReading, ShardRows
from rheos.connectors.kinesis.shards import FoundShards, ShardSplit, find_shards
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.outage_patience import Patience
from rheos.connectors.removed_messages import OnRemoved, continues_after_removal
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import InputError, ProgramError, UnavailableError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.moments import moment_ms
from rheos.core.site import located_at_call

_SECOND_MS = 1000
_LEAST_POLL_MS = 200
"""The service answers five requests per second and shard."""


@located_at_call
def source(
    stream: str,
    *,
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    start: Literal["earliest", "latest"] | datetime = "earliest",
    end: Literal["latest"] | datetime | None = None,
    discover: str | None = "10s",
    poll_interval: str = "250ms",
    on_removed: OnRemoved = "fail",
    on_error: OnError = "fail",
    retry_for: str = "30s",
    region: str | None = None,
    endpoint: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> KinesisSource:
    """Read a stream of Amazon Kinesis exactly once: the job's checkpoints have the sequence number of
    the last record of each shard.

    ```python
    orders = rh.kinesis.source(
        "orders", region="eu-central-1", format=rh.formats.json(), schema=Order
    )
    ```

    Each shard is a split: its watermark and its lateness are its own. When a shard is split or merged,
    the job finds its children, and reads them when it has read their parents. Records that the Kinesis
    Producer Library has aggregated are read one by one.

    Args:
        stream: name or ARN of the stream.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a record that become columns, with their names: "partition_key",
            "sequence_number", "shard", "timestamp" (when the service has stored it).
        start: start of a job without a checkpoint: "earliest", "latest" (the second in which the job is
            submitted), or a datetime.
        end: time of the last record to read, a datetime or "latest" (the second in which the job is
            submitted); such a source is bounded and may be read in batch.
        discover: interval at which the job looks for new shards; None for never.
        poll_interval: time between two requests for records of one shard, at least "200ms": the service
            answers five per second, to all readers of a shard together.
        on_removed: what to do if the stream may have dropped records before the job has read them,
            because their age has reached its retention: "fail", or "continue" with the first record
            that exists, counted as `removed`.
        on_error: what to do with a record that does not fit the schema: "fail" the job with shard and
            sequence number, or "skip" it, which counts it (`skipped`) and emits it to the side output
            "rejected".
        retry_for: how long to retry (`retries`) if the service is down or refuses requests because
            there are too many, before the job fails and is restarted by its strategy.
        region: the region; by default that of the AWS configuration.
        endpoint: URL of the service, if not that of the region, such as that of an emulator.
        options: aws_access_key_id, aws_secret_access_key, aws_session_token or profile_name, if not
            those of the AWS configuration. Their values are shown nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that the format cannot decode.
    """
    check_on_error(on_error)
    continues = continues_after_removal(on_removed)
    rows, record = declared_rows(check_format(format), schema)
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, FIELDS)
    if not (start in ("earliest", "latest") or isinstance(start, datetime)):
        raise ProgramError(
            f"start={start!r} is not a position in a stream",
            hint='write "earliest", "latest" or a datetime',
        )
    if not (end is None or end == "latest" or isinstance(end, datetime)):
        raise ProgramError(
            f"end={end!r} is not a position in a stream", hint='write "latest" or a datetime'
        )
    poll_ms = duration_ms(poll_interval)
    if poll_ms < _LEAST_POLL_MS:
        raise ProgramError(
            f"poll_interval={poll_interval!r} is shorter than {_LEAST_POLL_MS} ms",
            hint="the service answers five requests per second and shard",
        )
    of = ShardRows(
        AwsOptions.of(CONNECTOR.name, region, endpoint, options),
        check_stream(stream),
        decoding,
        poll_ms,
        duration_ms(retry_for),
        continues,
    )
    discovery_ms = None if discover is None or end is not None else duration_ms(discover)
    return KinesisSource(of, record if decoding.schema == rows else None, start, end, discovery_ms)


@dataclass(frozen=True)
class KinesisSource(DecodedSource):
    """Source that `kinesis.source` creates."""

    of: ShardRows
    start: str | datetime
    end: str | datetime | None
    discovery_ms: int | None
    orders_splits: ClassVar[bool] = True
    bounded: bool = field(init=False)
    rejected: ClassVar[pa.Schema] = REJECTED

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounded", self.end is not None)

    def splits(self) -> Sequence[Split]:
        found = self._find_shards(self.of.retry_for_ms)
        since_ms = None
        if isinstance(self.start, datetime):
            since_ms = moment_ms(self.start)
        elif self.start == "latest":
            since_ms = found.now_ms
        end_ms = None
        if self.end is not None:
            last_ms = found.now_ms + _SECOND_MS - 1
            end_ms = moment_ms(self.end) if isinstance(self.end, datetime) else last_ms
            if end_ms > last_ms:
                raise InputError(
                    f"end={self.end} of the stream {self.of.stream!r} is in the future",
                    hint='write end="latest"; or leave it out, and end the job with `rheos stop`',
                )
        return found.splits(since_ms, end_ms)

    def discover(self) -> Sequence[Split]:
        """Return the shards that exist now. New ones are read from their first record."""
        try:
            return self._find_shards(0).splits(None, None)
        except UnavailableError:
            return ()  # Readers wait for the service, and count that.

    def _find_shards(self, retry_for_ms: int) -> FoundShards:
        stream = self.of.stream
        session = kinesis_session(self.of.options, f"the stream {stream!r} cannot be read")
        patience = Patience(retry_for_ms, lambda: None, LOGGER)
        try:
            return patience.ask(lambda: find_shards(session, stream))
        finally:
            session.close()

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return known splits, which keep their ends, and new shards, which are read from their first
        record. In a source with an end, new shards are left out."""
        created_ms = {ShardSplit.of(Split(id, payload)).created_ms for id, payload in known.items()}
        found = [ShardSplit.of(split) for split in splits]
        if created_ms and any(each.created_ms not in created_ms for each in found):
            raise InputError(
                f"the stream {self.of.stream!r} was created anew, and the job's positions are those of "
                "the former one",
                hint="to read the records that exist now, start the job anew, without a checkpoint",
            )
        if self.bounded:
            return [Split(each.shard, known[each.shard]) for each in found if each.shard in known]
        return [
            Split(each.shard, known[each.shard])
            if each.shard in known
            else msgspec.structs.replace(each, since_ms=None).split
            for each in found
        ]

    def read_after(self, split: Split) -> Sequence[str]:
        return ShardSplit.of(split).parents

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        at = None if position is None else ShardPosition.decode(position)
        return ShardReading(self.of, ShardSplit.of(split), at, ctx).start()

    def datasets(self) -> Sequence[Dataset]:
        return [self.of.options.dataset(self.of.stream)]

    def describe(self) -> str:
        return f"Kinesis stream {self.of.stream} in {self.of.options.address}"
