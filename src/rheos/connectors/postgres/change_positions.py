"""Position of a source of changes, and the changes that its snapshot contains. Pure.

The snapshot is read in the order of the primary key, within one transaction of the server. After a
failure, another transaction continues after the last key, and sees the table as of that later time. So
the snapshot has *parts*: ranges of keys, each with its own PostgreSQL snapshot. That snapshot
determines which transactions the part contains. A change is emitted if the part of its key does not
contain its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from rheos.core.errors import InputError, InternalError

Key: TypeAlias = tuple[int | str, ...]
"""Key of a row. Integers compare as in PostgreSQL, and strings by their bytes."""

_XIDS = 1 << 32


class SnapshotRange(msgspec.Struct, frozen=True, array_like=True):
    snapshot: str
    """The snapshot as `pg_current_snapshot()` writes it: xmin:xmax:xip,..."""
    lsn: int
    """Position in the log. The part has not seen transactions that commit at this position or later."""
    upto: Key | None = None
    """Last key of the part. None if the part has no key yet, and when it is read to its end."""

    def has_seen(self, xid: int) -> bool:
        """Return whether the part has seen a transaction, identified by the lower half of its id."""
        xmin, xmax, running = _parsed(self.snapshot)
        # Choose the full id with this lower half that is nearest to xmax.
        full = xmax + (xid - xmax + _XIDS // 2) % _XIDS - _XIDS // 2
        return full < xmin or (full < xmax and full not in running)


class ChangesPosition(msgspec.Struct, frozen=True, array_like=True):
    parts: tuple[SnapshotRange, ...] = ()
    in_snapshot: bool = True
    lsn: int = 0
    """Position up to which all transactions were returned: those that end before it. Before the first
    transaction, it is the slot's position."""
    changes: int = 0
    """Number of changes of the next transaction that were already read."""
    timeline: int = 0
    """Timeline of the server's log, which changes at each failover; 0 if it was not recorded."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> ChangesPosition:
        return msgspec.msgpack.decode(position, type=ChangesPosition)


def has_seen(parts: Sequence[SnapshotRange], key: Key, xid: int) -> bool:
    """Return whether the snapshot contains the transaction's effect on the row with this key."""
    for part in parts[:-1]:
        if part.upto is None:
            raise InternalError("a part of a snapshot that is not the last has no end")
        if key <= part.upto:
            return part.has_seen(xid)
    return bool(parts) and parts[-1].has_seen(xid)


def has_seen_truncation(parts: Sequence[SnapshotRange], xid: int) -> bool:
    """Return whether the snapshot contains the effect of a truncation. Raise InputError if only some
    parts contain it: rows of all parts were emitted, but only those of the other parts would have to be
    removed."""
    seen = {part.has_seen(xid) for part in parts}
    if len(seen) > 1:
        raise InputError(
            "the table was truncated while its snapshot was read, between two parts of it",
            hint="start the job anew, without its checkpoints: it then begins with a new snapshot",
        )
    return True in seen


def lsn_of(text: str) -> int:
    """Parse a position in the log, as PostgreSQL writes it: "0/1505FA8"."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def left_at(history: str, timeline: int) -> int | None:
    """Return the position at which the server's log left a timeline, according to the history of its
    current one; None if the log was never in that timeline."""
    for line in history.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] == str(timeline):
            return lsn_of(fields[1])
    return None


@lru_cache(maxsize=64)
def _parsed(snapshot: str) -> tuple[int, int, frozenset[int]]:
    xmin, xmax, running = snapshot.split(":")
    return int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset()
