"""The canonical rows (`state/parts.py`) of a database, read in bounded pieces, and rows loaded into
one.

Because pieces are bounded, memory never contains a whole state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from rheos.core.state.parts import ROWS
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.layout import EntryForm, join, range_start, split

_PIECE_ROWS = 256 * 1024
_PIECE_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 16 * 1024


class _Piece:
    """Rows that are collected for a table."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.keys: list[bytes] = []
        self.namespaces: list[bytes] = []
        self.values: list[bytes] = []
        self.size = 0

    def is_full(self) -> bool:
        return len(self.keys) >= _PIECE_ROWS or self.size >= _PIECE_BYTES

    def add(self, group: int, key: bytes, namespace: bytes, value: bytes) -> None:
        self.groups.append(group)
        self.keys.append(key)
        self.namespaces.append(namespace)
        self.values.append(value)
        self.size += len(key) + len(namespace) + len(value)

    def table(self) -> pa.Table:
        return pa.table(
            [
                pa.array(self.groups, pa.uint16()),
                pa.array(self.keys, pa.binary()),
                pa.array(self.namespaces, pa.binary()),
                pa.array(self.values, pa.binary()),
            ],
            schema=ROWS,
        )


def tables(
    database: Database,
    id: int,
    form: EntryForm,
    groups: range,
    living: Callable[[bytes], bool] | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a state, sorted by (key_group, key, namespace), in at least one table. `living`
    returns whether a value is to be included."""
    piece = _Piece()
    for group in groups:
        for key, namespace, value in _rows(database, id, form, group):
            if living is not None and not living(value):
                continue
            if piece.is_full():
                yield piece.table()
                piece = _Piece()
            piece.add(group, key, namespace, value)
    yield piece.table()


def _rows(
    database: Database, id: int, form: EntryForm, group: int
) -> Iterable[tuple[bytes, bytes, bytes]]:
    start, stop = range_start(id, group), range_start(id, group + 1)
    found = ((*split(form, place[4:]), value) for place, value in database.scan(start, stop))
    # Timers are stored by time: one group at a time is sorted by key.
    return sorted(found) if form is EntryForm.TIMERS else found


def load(
    database: Database,
    id: int,
    form: EntryForm,
    restored: Iterable[pa.Table],
    see: Callable[[bytes], None] | None = None,
) -> None:
    """Load restored tables, in the order in which they apply. `see` is called with each namespace."""
    prefix = range_start(id)[:2]
    for table in restored:
        for rows in table.to_batches(_BATCH_ROWS):
            batch = database.batch()
            columns = (rows.column(name).to_pylist() for name in ROWS.names)
            for group, key, namespace, value in zip(*columns, strict=True):
                place = prefix + group.to_bytes(2, "big") + join(form, key, namespace)
                if value is None:
                    batch.delete(place)
                else:
                    batch.put(place, value)
                if see is not None:
                    see(namespace)
            database.write(batch)
