"""Entries of a Redis Stream: their ids, requests for them, and their conversion to rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.redis.client_options import RedisOptions, client
from rheos.connectors.redis.connection import RedisConnection
from rheos.connectors.redis.text import command, from_bytes
from rheos.core.connectors.rejected_records import BadRecord, OnError, bad_record, rejected_schema
from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Decoder, Format
from rheos.core.protocol.elements import Batch

REJECTED = rejected_schema(
    pa.field("stream", pa.string(), nullable=False), pa.field("id", pa.string(), nullable=False)
)

_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")
_LAST = (1 << 64) - 1


class EntryId(NamedTuple):
    ms: int
    number: int

    @classmethod
    def of(cls, text: str) -> EntryId:
        """Parse an id. Raises ValueError if it is not valid."""
        found = _ID.fullmatch(text)
        if found is not None:
            ms, number = int(found[1]), int(found[2] or 0)
            if ms <= _LAST and number <= _LAST:
                return cls(ms, number)
        raise ValueError(f"{text!r} is not an entry id")

    def next(self) -> EntryId:
        return EntryId(self.ms, self.number + 1) if self.number < _LAST else EntryId(self.ms + 1, 0)

    def __str__(self) -> str:
        return f"{self.ms}-{self.number}"


SentEntry: TypeAlias = "Sequence[Any]"
"""An entry as the client returns it: its id, and names and values of its fields in turns. An object of
ours for each entry would cost a third of the time to read it."""


def entry_id(entry: SentEntry) -> EntryId:
    """Return the id of an entry. Raises ValueError if the server has sent something else."""
    return EntryId.of(entry[0].decode())


def entry_fields(entry: SentEntry) -> dict[bytes, bytes]:
    """Return the fields of an entry; of several with one name the last."""
    parts = entry[1]
    return dict(zip(parts[::2], parts[1::2], strict=True))


class EntryIds:
    """Ids of entries. Only those that are used are parsed."""

    def __init__(self, entries: Sequence[SentEntry] = ()) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: int) -> EntryId:
        return entry_id(self._entries[at])


class FoundEntries(NamedTuple):
    """Replies about a stream, requested in this order."""

    last: EntryId | None
    """Highest id that the stream has generated; None if the stream does not exist."""
    next: EntryId
    """Lowest id that the stream may still generate, by the server's clock."""
    entries: Sequence[SentEntry]


class StreamEntries:
    """Requests for entries, over a separate connection. They raise the client's errors."""

    def __init__(self, options: RedisOptions) -> None:
        self._connection = RedisConnection(options)

    def ids(self, stream: str) -> tuple[EntryId, EntryId] | None:
        """Return the highest id so far and the lowest that may follow; None without a stream."""
        try:
            (seconds, _), info = self._connection.ask(
                command("TIME"), command("XINFO", "STREAM", stream)
            )
        except client().ResponseError as error:
            if "no such key" in str(error):
                return None
            raise
        named = dict(zip(info[::2], info[1::2], strict=True))
        last = EntryId.of(named[b"last-generated-id"].decode())
        return last, max(last.next(), EntryId(int(seconds) * 1000, 0))

    def before(self, stream: str, id: EntryId) -> EntryId | None:
        """Return the id of the last entry before `id`, if there is one."""
        if id == EntryId(0, 0):
            return None  # Redis rejects a range that ends before it.
        [found] = self._connection.ask(command("XREVRANGE", stream, f"({id}", "-", "COUNT", 1))
        return EntryId.of(found[0][0].decode()) if found else None

    def read(self, stream: str, begin: EntryId | None, end: EntryId | None, count: int) -> FoundEntries:
        """Return up to `count` entries from `begin` on, before `end`."""
        ids = self.ids(stream)
        if ids is None:
            return FoundEntries(None, EntryId(0, 0), ())
        first, behind = "-" if begin is None else begin, "+" if end is None else f"({end}"
        asked = command("XRANGE", stream, str(first), behind, "COUNT", count)
        [answer] = self._connection.ask(asked)
        return FoundEntries(*ids, answer)

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class EntryChunk:
    """Consecutive decoded entries."""

    ids: EntryIds
    rows: Batch
    origin: npt.NDArray[np.int64]
    """Index in `ids` of the entry that contains each row."""
    bad: Sequence[tuple[int, BadRecord]]
    """Rejected entries, by their index in `ids`."""


@dataclass(frozen=True)
class EntryDecoding:
    """Configuration for decoding entries into rows."""

    schema: pa.Schema
    """Schema of the rows that are returned."""
    fields: pa.Schema
    """Columns that are decoded from an entry."""
    format: Format | None
    payload: str
    """Field that contains the payload, if there is a format."""
    id: str | None
    on_error: OnError

    @classmethod
    def of(
        cls, rows: pa.Schema, format: Format | None, payload: str, id: str | None, on_error: OnError
    ) -> EntryDecoding:
        """Create the configuration. Raises SchemaError if entries cannot be decoded to such rows."""
        fields = pa.schema([field for field in rows if field.name != id])
        if id is not None and id not in rows.names:
            rows = rows.append(pa.field(id, pa.string(), nullable=False))
        if id is not None and not pa.types.is_string(rows.field(id).type):
            raise SchemaError(
                f"id= names the column {id!r}, which is not a string", hint="cast it to a string"
            )
        if not fields.names:
            raise SchemaError("no column receives a field of the entries", hint="add one to the schema")
        if format is not None:
            format.check_decodes(fields)
        return cls(rows, fields, format, payload, id, on_error)

    def decoder(self) -> Decoder | None:
        return None if self.format is None else self.format.decoder(self.fields)

    def chunk(self, stream: str, entries: Sequence[SentEntry], decoder: Decoder | None) -> EntryChunk:
        """Decode entries. Raises InputError for one that does not fit, unless it is skipped."""
        ids = EntryIds(entries)
        if decoder is None:
            found = list(map(entry_fields, entries))
            columns = {
                name: pa.array([each.get(name.encode()) for each in found], pa.binary())
                for name in self.fields.names
            }
            rows, origin, wrong = from_bytes(columns, len(entries), self.fields)
            bad = [(at, BadRecord(str(found[at]), None, what)) for at, what in wrong]
        else:
            name = self.payload.encode()
            # Most entries have the payload alone.
            payloads = pa.array(
                [
                    parts[1]
                    if len(parts) == 2 and parts[0] == name
                    else entry_fields((id, parts)).get(name)
                    for id, parts in entries
                ],
                pa.binary(),
            )
            decoded = decoder.decode(payloads)
            rows, origin = decoded.rows, decoded.origin
            bad = [(each.at, BadRecord.of(each)) for each in decoded.bad]
        if bad and self.on_error == "fail":
            raise bad_record(f"{stream}@{ids[bad[0][0]]}", bad[0][1])
        places = np.arange(len(entries)) if origin is None else origin
        if self.id is not None:
            of_rows = pa.array([str(ids[at]) for at in places.tolist()], pa.string())
            arrays = [of_rows if name == self.id else rows.column(name) for name in self.schema.names]
            rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return EntryChunk(ids, rows, places, bad)
