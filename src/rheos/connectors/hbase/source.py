"""Source of the rows of an HBase table, in the order of their row keys: `hbase.source(...)`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors.files.chunks import Chunk, ChunkDecoder, ChunkReader
from rheos.connectors.hbase.cells import (
    CellNames,
    HbaseRows,
    checked_key,
    checked_table,
    shown_key,
)
from rheos.connectors.hbase.session import HbaseGateway, HbaseSession, client
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError
from rheos.core.site import located_at_call

_FIRST_ROWS = 128
_MOST_ROWS = 8192
_TARGET_BYTES = 4 << 20


@located_at_call
def source(
    table: str,
    *,
    gateway: str,
    key_columns: str | Sequence[str],
    schema: Any,
    family: str | None = None,
    columns: Mapping[str, str] | None = None,
    first: bytes | None = None,
    end: bytes | None = None,
    options: Mapping[str, Any] | None = None,
) -> HbaseSource:
    """Read the rows of a table once, in the order of their row keys. Each region of the table is a
    split, and its position is the last row key. So a job resumes there after a failure.

    ```python
    pages = env.from_source(
        rh.hbase.source(
            "pages",
            gateway="localhost:9090",
            key_columns="page",
            schema={"page": str, "visits": int},
            family="cf",
        )
    )
    ```

    Rows are read in blocks, each by a scan of its own. A row that does not change while the source
    reads is returned once. Rows that are written or deleted meanwhile may be missed, or old.

    Args:
        table: As in `rh.hbase.sink`.
        gateway: As in `rh.hbase.sink`.
        key_columns: The columns of the row key, in the order of their bytes.
        schema: The columns of the row key and those of cells, a dataclass, a pyarrow.Schema or a dict.
            Their types must be those with which the rows were written. A missing cell is null. A row
            without any of these cells is not read.
        family: As in `rh.hbase.sink`.
        columns: As in `rh.hbase.sink`.
        first: The first row key to read; None for the table's first.
        end: The row key before which the source ends; None for the table's end.
        options: As in `rh.hbase.sink`.

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The client is not installed.
        SchemaError: The schema lacks a column of the row key, or a type has no encoding.
    """
    client()
    server = HbaseGateway.of(gateway, options)
    keys = checked_key(key_columns, "key_columns")
    names = CellNames.of(family, columns)
    for name, bound in (("first", first), ("end", end)):
        if bound is not None and not (isinstance(bound, bytes) and bound):
            raise ProgramError(f"{name}={bound!r} is not a row key", hint='write bytes: b"a"')
    declared = resolve(schema)[0]
    rows = HbaseRows.of(checked_table(table), names, declared, keys)
    return HbaseSource(server, rows, declared, KeyRange(first or b"", end or b""))


class KeyRange(msgspec.Struct, frozen=True, array_like=True):
    """Range of row keys. Empty bytes are no bound."""

    first: bytes = b""
    end: bytes = b""

    def overlap(self, other: KeyRange) -> KeyRange | None:
        """Return the row keys that both ranges have; None if they share no key."""
        ends = [end for end in (self.end, other.end) if end]
        both = KeyRange(max(self.first, other.first), min(ends, default=b""))
        return None if both.end and both.first >= both.end else both


class ScanPosition(msgspec.Struct, frozen=True, array_like=True):
    """Position of a reader."""

    rows: int = 0
    """Number of rows that were returned."""
    after: bytes = b""
    """Row key of the last one; empty before the first."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> ScanPosition:
        """Decode a position of a checkpoint."""
        return msgspec.msgpack.decode(position, type=cls)


@dataclass(frozen=True)
class HbaseSource(Source):
    """Source that `hbase.source` creates."""

    gateway: HbaseGateway
    rows: HbaseRows
    declared: pa.Schema
    keys: KeyRange
    bounded: bool = field(default=True, init=False)

    @property
    def schema(self) -> pa.Schema:
        return self.declared

    def splits(self) -> Sequence[Split]:
        session = self.gateway_session()
        try:
            found = session.do(lambda connection: connection.table(self.rows.table).regions())
        finally:
            session.close()
        regions = [KeyRange(each["start_key"], each["end_key"]) for each in found]
        # The gateway returns no regions of a table that it does not know; the scan then fails.
        parts = [part for each in regions or [KeyRange()] if (part := each.overlap(self.keys))]
        return [Split(_name(part), msgspec.msgpack.encode(part)) for part in parts]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        part = msgspec.msgpack.decode(split.payload, type=KeyRange)
        begin = ScanPosition() if position is None else ScanPosition.decode(position)
        label = f"the table {self.rows.table} ({split.id})"
        return ChunkReader(label, ScannedRows(self, part, begin), begin.encode(), ctx)

    def gateway_session(self) -> HbaseSession:
        """Return a session for reads."""
        return HbaseSession(self.gateway, f"the table {self.rows.table} cannot be read")

    def positions(self) -> str:
        return f"rows of the HBase table {self.rows.table}, from {_name(self.keys)}, by regions"

    def datasets(self) -> Sequence[Dataset]:
        return [self.gateway.dataset(self.rows.table)]

    def describe(self) -> str:
        return f"HBase table {self.rows.table} at {self.gateway.address}"


class ScannedRows(ChunkDecoder):
    """Reader of a range of row keys in blocks, whose size follows the size of the rows."""

    counts = "row"

    def __init__(self, source: HbaseSource, part: KeyRange, position: ScanPosition) -> None:
        self._source = source
        self._part = part
        self._next = position
        self._limit = _FIRST_ROWS
        self._session = source.gateway_session()
        self._is_last = False
        self._lock = threading.Lock()

    def read(self) -> Chunk | None:
        """Return the next block. Raises a RheosError."""
        with self._lock:
            return self._read()

    def _read(self) -> Chunk | None:
        if self._is_last:
            return None
        begin, limit, rows = self._next, self._limit, self._source.rows
        found = self._session.do(self._scan)
        self._is_last = len(found) < limit
        if not found:
            return None
        keys = [key for key, _ in found]
        batch = rows.decode(found, self._source.schema)
        fitting = _TARGET_BYTES * len(found) // max(batch.nbytes, 1)
        self._limit = max(1, min(fitting, 2 * limit, _MOST_ROWS))

        def position(row: int) -> bytes:
            return (ScanPosition(begin.rows + row, keys[row - 1]) if row else begin).encode()

        self._next = ScanPosition(begin.rows + len(found), keys[-1])
        return Chunk(batch, None, len(found), (), position, lambda row: begin.rows + row + 1)

    def _scan(self, connection: Any) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
        after = self._next.after
        return list(
            connection.table(self._source.rows.table).scan(
                # The smallest row key after another one has one more byte, zero.
                row_start=after + b"\0" if after else self._part.first,
                row_stop=self._part.end or None,
                columns=self._source.rows.cells,
                batch_size=self._limit,
                limit=self._limit,
            )
        )

    def close(self) -> None:
        # A scan that still runs ends within its limit.
        with self._lock:
            self._is_last = True
            self._session.close()


def _name(part: KeyRange) -> str:
    if part == KeyRange():
        return "all rows"
    first = shown_key(part.first) if part.first else ""
    return f"{first}..{shown_key(part.end) if part.end else ''}"
