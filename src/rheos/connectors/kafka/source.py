"""Source of Kafka topics: a split is a partition, and a position an offset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from rheos.connectors.kafka.bounds import (
    Bound,
    OffsetsBound,
    Partition,
    check_given_starts,
    check_order,
    end_of,
    named,
    resolved_ends,
    resolved_starts,
    start_of,
)
from rheos.connectors.kafka.client_options import ClientOptions, Value, client
from rheos.connectors.kafka.cluster import FoundTopic, KafkaCluster, Topics, is_topic_name
from rheos.connectors.kafka.consumer import TopicConsumer
from rheos.connectors.kafka.decoding import MessageDecoding
from rheos.connectors.kafka.messages import named_fields
from rheos.connectors.kafka.partition import REJECTED, PartitionSplit
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    UnavailableError,
)
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call
from rheos.formats import raw

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
Start: TypeAlias = Literal["earliest", "latest", "group"] | datetime | int | Offsets
End: TypeAlias = Literal["latest"] | datetime | int | Offsets

_ALWAYS = "the source limits buffering itself, between checkpoints"
_OWNED: Mapping[str, str] = {
    "group.id": 'write group="name"',
    "auto.offset.reset": 'use start=, such as start="earliest"',
    "enable.auto.commit": 'offsets are committed with checkpoints: use group="name"',
    "enable.auto.offset.store": _ALWAYS,
    "enable.partition.eof": _ALWAYS,
    "allow.auto.create.topics": "create the topic first",
    "isolation.level": 'write isolation="read_uncommitted"',
    "on_commit": "leave it out",
}


@located_at_call
def source(
    topics: str | Sequence[str] | re.Pattern[str],
    *,
    brokers: str | Sequence[str],
    schema: Any = None,
    format: Format | None = None,
    metadata: Sequence[str] | Mapping[str, str] = (),
    start: Start = "earliest",
    end: End | None = None,
    group: str | None = None,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    discover: str | None = "1m",
    on_error: OnError = "fail",
    options: Mapping[str, Value] | None = None,
) -> KafkaSource:
    """Read the records of Kafka topics exactly once: the offsets are in the job's checkpoints.

    ```python
    orders = rh.kafka.source(
        "orders",
        brokers="localhost:9092",
        schema=Order,
        format=rh.formats.json(),
        metadata={"timestamp": "sent_at"})
    ```

    Each partition is a split: its watermark and its lateness are its own.

    Args:
        topics: a name, several names, or a compiled pattern that must match a whole name.
        brokers: "host:port", several with commas between, or a list of them.
        schema: a dataclass, a pyarrow.Schema or a dict. Not needed if the format has its own columns,
            such as raw bytes and strings.
        format: format of a record's value; by default raw bytes, in a column `value`.
        metadata: metadata to add as columns: "key" (bytes, or a string if the schema declares it so),
            "timestamp" (the broker's or the producer's, as the topic is configured), "headers",
            "topic", "partition" and "offset". Names, or a mapping to the names of the columns.
        start: start of a job without a checkpoint: "earliest", "latest", "group" (the group's committed
            offsets, else earliest), a point in time (a datetime, or ms since the epoch), or offsets:
            `{"orders": {0: 17, 1: 40}}`. Partitions that it does not name, and partitions discovered
            later, begin with their first record.
        end: end of the input, exclusive; such a source is bounded and may be read in batch. "latest" is
            the end when the job is submitted.
        group: the consumer group to which offsets are committed with each checkpoint, for monitoring.
            The job reads them only for `start="group"`.
        isolation: "read_committed" leaves out what transactions have not committed.
        discover: interval at which an unbounded source looks for new partitions and topics; None
        disables it.
        on_error: what to do with a record that does not fit the schema: "fail" the job with its topic,
            partition and offset, or "skip" it, which counts it (`skipped`) and emits it to the side
            output "rejected".
        options: further options of the client (librdkafka's names), such as those for TLS and SASL.
            Their values are shown nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as a topic's name or an option that the source sets.
        SchemaError: The format cannot decode the columns of the schema.
    """
    client()
    check_on_error(on_error)
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ProgramError(
            f"isolation={isolation!r} is not known", hint='write "read_committed" or "read_uncommitted"'
        )
    form = raw() if format is None else check_format(format)
    rows, record = declared_rows(form, schema)
    decoding = MessageDecoding.of(form, rows, named_fields(metadata), on_error)
    form.check_decodes(decoding.payload)
    begin, stop = start_of(start, group), end_of(end)
    if stop is not None:
        check_order(begin, stop)
    if group is not None and not (isinstance(group, str) and group):
        raise ProgramError(
            f"group={group!r} is not a group name", hint='write group="name", or leave it out'
        )
    return KafkaSource(
        topics=_topics(topics),
        options=ClientOptions.of(brokers, options, _OWNED),
        decoding=decoding,
        record=record,
        start=begin,
        end=stop,
        group=group,
        read_committed=isolation == "read_committed",
        discovery_ms=None if discover is None or stop is not None else duration_ms(discover),
    )


def _topics(given: Any) -> Topics:
    if isinstance(given, re.Pattern):
        return given
    one = isinstance(given, str) or not isinstance(given, Iterable)
    names = (given,) if one else tuple(given)
    if not names or not all(map(is_topic_name, names)):
        raise ProgramError(
            f"topics={given!r} does not name a topic",
            hint='write "orders", ["orders", "returns"], or a pattern: '
            "re.compile(\"orders-.*\"); names consist of letters, digits, '.', '_' and '-'",
        )
    return names


@dataclass(frozen=True)
class KafkaSource(Source):
    """Source that `kafka.source` creates."""

    topics: Topics
    options: ClientOptions
    decoding: MessageDecoding
    record: type | None
    start: Bound
    end: Bound | None
    group: str | None
    read_committed: bool
    discovery_ms: int | None
    schema: pa.Schema = field(init=False)
    bounded: bool = field(init=False)
    now: dict[Partition, int] | None = None
    """Offset in each partition at which a run with `--until now` stops. Not stored, as the next run
    stops elsewhere."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.decoding.schema)
        object.__setattr__(self, "bounded", self.end is not None)

    def record_class(self) -> type | None:
        return self.record

    def rejected_schema(self) -> pa.Schema | None:
        return REJECTED if self.decoding.on_error == "skip" else None

    def as_of_now(self) -> Source:
        if self.bounded or self.now is not None:
            return self
        cluster = self._cluster()
        now = cluster.latest(_partitions(cluster.find(self.topics)))
        return replace(self, discovery_ms=None, now=now)

    def splits(self) -> Sequence[Split]:
        cluster = self._cluster()
        found = cluster.find(self.topics)
        if not found and self.discovery_ms is None:
            raise self._no_match()
        partitions = _partitions(found)
        earliest = cluster.earliest(partitions)
        starts = resolved_starts(self.start, partitions, cluster, earliest)
        if isinstance(self.start, OffsetsBound):
            # Records of open transactions exist already, although no reader receives them yet.
            there = KafkaCluster(self.options, read_committed=False).latest(partitions)
            check_given_starts(self.start, there)
        ends = {} if self.end is None else resolved_ends(self.end, partitions, cluster)
        return _splits(found, earliest, starts, ends)

    def discover(self) -> Sequence[Split]:
        try:
            cluster = self._cluster()
            found = cluster.find(self.topics)
            earliest = cluster.earliest(_partitions(found))
        except UnavailableError:
            return ()  # Readers wait for these partitions, and count that.
        return _splits(found, earliest, earliest, {})

    def nothing_found(self) -> RheosError:
        return self._no_match()

    def _no_match(self) -> ConfigurationError:
        goes_on = "" if self.discovery_ms is None else "; the job continues, and looks for topics again"
        return ConfigurationError(
            f"no topic at {self.options.brokers} matches '{self.describe_topics()}'",
            hint=f"check the pattern, which must match the whole name{goes_on}",
        )

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return known splits, which keep their ends, and new partitions, which are read from their
        first record. In a source with an end, new partitions are left out."""
        if self.bounded:
            return [Split(split.id, known[split.id]) for split in splits if split.id in known]
        return [Split(split.id, known.get(split.id) or _from_first(split)) for split in splits]

    def committed_offsets(self, group: str) -> Mapping[Partition, int]:
        """Return the offsets that a consumer group has committed in the source's topics. Partitions
        without one are left out. Raise UnavailableError if no broker answers."""
        cluster = self._cluster()
        return cluster.committed(_partitions(cluster.find(self.topics)), group)

    def splits_at(self, offsets: Mapping[Partition, int]) -> Sequence[Split]:
        """Return the splits of a job that starts at these offsets. Partitions that they do not name
        begin with their first record.

        Raise InputError if an offset is beyond the end of its partition, or if the records from it
        until the partition's first one are already deleted.
        """
        splits = replace(self, start=OffsetsBound(tuple(sorted(offsets.items())))).splits()
        for split in splits:
            found = msgspec.msgpack.decode(split.payload, type=PartitionSplit)
            if found.start < found.first:
                raise InputError(
                    f"the records of {named((found.topic, found.partition))} from offset {found.start} "
                    f"are deleted: its first record has offset {found.first}",
                    hint="the topic's retention was shorter than the time since that offset; start "
                    "the job without the offsets, or from a position that you choose with start=",
                )
        return splits

    def reading_until(self, offsets: Mapping[Partition, int]) -> KafkaSource:
        """Return the source whose `as_of_now` stops before these offsets. Partitions that they do not
        name are not read."""
        return replace(self, discovery_ms=None, now=dict(offsets))

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return TopicConsumer(
            self.options,
            self.decoding,
            group=self.group,
            read_committed=self.read_committed,
            bounded=self.bounded,
            now=self.now,
            ctx=ctx,
        )

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, TopicConsumer)
        return ctx.client.open(msgspec.msgpack.decode(split.payload, type=PartitionSplit), position)

    def describe_topics(self) -> str:
        return self.topics.pattern if isinstance(self.topics, re.Pattern) else ", ".join(self.topics)

    def datasets(self) -> Sequence[Dataset]:
        names = (self.topics.pattern,) if isinstance(self.topics, re.Pattern) else self.topics
        return server_datasets("kafka", self.options.brokers, tuple(names))

    def describe(self) -> str:
        return f"Kafka topics {self.describe_topics()} at {self.options.brokers}"

    def _cluster(self) -> KafkaCluster:
        return KafkaCluster(self.options, read_committed=self.read_committed)


def _partitions(found: Sequence[FoundTopic]) -> list[Partition]:
    return [(topic.name, number) for topic in found for number in topic.partitions]


def _splits(
    found: Sequence[FoundTopic],
    earliest: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> list[Split]:
    made = [
        PartitionSplit(topic.name, number, topic.id, earliest[at], starts[at], ends.get(at))
        for topic in found
        for number in topic.partitions
        for at in [(topic.name, number)]
    ]
    return [Split(each.id, msgspec.msgpack.encode(each)) for each in made]


def _from_first(split: Split) -> bytes:
    found = msgspec.msgpack.decode(split.payload, type=PartitionSplit)
    return msgspec.msgpack.encode(msgspec.structs.replace(found, start=found.first))
