"""What is in memory of a state, and when it is written to the database and dropped.

There are two generations. What is used enters the young one, from the old one or from the database.
When the young one has grown to its share of the memory, all changes are written, and it becomes the old
one, whose entries are dropped: what was not used for a whole generation is only on disk then. This
happens between calls of user code alone (`settle`), never under its hands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from rheos.core.state.codec import ValueCodec
from rheos.core.state.expiry import PIECE, Expiry
from rheos.core.state.keys import Key
from rheos.core.state.rocksdb.database import Batch, Database
from rheos.core.state.rocksdb.layout import EntryForm, Places, range_start
from rheos.core.state.stamps import stamp_of

E = TypeVar("E")

ENTRY_BYTES = 200
"""About what an entry takes beside what is in it: the key, and its places in dicts and sets."""
_ITEM_BYTES = 60
"""About what an item takes beside its contents."""
_PAIR_BYTES = 100
"""About what a stamp takes beside its value."""
_FLAT = (int, float, bool, str, bytes)
_EXPANSION = 6
"""How much larger a value with others in it is as Python objects than encoded, about."""
_REMEMBERED = 8192


class SegmentPlaces:
    """Gives segments of lists their places, each behind all before it."""

    def __init__(self, next_place: int = 0) -> None:
        self.next = next_place

    def take(self) -> int:
        self.next += 1
        return self.next - 1


class CachedTable(ABC, Generic[E]):
    """One declared state. `E` is what is in memory for a key. With an expiry, each value, element or
    item is a pair of its stamp and its value."""

    form: EntryForm
    stamp_of = staticmethod(stamp_of)
    """The latest stamp in a stored value, where it expires."""

    def __init__(self, name: str, codec: ValueCodec, places: Places, expiry: Expiry | None) -> None:
        """`codec` is that of the items."""
        self.name = name
        self.expiry = expiry
        self._expansion = 1 if codec.cls in _FLAT else _EXPANSION
        self._beside = _ITEM_BYTES + (0 if expiry is None else _PAIR_BYTES)
        self.young: dict[Key, E] = {}
        self.old: dict[Key, E] = {}
        """All of it is written."""
        self.dirty: set[Key] = set()
        """Of the young ones, those that have changed since they were written."""
        self.added = 0
        """How many items have come into the young ones since they are the young ones."""
        self._places = places
        self._bytes = 32
        self._items = 1

    def attach(self, database: Database, id: int) -> None:
        """The database is open, and the state is this one of it."""
        self.database = database
        self.prefix = range_start(id)[:2]

    def stored_at(self, key: Key) -> bytes:
        """Where the entries of the key begin."""
        return self.prefix + self._places.of(key)

    def note_size(self, encoded_bytes: int, items: int = 1) -> None:
        """Items of this size were read or written: so large are they, about."""
        if self._items > _REMEMBERED:
            self._bytes //= 2
            self._items //= 2
        self._bytes += encoded_bytes
        self._items += items

    @property
    def item_bytes(self) -> int:
        """About what an item takes in memory."""
        return self._beside + self._expansion * self._bytes // self._items

    def weight(self) -> int:
        """About what the young generation takes in memory."""
        return len(self.young) * ENTRY_BYTES + self.added * self.item_bytes

    @abstractmethod
    def flush(self, batch: Batch) -> None:
        """Puts all changes into the batch; from now on, nothing has changed."""

    # --- what expires -----------------------------------------------------------------------------

    def entries(self) -> int:
        """How many entries the database has, of all its states: of one it does not know."""
        return self.database.entries()

    def sweep(self) -> Iterator[None]:
        """See `expiry.ExpiringStore`. What is stored is looked at where it lies, and does not push out
        of memory what is used. What came since the last flush is left to the next sweep."""
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
        """Removes the stored entries of these places, whose stamps are not after `gone_ms`. Of a young
        key what is in memory decides, as it may be newer; what is old is as it is stored."""

    # --- generations ------------------------------------------------------------------------------

    def rotate(self, most_items: int) -> None:
        """Makes the young generation the old one. Nothing has changed since the flush. Of an entry
        with more than `most_items` nothing is kept, however often it is used."""
        self.old = self.young.copy()
        self.young.clear()
        self.added = 0
