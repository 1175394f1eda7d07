"""Parts of row state: the table that a part is, and when a delta will do.

Row state is entries of (key, namespace, value) as bytes. What a namespace is, is the matter of each
state: the key of a map's entry, the place of a list's segment, the time of a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from rheos.protocol.snapshots import PartMode, SnapshotPart, StateKind
from rheos.state.keys import Key, KeyCodec

ROWS = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""A part of row state: sorted by (key_group, key, namespace); a null value deletes."""

MAX_DELTAS = 64
"""A chain of this many deltas is ended by a full part, however small they are: each is a handle that
the log carries."""


class Entries(NamedTuple):
    """Columns of equal length."""

    keys: Sequence[Key]
    namespaces: Sequence[bytes]
    values: Sequence[bytes | None]


class Chain:
    """Says whether the next part of a state is full or a delta.

    The first part is full, and so is one after a snapshot that was not kept. Else a part is full when
    the deltas since the last full one, with this one, would be as long as it was.
    """

    def __init__(self) -> None:
        self._full_rows = 0
        self._delta_rows = 0
        self._deltas = 0
        self._full_next = True

    def next_is_full(self, changes: int) -> bool:
        return (
            self._full_next
            or self._deltas >= MAX_DELTAS
            or self._delta_rows + changes >= self._full_rows
        )

    def taken(self, mode: PartMode, rows: int) -> None:
        if mode is PartMode.FULL:
            self._full_rows, self._delta_rows, self._deltas = rows, 0, 0
            self._full_next = False
        else:
            self._delta_rows += rows
            self._deltas += 1

    def force_full(self) -> None:
        self._full_next = True


def row_part(
    state: str,
    mode: PartMode,
    codec: KeyCodec,
    max_parallelism: int,
    entries: Callable[[], Entries],
) -> SnapshotPart:
    """A part of what `entries` will give; it is called on the I/O executor."""

    def write() -> pa.Table:
        return row_table(codec, max_parallelism, entries())

    return SnapshotPart(state, StateKind.KEYED, write, mode)


def row_table(codec: KeyCodec, max_parallelism: int, entries: Entries) -> pa.Table:
    """The entries in the order and with the columns of a part."""
    keys, namespaces, values = entries
    table = pa.table(
        [
            pa.array(codec.groups(keys, max_parallelism), pa.uint16()),
            pa.array([codec.encode(key) for key in keys], pa.binary()),
            pa.array(namespaces, pa.binary()),
            pa.array(values, pa.binary()),
        ],
        schema=ROWS,
    )
    return table.sort_by([(name, "ascending") for name in ("key_group", "key", "namespace")])


def merged(tables: Iterable[pa.Table]) -> list[tuple[bytes, bytes, bytes]]:
    """What is left of a state's parts: (key, namespace, value), in the order of the bytes."""
    found: dict[tuple[bytes, bytes], bytes] = {}
    for table in tables:
        keys, namespaces, values = (
            table.column(name).to_pylist() for name in ("key", "namespace", "value")
        )
        for key, namespace, value in zip(keys, namespaces, values, strict=True):
            if value is None:
                found.pop((key, namespace), None)
            else:
                found[key, namespace] = value
    return sorted((key, namespace, value) for (key, namespace), value in found.items())
