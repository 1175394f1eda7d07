"""Messages of pgoutput, as PostgreSQL writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

INTEGER, TEXT = 23, 25


def begin(commit_lsn: int, xid: int, commit_us: int = 0) -> bytes:
    return b"B" + struct.pack(">QqI", commit_lsn, commit_us - 946_684_800_000_000, xid)


def commit(commit_lsn: int, end_lsn: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, commit_lsn, end_lsn, 0)


def relation(*columns: tuple[str, int], id: int = 7, table: str = "t", schema: str = "public") -> bytes:
    described = b"".join(
        struct.pack(">B", place == 0) + name.encode() + b"\0" + struct.pack(">Ii", type_id, -1)
        for place, (name, type_id) in enumerate(columns)
    )
    named = schema.encode() + b"\0" + table.encode() + b"\0d"
    return b"R" + struct.pack(">I", id) + named + struct.pack(">H", len(columns)) + described


def values(row: Sequence[object]) -> bytes:
    """Encode values. `...` is a large value that was not changed."""
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if value is None:
            parts.append(b"n")
        elif value is ...:
            parts.append(b"u")
        else:
            text = str(value).encode()
            parts.append(b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(parts)


def insert(*row: object, id: int = 7) -> bytes:
    return b"I" + struct.pack(">I", id) + b"N" + values(row)


def update(*row: object, key: Sequence[object] = (), full: Sequence[object] = (), id: int = 7) -> bytes:
    old = b"K" + values(key) if key else b"O" + values(full) if full else b""
    return b"U" + struct.pack(">I", id) + old + b"N" + values(row)


def delete(*row: object, full: bool = False, id: int = 7) -> bytes:
    return b"D" + struct.pack(">I", id) + (b"O" if full else b"K") + values(row)


def truncate(*ids: int) -> bytes:
    return b"T" + struct.pack(">IB", len(ids), 0) + b"".join(struct.pack(">I", id) for id in ids)
