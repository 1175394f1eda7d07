"""Source of Pulsar topics: a split is a partition, and a position the id of a message."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec
import pyarrow as pa

from rheos.connectors.decoded_source import DecodedSource
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.outage_patience import Patience
from rheos.connectors.pulsar.client_options import PulsarOptions, client
from rheos.connectors.pulsar.messages import FIELDS, OPTIONAL, REJECTED
from rheos.connectors.pulsar.partition_reading import PartitionReading, PulsarRows, PulsarSplit
from rheos.connectors.pulsar.positions import MessageNumber
from rheos.connectors.pulsar.session import LOGGER, PulsarSession
from rheos.connectors.removed_messages import OnRemoved, continues_after_removal
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError, UnavailableError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.moments import moment_ms
from rheos.core.site import located_at_call

_TOPIC = re.compile(r"(persistent://[^/\s]+/[^/\s]+/)?[^/\s]+")


@located_at_call
def source(
    url: str,
    *,
    topic: str | Sequence[str],
    format: Format,
    schema: Any = None,
    metadata: Mapping[str, str] | None = None,
    start: Literal["earliest", "latest"] | datetime = "earliest",
    end: Literal["latest"] | None = None,
    compacted: bool = False,
    discover: str | None = "1m",
    on_removed: OnRemoved = "fail",
    on_error: OnError = "fail",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> PulsarSource:
    """Read messages of Pulsar topics exactly once: the id of the last message read is in the job's
    checkpoints.

    ```python
    orders = rh.pulsar.source(
        "pulsar://localhost:6650", topic="orders", format=rh.formats.json(), schema=Order
    )
    ```

    Each partition is a split: its watermark and its lateness are its own. The readers acknowledge
    nothing and have no subscription, so the namespace's retention decides how long messages remain.

    Args:
        url: "pulsar://host:6650", "pulsar+ssl://..." for TLS. Commas separate the hosts of a cluster.
        topic: the name of a topic, or several: "orders", "persistent://tenant/namespace/orders".
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        metadata: fields of a message that become columns, with their names: "key", "event_time",
            "timestamp" (when it was published), "properties", "producer", "partition", "message_id".
        start: start of a job without a checkpoint: "earliest", "latest" (after the last message when
            the job is submitted), or a datetime, which means the first message published at or after
            it. Partitions that are discovered later begin with their first message.
        end: "latest" ends each partition with its last message when the job is submitted; such a source
            is bounded and may be read in batch.
        compacted: whether to read the compacted topic: only the last message of each key, as far as the
            topic was compacted.
        discover: interval at which an unbounded source looks for new partitions; None disables it.
        on_removed: what to do if messages after the job's position may have been removed: "fail", or
            "continue" with the first message that exists, counted as `removed`.
        on_error: what to do with a message that does not fit the schema: "fail" the job with partition
            and message id, or "skip" it, which counts it (`skipped`) and emits it to the side output
            "rejected".
        retry_for: how long to retry (`retries`) if the brokers are down, before the job fails and is
            restarted by its strategy.
        options: credentials and TLS: token, tls_ca_file, tls_cert_file, tls_key_file. Their values are
            shown nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that the format cannot decode.
    """
    client()
    check_on_error(on_error)
    continues = continues_after_removal(on_removed)
    names = (topic,) if isinstance(topic, str) else tuple(topic)
    if not names or not all(map(is_topic, names)) or len(set(names)) < len(names):
        raise ProgramError(f"topic={topic!r} does not name topics", hint='write topic="orders"')
    rows, record = declared_rows(check_format(format), schema)
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, FIELDS, OPTIONAL)
    if not (start in ("earliest", "latest") or isinstance(start, datetime)):
        raise ProgramError(
            f"start={start!r} is not a position in a topic",
            hint='write "earliest", "latest", or a datetime',
        )
    if end not in (None, "latest"):
        raise ProgramError(f"end={end!r} is not a position in a topic", hint='write end="latest"')
    of = PulsarRows(
        PulsarOptions.of(url, options),
        decoding,
        bool(compacted),
        continues,
        duration_ms(retry_for),
    )
    discovery_ms = None if discover is None or end is not None else duration_ms(discover)
    known = record if decoding.schema == rows else None
    return PulsarSource(of, known, names, start, end == "latest", discovery_ms)


def is_topic(name: Any) -> bool:
    """Return whether a value is the name of a persistent topic."""
    return isinstance(name, str) and name.isprintable() and _TOPIC.fullmatch(name) is not None


@dataclass(frozen=True)
class PulsarSource(DecodedSource):
    """Source that `pulsar.source` creates."""

    of: PulsarRows
    topics: tuple[str, ...]
    start: str | datetime
    bounded: bool
    discovery_ms: int | None
    rejected: ClassVar[pa.Schema] = REJECTED

    def splits(self) -> Sequence[Split]:
        patience = Patience(self.of.retry_for_ms, lambda: None, LOGGER)
        return patience.ask(lambda: self._asked(self._splits))

    def discover(self) -> Sequence[Split]:
        try:
            partitions = self._asked(self._partitions)
        except UnavailableError:
            return ()  # Readers wait for the brokers, and count that.
        return [_split(PulsarSplit(name)) for name in partitions]

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return known splits, which keep their ends, and new partitions, which are read from their
        first message. In a source with an end, new partitions are left out."""
        if self.bounded:
            return [Split(split.id, known[split.id]) for split in splits if split.id in known]
        return [
            Split(split.id, known[split.id]) if split.id in known else _split(PulsarSplit(split.id))
            for split in splits
        ]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        found = msgspec.msgpack.decode(split.payload, type=PulsarSplit)
        at = None if position is None else MessagePosition.decode(position)
        return PartitionReading(self.of, found, at, ctx).start()

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("pulsar", self.of.options.address, self.topics)

    def describe(self) -> str:
        return f"Pulsar topics {', '.join(self.topics)} at {self.of.options.address}"

    def _asked(self, work: Any) -> Any:
        session = PulsarSession(self.of.options, f"the topics {', '.join(self.topics)} cannot be read")
        try:
            return session.call(work)
        finally:
            session.close()

    def _partitions(self, connected: Any) -> list[str]:
        return [name for topic in self.topics for name in connected.get_topic_partitions(topic)]

    def _splits(self, connected: Any) -> list[Split]:
        since_ms = moment_ms(self.start) if isinstance(self.start, datetime) else None
        found = []
        for name in self._partitions(connected):
            asks = self.bounded or self.start == "latest"
            last = str(_last_message(connected, name)) if asks else "0"
            begin = last if self.start == "latest" else "0"
            found.append(PulsarSplit(name, begin, since_ms, last if self.bounded else None))
        return list(map(_split, found))


def _split(found: PulsarSplit) -> Split:
    return Split(found.partition, msgspec.msgpack.encode(found))


def _last_message(connected: Any, partition: str) -> int:
    """Return the number of the last message of a partition; 0 if it is empty. Only consumers can ask
    for it, so this one has a subscription for the moment."""
    consumer = connected.subscribe(
        partition, f"rheos-{uuid.uuid4().hex}", initial_position=client().InitialPosition.Latest
    )
    found = consumer.get_last_message_id()
    consumer.unsubscribe()
    return 0 if found.entry_id() < 0 else int(MessageNumber.of(found))
