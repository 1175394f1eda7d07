"""Commands of Redis's protocol, made of columns: a row of each is the text of one or more commands.

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
    """How many are to come up to each row, that of the row included."""

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
    """How a command begins, of so many arguments with its name."""
    return b"*%d\r\n%b" % (arguments, bulk(name))


def of_texts(rows: pa.Array, counts: Numbers) -> Commands:
    """Rows of text, none of them null, each of so many commands."""
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
    """The texts of each row, one behind the other; null where one is."""
    return pc.binary_join_element_wise(*map(_scalar, parts), NOTHING)


def with_those_there(
    name: bytes, fixed: pa.Array, optional: Sequence[pa.Array], *, each: int = 1
) -> tuple[pa.Array, Flags]:
    """For each row a command of the `fixed` argument, and of those of the `optional` texts that are not
    null, which are `each` so many arguments. Where all of them are, the empty text. With it comes where
    there is a command."""
    valid = [pc.is_valid(column).to_numpy(zero_copy_only=False) for column in optional]
    there = np.sum(valid, axis=0, dtype=np.int64)
    sizes = pa.array(2 + each * there).cast(pa.string()).cast(pa.binary())
    filled = [pc.fill_null(column, b"") for column in optional]
    made = concatenated(b"*", sizes, b"\r\n$%d\r\n%b\r\n" % (len(name), name), fixed, *filled)
    flags: Flags = np.greater(there, 0)
    return (made if flags.all() else pc.if_else(pa.array(flags), made, NOTHING)), flags


def _scalar(part: bytes | pa.Array) -> Any:
    return pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part
