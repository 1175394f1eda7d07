"""Sink that writes to a topic of Kafka: exactly once by staged epochs, or at least once immediately."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.connectors.kafka.client_options import ClientOptions, Value, client
from rheos.connectors.kafka.cluster import KafkaCluster, is_topic_name
from rheos.connectors.kafka.epoch_commits import IfUnknown
from rheos.connectors.kafka.epoch_committer import EpochCommitter
from rheos.connectors.kafka.producing import OWNED
from rheos.connectors.kafka.records import RecordLayout
from rheos.connectors.kafka.writers import AtLeastOnceWriter, ExactlyOnceWriter, Target
from rheos.connectors.user_formats import check_format
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import check_changes_key
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.site import located_at_call
from rheos.formats import json as json_format

Guarantee = Literal["exactly_once", "at_least_once"]

_CLIENT_MAX_BYTES = 1_000_000
"""Default of the client's message.max.bytes."""
_OVERHEAD_BYTES = 256
"""Maximum size that a batch of one record adds to the record, without its headers."""
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@located_at_call
def sink(
    topic: str,
    *,
    brokers: str | Sequence[str],
    format: Format | None = None,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    tombstone: str | None = None,
    guarantee: Guarantee = "exactly_once",
    options: Mapping[str, Value] | None = None,
    id_prefix: str = "rheos",
    if_unknown: IfUnknown = "fail",
) -> KafkaSink:
    """Write the rows of a stream to an existing topic, one record per row.

    ```python
    counts.sink_to(rh.kafka.sink("counts", brokers="localhost:9092", key="page"))
    ```

    Args:
        topic: its name.
        brokers: `host:port` of some of the brokers.
        format: of the values; JSON by default.
        key: the column whose value is the record's key: strings and bytes as they are, whole numbers as
            decimal strings. Records of one key go to one partition.
        value: the column or columns that make the value. By default all except those of `headers`,
            `partition` and `tombstone`.
        headers: names of headers, each with the column of its value (string or bytes; null omits the
            header).
        partition: the column with the number of the partition. For null, the partitioner of Kafka's own
            clients chooses (murmur2 of the key).
        timestamp: the column with the record's timestamp. By default it is the time of sending.
        tombstone: a boolean column: for true the record has no value, which deletes the key in a
            compacted topic.
        guarantee: "exactly_once": readers of committed records (isolation.level=read_committed) see
            each row once, after its checkpoint is complete. "at_least_once": they are sent at once, and
            again after a failure.
        options: any other option of librdkafka, such as those of TLS and SASL, and compression.type.
            Their values are shown nowhere.
        id_prefix: prefix of the sink's transactional ids and groups, one for each subtask of each
            attempt, so that a broker can authorise them.
        if_unknown: what to do with staged rows if the broker no longer knows whether it has them, for
            example after a killed job was down for a week: "fail" with an error that explains what to
            check, "write" or "skip".

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a topic's name or an option that the sink sets.
    """
    if not is_topic_name(topic):
        raise ProgramError(
            f"{topic!r} is not a valid topic name", hint="use letters, digits, '.', '_' and '-'"
        )
    if guarantee not in get_args(Guarantee):
        raise ProgramError(
            f"guarantee={guarantee!r} is not known", hint='write "exactly_once" or "at_least_once"'
        )
    if if_unknown not in get_args(IfUnknown):
        raise ProgramError(
            f"if_unknown={if_unknown!r} is not known", hint='write "fail", "write" or "skip"'
        )
    if not isinstance(id_prefix, str) or _PREFIX.fullmatch(id_prefix) is None:
        raise ProgramError(
            f"id_prefix={id_prefix!r} is not a valid prefix of an id",
            hint="use letters, digits, '.', '_' and '-'",
        )
    if headers is not None and not isinstance(headers, Mapping):
        raise ProgramError(
            f"headers={headers!r} is not a dict",
            hint='map header names to columns: headers={"trace-id": "trace"}',
        )
    values = [value] if isinstance(value, str) else value
    if values is not None and not isinstance(values, Sequence):
        raise ProgramError(f"value={value!r} does not name columns", hint='write value=["a", "b"]')
    columns = {"key": key, "partition": partition, "timestamp": timestamp, "tombstone": tombstone}
    for name, column in columns.items():
        if column is not None and not isinstance(column, str):
            raise ProgramError(
                f"{name}={column!r} is not a column name",
                hint=f'write {name}="column"; combine several columns into one first',
            )
    layout = RecordLayout(
        format=check_format(json_format() if format is None else format),
        key=key,
        headers=tuple((headers or {}).items()),
        partition=partition,
        timestamp=timestamp,
        tombstone=tombstone,
        value=None if values is None else tuple(values),
    )
    client()
    reached = ClientOptions.of(brokers, options, OWNED)
    return KafkaSink(Target(topic, reached, layout, id_prefix, if_unknown), guarantee)


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Sink that `kafka.sink` creates."""

    target: Target
    guarantee: Guarantee

    def validate(self, schema: pa.Schema) -> None:
        self.target.layout.check(schema)

    @property
    def takes_changes(self) -> bool:
        """Return whether the format writes the kind of each change."""
        return self.target.layout.format.encodes_changes

    def of_changes(self, key: Sequence[str], delete: str) -> KafkaSink:
        layout = self.target.layout
        named = layout.key_columns
        check_changes_key("key", named, key, layout.tombstone)
        return self._replace_target(layout=replace(layout, tombstone=delete))

    def keyed_by(self, key: tuple[str, ...], format: Format) -> KafkaSink:
        """Return the sink whose records have keys of several columns, in a format."""
        return self._replace_target(layout=replace(self.target.layout, formatted_key=(key, format)))

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> KafkaSink:
        options = self.target.options
        cluster = KafkaCluster(options)
        [found] = cluster.find((self.target.topic,))
        limits = [int(str(dict(options.options).get("message.max.bytes", _CLIENT_MAX_BYTES)))]
        of_topic = cluster.max_message_bytes(self.target.topic)
        if of_topic is not None:
            limits.append(of_topic - _OVERHEAD_BYTES)
        return self._replace_target(partitions=len(found.partitions), max_bytes=min(limits))

    def staged(self, folder: str) -> KafkaSink:
        return self._replace_target(folder=folder)

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.guarantee == "at_least_once":
            return AtLeastOnceWriter(self.target, ctx)
        return ExactlyOnceWriter(self.target, ctx)

    def committer(self) -> Committer | None:
        target = self.target
        if target.folder is None:
            return None
        # Also if the guarantee is at least once: the last checkpoint may be of a program that staged
        # epochs.
        return EpochCommitter(target.options, target.folder, target.if_unknown)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("kafka", self.target.options.brokers, [self.target.topic])

    def describe(self) -> str:
        target, once = self.target, self.guarantee.replace("_", " ")
        where = f"Kafka topic {target.topic} at {target.options.brokers}"
        return f"{where}, {target.layout.format.describe()}, {once}"

    def _replace_target(self, **known: Any) -> KafkaSink:
        return replace(self, target=replace(self.target, **known))
