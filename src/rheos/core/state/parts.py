"""Parts of row state: their tables, and the choice between a full part and a delta.

Row state consists of entries (key, namespace, value) as bytes. Each state defines its namespace: the
key of a map's entry, the place of a list's segment, the time of a timer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.snapshots import (
    PartMode,
    RestoredState,
    SnapshotPart,
    StateKind,
    WrittenChain,
)
from rheos.core.state.binary_columns import BinaryColumn, binary_column, chunks_of
from rheos.core.state.key_groups import key_groups
from rheos.core.state.keys import Key, KeyCodec

ROWS = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""A part of row state: sorted by (key_group, key, namespace); a null value deletes."""

PLACE = struct.Struct(">q")
"""Encoding of the namespace of a list's segment: its place among the list's segments."""

GROUP = "key_group"
"""Column of the key groups of stored rows."""

PIECE_BYTES = 16 << 20
"""Approximate size of each table of a part. The memory of larger ones is requested from the system, and
returned to it, each time."""
_SAMPLE_ROWS = 1 << 10
"""Number of rows that determine how many rows a table has."""


DELETED: Any = object()
"""Placeholder for the value of a row that deletes."""

N = TypeVar("N")

StoredValues: TypeAlias = Callable[[Sequence[int]], BinaryColumn]
"""Function that returns the values of some entries as a binary column. Their positions are passed."""


class Entries(NamedTuple):
    """Entries of row state. Values may be encoded as late as their table is written."""

    keys: Sequence[Key]
    namespaces: Sequence[bytes]
    values: StoredValues


def stored_values(values: Sequence[bytes | None]) -> StoredValues:
    """Return the function for values that are already encoded."""
    return lambda positions: pa.array([values[at] for at in positions], pa.binary())


class Selection(Sequence[Any]):
    """Items of a sequence at some positions, which are read when they are needed."""

    def __init__(self, items: Sequence[Any], positions: Sequence[int]) -> None:
        self._items = items
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Selection(self._items, self._positions[at])
        return self._items[self._positions[at]]


class DeltaChain:
    """Decides whether the next part of a state is full or a delta.

    The first part is full, unless the chain of a restored state is resumed. The part after a snapshot
    that was not stored is full, too. Otherwise a part is full if the deltas since the last full one,
    including this one, would be as long as it was. A delta without rows is not written, so it does not
    count.
    """

    def __init__(self) -> None:
        self._written = WrittenChain(0, 0, 0)
        self._full_next = True

    def next_is_full(self, changes: int, rows: int | None = None) -> bool:
        """Return whether the next part must be full. `changes` is the length of a delta. `rows` is the
        length of a full part; it is passed if deltas do not record removed entries."""
        if self._full_next:
            return True
        if not changes:
            # Without this, a part whose entries have mostly expired would be kept while nothing
            # changes.
            written_rows = self._written.full_rows + self._written.delta_rows
            return rows is not None and 2 * rows < written_rows
        return self._written.next_is_full(changes)

    def next_mode(self, changes: int, rows: int | None = None) -> PartMode:
        """Return the mode of the next part; see `next_is_full`."""
        return PartMode.FULL if self.next_is_full(changes, rows) else PartMode.DELTA

    def taken(self, mode: PartMode, rows: int) -> None:
        if mode is PartMode.FULL:
            self._written = WrittenChain(rows, 0, 0)
            self._full_next = False
        elif rows:
            before = self._written
            self._written = WrittenChain(before.full_rows, before.delta_rows + rows, before.deltas + 1)

    def force_full(self) -> None:
        self._full_next = True

    def resume(self, written: WrittenChain) -> None:
        """Continue a chain that was written before the restore, and contains exactly this state."""
        self._written, self._full_next = written, False

    def resume_restored(self, tables: Iterable[pa.Table]) -> bool:
        """Continue the chain of restored tables if that is possible (CP11). Return whether it is."""
        if not isinstance(tables, RestoredState) or tables.chain is None or not tables.as_declared:
            return False
        self.resume(tables.chain)
        return True


def keyed_part(
    state: str, mode: PartMode, rows: int, write: Callable[[], pa.Table | Iterator[pa.Table]]
) -> SnapshotPart:
    """Return a part of state by key. A delta without rows is not written."""
    return SnapshotPart(state, StateKind.KEYED, write, mode, mode is PartMode.DELTA and not rows)


def by_group(
    rows: Batch, keys: Sequence[str], max_parallelism: int, within: npt.NDArray[Any] | None = None
) -> pa.Table:
    """Return rows in the order of their key groups, which become the first column. `within` is the
    order of the rows of one group; by default they keep their order."""
    groups: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
    if rows.num_rows:
        groups = key_groups(rows, keys, max_parallelism)
    # Numbers of 16 bits are sorted by counting.
    sorted_ = np.argsort(groups, kind="stable") if within is None else np.lexsort((within, groups))
    order = pa.array(sorted_)
    table = pa.Table.from_batches([rows.take(order)])
    return table.add_column(0, GROUP, pa.array(groups).take(order))


def row_part(
    state: str,
    mode: PartMode,
    codec: KeyCodec,
    max_parallelism: int,
    rows: int,
    entries: Callable[[], Entries],
) -> SnapshotPart:
    """Return a part of the `rows` entries that `entries` returns. It is called on the I/O executor."""

    def write() -> pa.Table | Iterator[pa.Table]:
        return row_tables(codec, max_parallelism, entries())

    return keyed_part(state, mode, rows, write)


def row_tables(
    codec: KeyCodec, max_parallelism: int, entries: Entries
) -> pa.Table | Iterator[pa.Table]:
    """Return the entries in the order and with the columns of a part, in tables of `PIECE_BYTES`."""
    groups = codec.groups(entries.keys, max_parallelism)
    keys, encode = entries.keys, codec.encode
    encoded = binary_column(len(keys), lambda some: [encode(key) for key in keys[some]])
    places = pa.table([groups, encoded, entries.namespaces], schema=pa.schema([*ROWS][:3]))
    order = pc.sort_indices(places, [(name, "ascending") for name in places.column_names])
    positions = order.to_pylist()
    # Keys are in the order of their hashes, so the first ones are a fair sample.
    first = entries.values(positions[:_SAMPLE_ROWS])
    row_bytes = (first.nbytes + places.nbytes * len(first) / max(len(keys), 1)) / max(len(first), 1)
    rows = max(_SAMPLE_ROWS, int(PIECE_BYTES // max(row_bytes, 1)))

    def table(begin: int) -> pa.Table:
        known = len(first) if begin == 0 else 0
        values = entries.values(positions[begin + known : begin + rows])
        if known:
            values = pa.chunked_array([*chunks_of(first), *chunks_of(values)])
        return places.take(order.slice(begin, rows)).append_column(ROWS.field("value"), values)

    if len(positions) <= rows:
        return table(0)
    # One table at a time is in memory, which the next one uses again.
    return (table(begin) for begin in range(0, len(positions), rows))


def restore_values(
    found: dict[Key, Any],
    tables: Iterable[pa.Table],
    keys: KeyCodec,
    decode_all: Callable[[Sequence[bytes]], list[Any]],
) -> None:
    """Add the values of a state without namespaces to `found`, decoded, and remove deleted ones. The
    tables are in the order of their chain."""
    for table in tables:
        there = table.column("key")
        stored = table.column("value")
        if stored.null_count:
            is_null = stored.is_null()
            for key in keys.decode_all(there.filter(is_null).to_pylist()):
                found.pop(key, None)
            kept = pc.invert(is_null)
            there, stored = there.filter(kept), stored.filter(kept)
        values = decode_all(stored.to_pylist())
        found.update(zip(keys.decode_all(there.to_pylist()), values, strict=True))


def restored_rows(
    tables: Iterable[pa.Table],
    keys: KeyCodec,
    namespaces: Callable[[Sequence[bytes]], Sequence[N]],
    values: Callable[[Sequence[bytes]], Sequence[Any]],
) -> Iterator[tuple[Key, N, Any]]:
    """Yield the rows of a state's parts, decoded: (key, namespace, value).

    Args:
        tables: the parts, in the order of their chain. A row replaces an earlier one of the same key
            and namespace.
        keys: decodes the keys.
        namespaces: decodes namespaces.
        values: decodes values.

    Returns:
        The rows, in the order of the tables. The value of a row that deletes is DELETED.

    Raises:
        UnrestorableError: a row does not have the declared types.
    """
    for table in tables:
        stored = table.column("value")
        data = stored.to_pylist()
        decoded: Iterable[Any]
        if stored.null_count:
            there = iter(values([each for each in data if each is not None]))
            decoded = [DELETED if each is None else next(there) for each in data]
        else:
            decoded = values(data)
        yield from zip(
            keys.decode_all(table.column("key").to_pylist()),
            namespaces(table.column("namespace").to_pylist()),
            decoded,
            strict=True,
        )
