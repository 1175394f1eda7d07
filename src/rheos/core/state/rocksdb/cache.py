"""The part of a state that is in memory, and when it is written to the database and evicted.

The cache has two generations. An entry that is used enters the young one, from the old one or from the
database. When the young one has reached its share of the memory, all changes are written, and it
becomes the old one, whose entries are dropped. Entries that were not used for a whole generation are
then only on disk. This happens only between calls of user code (`settle`), never during one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from rheos.core.state.codec import ValueCodec
from rheos.core.state.expiry import PIECE, Expiry
from rheos.core.state.keys import Key
from rheos.core.state.rocksdb.database import Batch, Database
from rheos.core.state.rocksdb.layout import EntryForm, Places, range_start
from rheos.core.state.stamps import stamp_of
from rheos.core.state.stores import ABSENT

E = TypeVar("E")

ENTRY_BYTES = 200
"""Approximate memory in bytes of an entry without its contents: the key, and places in dicts and
sets."""
_ITEM_BYTES = 60
"""Approximate memory in bytes of an item in addition to its contents."""
_PAIR_BYTES = 100
"""Approximate memory in bytes of a stamp in addition to its value."""
_FLAT = (int, float, bool, str, bytes)
_EXPANSION = 6
"""Approximate ratio of the memory of nested Python values to their encoded size."""
_REMEMBERED = 8192


class SegmentPlaces:
    """Assigns places to segments of lists, each after all previous ones."""

    def __init__(self, next_place: int = 0) -> None:
        self.next = next_place

    def take(self) -> int:
        self.next += 1
        return self.next - 1


class CachedTable(ABC, Generic[E]):
    """One declared state. `E` is the type of a key's entry in memory. With an expiry, each value,
    element or item is a pair of its stamp and its value."""

    form: EntryForm
    stamp_of = staticmethod(stamp_of)
    """Function that returns the latest stamp in a stored value, if it expires."""

    def __init__(self, name: str, codec: ValueCodec, places: Places, expiry: Expiry | None) -> None:
        """Create the table. `codec` is that of the items."""
        self.name = name
        self.expiry = expiry
        self._expansion = 1 if codec.cls in _FLAT else _EXPANSION
        self._overhead = _ITEM_BYTES + (0 if expiry is None else _PAIR_BYTES)
        self.young: dict[Key, E] = {}
        self.old: dict[Key, E] = {}
        """The old generation. All of it is written."""
        self.dirty: set[Key] = set()
        """Keys of the young generation that have changed since they were written."""
        self.added = 0
        """Number of items that were added to the young generation."""
        self._places = places
        self._bytes = 32
        self._items = 1

    def attach(self, database: Database, id: int) -> None:
        """Use the opened database, in which the state has this id."""
        self.database = database
        self.prefix = range_start(id)[:2]

    def stored_at(self, key: Key) -> bytes:
        """Return the prefix of the key's entries in the database."""
        return self.prefix + self._places.of(key)

    def note_size(self, encoded_bytes: int, items: int = 1) -> None:
        """Note the encoded size of items that were read or written, to estimate the size of others."""
        if self._items > _REMEMBERED:
            self._bytes //= 2
            self._items //= 2
        self._bytes += encoded_bytes
        self._items += items

    @property
    def item_bytes(self) -> int:
        """Return the approximate memory of an item, in bytes."""
        return self._overhead + self._expansion * self._bytes // self._items

    def weight(self) -> int:
        """Return the approximate memory of the young generation, in bytes."""
        return len(self.young) * ENTRY_BYTES + self.added * self.item_bytes

    @abstractmethod
    def flush(self) -> None:
        """Write all changes to the database, and mark the state as unchanged."""

    def _write(
        self, places: Sequence[bytes], codec: ValueCodec, values: Sequence[Any], keys: Sequence[Key]
    ) -> None:
        """Write values to places in the database, and delete those that are ABSENT."""

        def encode(some: Sequence[int]) -> Iterable[bytes | None]:
            there = [at for at in some if values[at] is not ABSENT]
            written = [values[at] for at in there]
            data = codec.encode(written, [keys[at] for at in there])
            self.note_size(sum(map(len, data)), self._items_in(written))
            return map(dict(zip(there, data, strict=True)).get, some)

        self.database.write_entries(places, encode)

    def _items_in(self, values: Sequence[Any]) -> int:
        """Return the number of items in stored values."""
        return len(values)

    # --- expiry -----------------------------------------------------------------------------------

    def entries(self) -> int:
        """Return the approximate number of entries of all states; the database does not count those of
        one state."""
        return self.database.entries()

    def sweep(self) -> Iterator[None]:
        """Remove expired entries; see `expiry.ExpiringStore`. Stored entries are not loaded into the
        cache, so no used entry is evicted. Entries since the last flush are left to the next sweep."""
        stop = range_start(int.from_bytes(self.prefix, "big") + 1)
        place = self.prefix
        assert self.expiry is not None
        while stored := list(islice(self.database.scan(place, stop), PIECE)):
            place = stored[-1][0] + b"\0"
            gone_ms = self.expiry.gone_ms()
            gone = [at for at, data in stored if self.stamp_of(data) <= gone_ms]
            if gone:
                batch = self.database.batch()
                self.remove_gone(gone, gone_ms, batch)
                self.database.write(batch)
            yield

    @abstractmethod
    def remove_gone(self, places: Sequence[bytes], gone_ms: int, batch: Batch) -> None:
        """Remove the stored entries of these places whose stamps are at or before `gone_ms`. For a key
        in the young generation the entry in memory decides, because it may be newer. An entry in the
        old generation equals the stored one."""

    # --- generations ------------------------------------------------------------------------------

    def rotate(self, most_items: int) -> None:
        """Make the young generation the old one, right after a flush. An entry with more than
        `most_items` items is dropped, however often it is used."""
        self.old = self.young.copy()
        self.young.clear()
        self.added = 0
