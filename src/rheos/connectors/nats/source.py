"""Source of JetStream streams: a split is a stream, and a position a sequence number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec
import pyarrow as pa

from rheos.connectors.decoded_source import DecodedSource
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.nats.client_options import NatsOptions, client
from rheos.connectors.nats.messages import FIELDS, REJECTED
from rheos.connectors.nats.session import LOGGER, NatsConnection, NatsSession
from rheos.connectors.nats.stream_pull import StreamEnds, stream_ends
from rheos.connectors.nats.stream_reading import JetStreamSplit, StreamReading, StreamRows
from rheos.connectors.outage_patience import Patience
from rheos.connectors.removed_messages import OnRemoved, continues_after_removal
from rheos.connectors.user_formats import check_format, declared_rows
from rheos.core.connectors.contract import ReaderContext, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.moments import moment_ms
from rheos.core.site import located_at_call


@located_at_call
def source(
    url: str,
    *,
    stream: str | Sequence[str],
    format: Format,
    schema: Any = None,
    subject: str | None = None,
    metadata: Mapping[str, str] | None = None,
    start: Literal["earliest", "latest"] | datetime | int = "earliest",
    end: Literal["latest"] | int | None = None,
    on_removed: OnRemoved = "fail",
    on_error: OnError = "fail",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> NatsSource:
    """Read messages of JetStream streams exactly once: the sequence number of the last message read is
    in the job's checkpoints.

    ```python
    orders = rh.nats.source(
        "nats://localhost:4222", stream="ORDERS", format=rh.formats.json(), schema=Order
    )
    ```

    Each stream is a split: its watermark and its lateness are its own. The consumers acknowledge
    nothing, and disappear with the job: messages remain until the stream removes them.

    Args:
        url: "nats://host:4222", "tls://..." for TLS; with user:password@ or token@. Commas separate the
            servers of a cluster.
        stream: the name of a stream, or several. They must exist.
        format: format of the payloads, such as rh.formats.json().
        schema: a dataclass, a pyarrow.Schema or a dict; by default that of the format.
        subject: reads only messages of subjects that match, such as "orders.*.paid".
        metadata: fields of a message that become columns, with their names: "sequence", "subject",
            "timestamp" (when the server has stored it).
        start: start of a job without a checkpoint: "earliest", "latest" (after the last message when
            the job is submitted), a sequence number, or a datetime, which means the first message at or
            after it.
        end: the last message to read; such a source is bounded and may be read in batch. "latest" is
            the last one when the job is submitted.
        on_removed: what to do if the stream has removed messages after the job's position: "fail", or
            "continue" with the first message that exists, counted as `removed`.
        on_error: what to do with a message that does not fit the schema: "fail" the job with stream and
            sequence number, or "skip" it, which counts it (`skipped`) and emits it to the side output
            "rejected".
        retry_for: how long to retry (`retries`) if the server is down, before the job fails and is
            restarted by its strategy.
        options: credentials and TLS: user_credentials (a file), nkeys_seed (a file), nkeys_seed_str,
            tls_ca_file, tls_cert_file, tls_key_file, tls_hostname; also inbox_prefix and domain. Their
            values are shown nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that the format cannot decode.
    """
    client()
    check_on_error(on_error)
    continues = continues_after_removal(on_removed)
    names = (stream,) if isinstance(stream, str) else tuple(stream)
    if not names or not all(map(_is_name, names)) or len(set(names)) < len(names):
        raise ProgramError(f"stream={stream!r} does not name streams", hint='write stream="ORDERS"')
    if subject is not None and not (isinstance(subject, str) and subject and subject.isprintable()):
        raise ProgramError(f"subject={subject!r} is not a subject", hint='write subject="orders.>"')
    rows, record = declared_rows(check_format(format), schema)
    decoding = PayloadDecoding.of(format, rows, metadata or {}, on_error, FIELDS)
    if not (start in ("earliest", "latest") or isinstance(start, datetime) or _is_number(start)):
        raise ProgramError(
            f"start={start!r} is not a position in a stream",
            hint='write "earliest", "latest", a datetime, or a sequence number',
        )
    if not (end is None or end == "latest" or _is_number(end)):
        raise ProgramError(
            f"end={end!r} is not a position in a stream", hint='write "latest" or a sequence number'
        )
    of = StreamRows(
        NatsOptions.of(url, options),
        decoding,
        subject,
        continues,
        duration_ms(retry_for),
    )
    return NatsSource(of, record if decoding.schema == rows else None, names, start, end)


def _is_name(name: Any) -> bool:
    is_text = isinstance(name, str) and name.isprintable() and 0 < len(name) <= 255
    return is_text and not {*name} & {*" .*>/\\"}


def _is_number(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 < given < 1 << 63


@dataclass(frozen=True)
class NatsSource(DecodedSource):
    """Source that `nats.source` creates."""

    of: StreamRows
    streams: tuple[str, ...]
    start: str | datetime | int
    end: str | int | None
    bounded: bool = field(init=False)
    rejected: ClassVar[pa.Schema] = REJECTED

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounded", self.end is not None)

    def splits(self) -> Sequence[Split]:
        return [Split(name, msgspec.msgpack.encode(self._split(name))) for name in self.streams]

    def _split(self, name: str) -> JetStreamSplit:
        ends = self._ends(name)
        after, since_ms = 0, None
        match self.start:
            case datetime() as moment:
                since_ms = moment_ms(moment)
            case int() as number:
                after = number - 1
            case "latest":
                after = ends.last
            case _:
                after = 0
        end = ends.last if self.end == "latest" else self.end
        return JetStreamSplit(name, ends.created_us, after, since_ms, None if end is None else int(end))

    def _ends(self, name: str) -> StreamEnds:
        async def asked(connection: NatsConnection) -> StreamEnds:
            return await stream_ends(connection, name)

        session = NatsSession(self.of.options, f"the stream {name!r} cannot be read")
        patience = Patience(self.of.retry_for_ms, lambda: None, LOGGER)
        try:
            return patience.ask(lambda: session.call(asked))
        finally:
            session.close()

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return known splits, which keep their ends; added streams are read from the start."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        found = msgspec.msgpack.decode(split.payload, type=JetStreamSplit)
        at = None if position is None else MessagePosition.decode(position)
        return StreamReading(self.of, found, at, ctx).start()

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("nats", self.of.options.address, self.streams)

    def describe(self) -> str:
        return f"NATS streams {', '.join(self.streams)} at {self.of.options.address}"
