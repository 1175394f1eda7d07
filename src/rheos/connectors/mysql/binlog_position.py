"""Position of a source of changes in the binlog and in its snapshot. Pure.

The snapshot is read in blocks, in the order of the primary key. Each block is exact as of one place in
the log. Before a block is emitted, the log is read up to its place, and changes of keys after the last
emitted one are dropped: the block contains them. So one place and one key are the whole position.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Key: TypeAlias = tuple[int | str, ...]
"""Key of a row. Integers compare as numbers, and strings by their bytes in UTF-8."""


class LogPlace(msgspec.Struct, frozen=True, array_like=True):
    """Place between two transactions of the log."""

    file: str = ""
    """File of the log; empty before the first one is known."""
    offset: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Tuple that compares as the places are in the log. The server numbers its files."""
        number = self.file.rpartition(".")[2]
        return int(number) if number.isdecimal() else -1, self.offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class BinlogPosition(msgspec.Struct, frozen=True, array_like=True):
    place: LogPlace = LogPlace()
    """Place up to which all transactions were returned."""
    changes: int = 0
    """Number of changes of the next transaction that were already read."""
    in_snapshot: bool = False
    upto: Key | None = None
    """Last key that the snapshot has emitted. None before the first one, and after the snapshot."""
    gtid: str = ""
    """Domain and number of the last transaction before the place; empty if none was read."""
    server: str = ""
    """Id of the server whose log it is; empty before the first connection."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> BinlogPosition:
        return msgspec.msgpack.decode(position, type=BinlogPosition)

    def covers(self, key: Key) -> bool:
        """Return whether a change of the row with this key is emitted from the log."""
        return not self.in_snapshot or (self.upto is not None and key <= self.upto)
