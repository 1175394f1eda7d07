"""Where a source of changes is, and which changes its snapshot has already. Pure.

The snapshot is read in the order of the primary key, within one transaction of the server; after a
failure another transaction reads on behind the last key, and sees the table as it is then. So the
snapshot has *parts*: ranges of keys, each with what PostgreSQL calls its snapshot, which says of each
transaction whether that part has seen it. A change is given if the part of its key has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from rheos.core.errors import InputError, InternalError

Key: TypeAlias = tuple[int | str, ...]
"""In PostgreSQL's order of whole numbers, and of text by its bytes."""

_XIDS = 1 << 32


class SnapshotRange(msgspec.Struct, frozen=True, array_like=True):
    snapshot: str
    """As `pg_current_snapshot()` writes it: xmin:xmax:xip,..."""
    lsn: int
    """What commits at it or later, the part has not seen."""
    upto: Key | None = None
    """The last key of the part. None while it has none, and once it is read to its end."""

    def has_seen(self, xid: int) -> bool:
        """Of a transaction, by the lower half of its id."""
        xmin, xmax, running = _parsed(self.snapshot)
        # Of the full ids that end so, the one that is nearest.
        full = xmax + (xid - xmax + _XIDS // 2) % _XIDS - _XIDS // 2
        return full < xmin or (full < xmax and full not in running)


class ChangesPosition(msgspec.Struct, frozen=True, array_like=True):
    parts: tuple[SnapshotRange, ...] = ()
    in_snapshot: bool = True
    lsn: int = 0
    """All transactions that end before it were given; the slot's own, before there was one."""
    changes: int = 0
    """That were looked at in the next one."""
    timeline: int = 0
    """Of the server's log, which has a new one after each failover; 0 where it was not noted."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> ChangesPosition:
        return msgspec.msgpack.decode(position, type=ChangesPosition)


def has_seen(parts: Sequence[SnapshotRange], key: Key, xid: int) -> bool:
    """Whether the snapshot has what the transaction did to the row of the key."""
    for part in parts[:-1]:
        if part.upto is None:
            raise InternalError("a part of a snapshot before the last one has no end")
        if key <= part.upto:
            return part.has_seen(xid)
    return bool(parts) and parts[-1].has_seen(xid)


def has_seen_truncation(parts: Sequence[SnapshotRange], xid: int) -> bool:
    """Whether the snapshot has what the transaction did to all rows. Raises InputError where some parts
    have and others have not: rows of both are given already, and only the former are to go."""
    seen = {part.has_seen(xid) for part in parts}
    if len(seen) > 1:
        raise InputError(
            "the table was truncated while its snapshot was read, between two parts of it",
            hint="start the job anew, without its checkpoints: it begins with a snapshot",
        )
    return True in seen


def lsn_of(text: str) -> int:
    """A position in the log, as PostgreSQL writes it: "0/1505FA8"."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def left_at(history: str, timeline: int) -> int | None:
    """Where the server's log left a timeline, by the history of the one that it is in; None where it
    never was in it."""
    for line in history.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] == str(timeline):
            return lsn_of(fields[1])
    return None


@lru_cache(maxsize=64)
def _parsed(snapshot: str) -> tuple[int, int, frozenset[int]]:
    xmin, xmax, running = snapshot.split(":")
    return int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset()
