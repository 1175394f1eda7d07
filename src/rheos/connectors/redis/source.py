"""Source of Redis Streams: a split is a stream, and a position the id of an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import pyarrow as pa

from rheos.connectors.redis.client_options import RedisOptions, client
from rheos.connectors.redis.connection import RedisPatience
from rheos.connectors.redis.entries import REJECTED, EntryDecoding, EntryId, StreamEntries
from rheos.connectors.redis.stream import StreamReader, StreamSplit
from rheos.connectors.redis.text import check_fields
from rheos.connectors.user_formats import check_format, rows_of
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError, ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.moments import moment_ms
from rheos.core.site import located_at_call

OnTrimmed = Literal["fail", "continue"]
Moment: TypeAlias = str | datetime | int


@located_at_call
def source(
    url: str,
    *,
    stream: str | Sequence[str],
    schema: Any = None,
    format: Format | None = None,
    payload: str = "payload",
    id: str | None = None,
    start: Literal["earliest", "latest"] | Moment = "earliest",
    end: Literal["latest"] | Moment | None = None,
    on_trimmed: OnTrimmed = "fail",
    on_error: OnError = "fail",
    poll_every: str = "20ms",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> RedisSource:
    """Read entries of Redis Streams exactly once: the id of the last entry read is in the job's
    checkpoints.

    ```python
    visits = rh.redis.source("redis://localhost:6379", stream="visits", schema=Visit)
    ```

    Each stream is a split: its watermark and its lateness are its own. There is no consumer group, and
    nothing is acknowledged: entries remain until the stream is trimmed.

    Args:
        url: as in `rh.redis.sink`.
        stream: the key of a stream, or several. They must exist.
        schema: a dataclass, a pyarrow.Schema or a dict: the fields of an entry, as strings; other
            fields are ignored.
        format: with one, the rows are in the single field `payload`.
        payload: the name of that field.
        id: the name of a string column for the entry's id, which is not one of the fields.
        start: start of a job without a checkpoint: "earliest", "latest" (after the last entry when the
            job is submitted), an id ("1700000000000-0"), or a point in time (a datetime, or ms since
            the epoch), which means the first entry at or after it.
        end: end of the input, exclusive; such a source is bounded and may be read in batch. "latest" is
            the end when the job is submitted.
        on_trimmed: what to do if the job's position in a stream was trimmed or deleted, so that later
            entries may be lost: "fail", or "continue" with the first available entry, counted as
            `trimmed`.
        on_error: what to do with an entry that does not fit the schema: "fail" the job with stream and
            id, or "skip" it, which counts it (`skipped`) and emits it to the side output "rejected".
        poll_every: interval at which a fully read stream is polled for more entries.
        retry_for: how long to retry (`retries`) if Redis is down, before the job fails and is restarted
            by its strategy.
        options: further options of the client (redis-py's Connection). Their values are shown nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as an unknown `on_error`.
        SchemaError: The schema has a column that a field of an entry cannot be decoded to.
    """
    client()
    check_on_error(on_error)
    if on_trimmed not in get_args(OnTrimmed):
        raise ProgramError(f"on_trimmed={on_trimmed!r} is not known", hint='write "fail" or "continue"')
    names = (stream,) if isinstance(stream, str) else tuple(stream)
    if not names or not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names):
        raise ProgramError(f"stream={stream!r} does not name streams", hint='write stream="visits"')
    if format is None:
        rows, record = resolve(schema)
        check_fields(rows)
    else:
        rows, record = rows_of(check_format(format), schema) if schema is None else resolve(schema)
    decoding = EntryDecoding.of(rows, format, payload, id, on_error)
    return RedisSource(
        RedisOptions.of(url, options),
        names,
        decoding,
        record,
        _moment("start", start, ("earliest", "latest")),
        None if end is None else _moment("end", end, ("latest",)),
        on_trimmed == "continue",
        duration_ms(poll_every) * 1000,
        duration_ms(retry_for),
    )


def _moment(what: str, given: Any, words: Sequence[str]) -> str:
    """Check `start` or `end`: return one of the `words`, or an id."""
    if isinstance(given, str) and given in words:
        return given
    if isinstance(given, datetime):
        given = moment_ms(given)
    try:
        return str(EntryId.of(str(given)))
    except ValueError:
        spelled = " or ".join(f'"{word}"' for word in words)
        raise ProgramError(
            f"{what}={given!r} is not a position in a stream",
            hint=f'write {spelled}, a datetime, ms since the epoch, or an id: "1700000000000-0"',
        ) from None


@dataclass(frozen=True)
class RedisSource(Source):
    """Source that `redis.source` creates."""

    options: RedisOptions
    streams: tuple[str, ...]
    decoding: EntryDecoding
    record: type | None
    start: str
    end: str | None
    continues: bool
    """Whether to continue after a stream was trimmed."""
    poll_every_us: int
    retry_for_ms: int
    schema: pa.Schema = field(init=False)
    bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.decoding.schema)
        object.__setattr__(self, "bounded", self.end is not None)

    def record_class(self) -> type | None:
        return self.record

    def rejected_schema(self) -> pa.Schema | None:
        return REJECTED if self.decoding.on_error == "skip" else None

    def splits(self) -> Sequence[Split]:
        entries = StreamEntries(self.options)
        try:
            return [self._split(entries, name) for name in self.streams]
        finally:
            entries.close()

    def _split(self, entries: StreamEntries, name: str) -> Split:
        patience = RedisPatience(self.retry_for_ms, self.options, lambda: None)
        doing = f"the stream {name!r} cannot be read"
        ids = patience.ask(lambda: entries.ids(name), doing)
        if ids is None:
            raise InputError(
                f"the stream {name!r} does not exist at {self.options.address}",
                hint=f"correct its name, or create it: XGROUP CREATE {name} any $ MKSTREAM",
            )
        last, behind = ids[0], ids[0].next()
        latest = str(behind)
        begin = {"earliest": None, "latest": latest}.get(self.start, self.start)
        end = latest if self.end == "latest" else self.end
        after = None
        if begin is not None and (first := EntryId.of(begin)) <= behind:
            after = patience.ask(lambda: entries.before(name, first), doing)
        made = StreamSplit(name, begin, end, None if after is None else str(after), str(last))
        return Split(name, msgspec.msgpack.encode(made))

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return known splits, which keep their ends; added streams are read from the start."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        found = msgspec.msgpack.decode(split.payload, type=StreamSplit)
        return StreamReader(
            found,
            position,
            ctx,
            options=self.options,
            decoding=self.decoding,
            continues=self.continues,
            poll_every_us=self.poll_every_us,
            retry_for_ms=self.retry_for_ms,
        )

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("redis", self.options.address, self.streams)

    def describe(self) -> str:
        return f"Redis streams {', '.join(self.streams)} at {self.options.address}"
