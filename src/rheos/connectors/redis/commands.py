"""Commands of Redis's protocol, built from columns: each row contains the bytes of one or more
commands.

A command is an array of bulk strings: `*2\\r\\n$3\\r\\nDEL\\r\\n$6\\r\\npage:7\\r\\n`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True)
class Commands:
    """Some commands, as they go over the wire."""

    data: memoryview
    replies: Numbers
    """Total number of replies expected up to and including each row."""

    @property
    def count(self) -> int:
        return int(self.replies[-1])

    def row_of(self, reply: int) -> int:
        return int(np.searchsorted(self.replies, reply, side="right"))


def command(*arguments: bytes | str | int) -> bytes:
    """A single one."""
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))


def bulk(value: bytes) -> bytes:
    """As an argument."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def head(name: bytes, arguments: int) -> bytes:
    """Return the beginning of a command with this number of arguments, its name included."""
    return b"*%d\r\n%b" % (arguments, bulk(name))


def of_texts(rows: pa.Array, counts: Numbers) -> Commands:
    """Build commands from rows of bytes without nulls; `counts` is the number of commands in
    each row.
    """
    offsets, data = rows.buffers()[1:]
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    begin, end = int(ends[0]), int(ends[-1])
    text = memoryview(b"") if data is None else memoryview(data)[begin:end]
    return Commands(text, np.cumsum(counts))


def argument(column: pa.Array) -> pa.Array:
    """Bytes as arguments of a command; null stays null."""
    sizes = pc.binary_length(column).cast(pa.string()).cast(pa.binary())
    return concatenated(b"$", sizes, b"\r\n", column, b"\r\n")


def concatenated(*parts: bytes | pa.Array) -> pa.Array:
    """Concatenate the bytes of each row; null if one of them is null."""
    return pc.binary_join_element_wise(*map(_scalar, parts), NOTHING)


def with_those_there(
    name: bytes, fixed: pa.Array, optional: Sequence[pa.Array], *, each: int = 1
) -> tuple[pa.Array, Flags]:
    """Build a command for each row from the `fixed` argument and those of the `optional` arguments that
    are not null. Each optional value contains `each` arguments. If all are null, the row is empty. Also
    returns which rows have a command.
    """
    valid = [pc.is_valid(column).to_numpy(zero_copy_only=False) for column in optional]
    there = np.sum(valid, axis=0, dtype=np.int64)
    sizes = pa.array(2 + each * there).cast(pa.string()).cast(pa.binary())
    filled = [pc.fill_null(column, b"") for column in optional]
    made = concatenated(b"*", sizes, b"\r\n$%d\r\n%b\r\n" % (len(name), name), fixed, *filled)
    flags: Flags = np.greater(there, 0)
    return (made if flags.all() else pc.if_else(pa.array(flags), made, NOTHING)), flags


def _scalar(part: bytes | pa.Array) -> Any:
    return pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part
