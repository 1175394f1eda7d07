"""Values, lists and maps on disk: the entry of a key in memory, and how it is read and written.

Writes avoid reads where possible: a value is put, list elements become a segment after the stored ones,
and a map entry is put by itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence, Sized
from typing import Any, TypeVar

from rheos.core.errors import StateAccessError
from rheos.core.state.codec import ValueCodec
from rheos.core.state.expiry import Expiry
from rheos.core.state.keys import Key
from rheos.core.state.parts import PLACE
from rheos.core.state.rocksdb.cache import ENTRY_BYTES, CachedTable, SegmentPlaces
from rheos.core.state.rocksdb.database import Batch
from rheos.core.state.rocksdb.layout import EntryForm, Places, join, split
from rheos.core.state.stamps import latest_stamp_of, list_codec, value_codec
from rheos.core.state.stores import ABSENT, MISSING

_MANY_SEGMENTS = 16
"""A list in more segments than this is rewritten as one, once it has been read."""


class RocksValueTable(CachedTable[Any]):
    """One value per key. An entry is the value, or ABSENT."""

    form = EntryForm.VALUE
    in_memory = False

    def __init__(self, name: str, declared: Any, places: Places, expiry: Expiry | None = None) -> None:
        codec = value_codec(name, declared, expires=expiry is not None)
        super().__init__(name, codec, places, expiry)
        self.codec = codec

    @property
    def values(self) -> dict[Key, Any]:
        return self.young

    def fetch(self, key: Key) -> Any:
        found = self.old.get(key, MISSING)
        if found is MISSING:
            data = self.database.get(self.stored_at(key))
            if data is None:
                found = ABSENT
            else:
                found = self.codec.decode(data)
                self.note_size(len(data))
        self.young[key] = found
        return found

    def remove(self, key: Key) -> None:
        if self.young.get(key, MISSING) is not ABSENT:
            self.young[key] = ABSENT
            self.dirty.add(key)

    def weight(self) -> int:
        return len(self.young) * (ENTRY_BYTES + self.item_bytes)

    def flush(self) -> None:
        if not self.dirty:
            return
        keys = [*self.dirty]
        values = [*map(self.young.__getitem__, keys)]
        prefix = self.prefix
        places = [prefix + place for place in self._places.of_all(keys)]
        self._write(places, self.codec, values, keys)
        self.dirty.clear()

    def remove_gone(self, places: Sequence[bytes], gone_ms: int, batch: Batch) -> None:
        for place in places:
            key = self._places.key_of(split(self.form, place[4:])[0])
            pair = self.young.get(key, MISSING)
            if pair is MISSING:
                batch.delete(place)
                self.old.pop(key, None)
            elif pair is not ABSENT and pair[0] <= gone_ms:
                self.remove(key)


E = TypeVar("E", bound=Sized)


class _ItemsTable(CachedTable[E]):
    """A table whose entries have several items. Handles add items without calling the table."""

    @property
    def values(self) -> dict[Key, Any]:
        return self.young

    @abstractmethod
    def enter(self, key: Key) -> E:
        """Return the entry of a key that is not in the young generation, and add it there."""

    def _entry(self, key: Key) -> E:
        entry = self.young.get(key)
        return self.enter(key) if entry is None else entry

    @abstractmethod
    def _settle(self) -> None:
        """Count what handles have added since the last call."""

    def weight(self) -> int:
        self._settle()
        return super().weight()

    def rotate(self, most_items: int) -> None:
        for key in [key for key, entry in self.young.items() if len(entry) > most_items]:
            del self.young[key]
        super().rotate(most_items)


class ListEntry(list[Any]):
    """A list of a key. It is the whole list, or its end: the elements that are not stored yet."""

    __slots__ = ("counted", "rewritten", "segments", "stored", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.stored = 0
        """Number of stored elements."""
        self.segments: list[bytes] | None = None
        """Database keys of the stored segments; None if they were not read."""
        self.rewritten = False
        """Whether the elements replace all stored ones."""
        self.counted = 0
        """Number of elements that the table has counted as being in memory."""


class RocksListTable(_ItemsTable[ListEntry]):
    """A list per key, in segments: each has the elements that were appended between two writes."""

    form = EntryForm.LIST
    stamp_of = staticmethod(latest_stamp_of)

    def __init__(
        self,
        name: str,
        declared: Any,
        places: Places,
        place: SegmentPlaces,
        expiry: Expiry | None = None,
    ) -> None:
        self.element: ValueCodec = ValueCodec(name, declared)
        super().__init__(name, self.element, places, expiry)
        self.codec = list_codec(name, declared, expires=expiry is not None)
        """Codec of lists."""
        self._place = place
        self.appended: set[Key] = set()
        """Keys whose lists were appended to since the last `_settle`."""

    def enter(self, key: Key) -> ListEntry:
        entry = self.old.get(key)
        if entry is None:
            entry = ListEntry()
        self.young[key] = entry
        entry.counted = 0
        self._count(entry)
        return entry

    def _count(self, entry: ListEntry) -> None:
        self.added += len(entry) - entry.counted
        entry.counted = len(entry)

    def _settle(self) -> None:
        for key in self.appended:
            self._count(self.young[key])
        self.dirty |= self.appended
        self.appended.clear()

    def note_change(self, key: Key) -> None:
        self.young[key].rewritten = True
        self.dirty.add(key)

    def read(self, key: Key, nothing: list[Any] | None = None) -> ListEntry:
        entry = self._entry(key)
        if entry.whole:
            return entry
        segments, items, size = [], [], 0
        for place, data in self.database.scan_prefix(self.stored_at(key)):
            segments.append(place)
            items += self.codec.decode(data)
            size += len(data)
        entry.stored = len(items)
        entry[:0] = items
        entry.segments = segments
        entry.whole = True
        self._count(entry)
        if items:
            self.note_size(size, len(items))
        if len(segments) > _MANY_SEGMENTS:
            entry.rewritten = True
            self.dirty.add(key)
        return entry

    def replace(self, key: Key, items: list[Any]) -> None:
        entry = self._entry(key)
        if entry.whole and not entry and not items:
            return
        entry[:] = items
        entry.whole = True
        entry.rewritten = True
        self.dirty.add(key)
        self._count(entry)

    def flush(self) -> None:
        keys: list[Key] = []
        new: list[list[Any]] = []
        entries: list[ListEntry] = []
        self._settle()
        batch = self.database.batch()
        for key in self.dirty:
            entry = self.young[key]
            if entry.rewritten:
                self._delete(batch, key, entry)
            items = entry[entry.stored :]
            if items:
                keys.append(key)
                new.append(items)
                entries.append(entry)
        self.dirty.clear()
        self.database.write(batch)
        segments = [
            self.prefix + join(self.form, start, PLACE.pack(self._place.take()))
            for start in self._places.of_all(keys)
        ]
        self._write(segments, self.codec, new, keys)
        for entry, segment in zip(entries, segments, strict=True):
            if entry.whole:
                entry.stored = len(entry)
                if entry.segments is not None:
                    entry.segments.append(segment)
            else:
                entry.clear()
                entry.counted = 0

    def _items_in(self, values: Sequence[Any]) -> int:
        return sum(map(len, values))

    def _delete(self, batch: Batch, key: Key, entry: ListEntry) -> None:
        """Delete all stored segments of the key."""
        if entry.segments is None:
            stored = [place for place, _ in self.database.scan_prefix(self.stored_at(key))]
        else:
            stored = entry.segments
        for place in stored:
            batch.delete(place)
        entry.segments, entry.stored, entry.rewritten = [], 0, False

    def remove_gone(self, places: Sequence[bytes], gone_ms: int, batch: Batch) -> None:
        """Remove expired segments. A segment with living elements remains until its list is read."""
        for place in places:
            key = self._places.key_of(split(self.form, place[4:])[0])
            entry = self.young.get(key)
            if entry is None or not entry.whole:
                batch.delete(place)
                self.old.pop(key, None)
            else:
                living = [pair for pair in entry if pair[0] > gone_ms]
                if len(living) < len(entry):
                    self.replace(key, living)


class MapEntry(dict[Any, Any]):
    """The known part of a map: by item, its value, or ABSENT. A complete one has no ABSENT."""

    __slots__ = ("changed", "cleared", "whole")

    def __init__(self) -> None:
        self.whole = False
        """Whether all items of the map are in memory."""
        self.changed: set[Any] = set()
        """Changed items to be written or deleted, as of the last `_settle`."""
        self.cleared = False
        """Whether everything stored is to be deleted before changes are written."""


class RocksMapTable(_ItemsTable[MapEntry]):
    """A dict per key, stored as single entries."""

    form = EntryForm.MAP
    in_memory = False

    def __init__(
        self, name: str, key: Any, value: Any, places: Places, expiry: Expiry | None = None
    ) -> None:
        self.item: ValueCodec = ValueCodec(name, key)
        """Codec of the keys inside the map."""
        self.value: ValueCodec = value_codec(name, value, expires=expiry is not None)
        super().__init__(name, self.value, places, expiry)
        self.changed: defaultdict[Key, set[Any]] = defaultdict(set)
        """Changed items by key, since the last `_settle`."""

    def enter(self, key: Key) -> MapEntry:
        entry = self.old.get(key)
        if entry is None:
            entry = MapEntry()
        self.young[key] = entry
        self.added += len(entry)
        return entry

    def fetch(self, key: Key, item: Any) -> Any:
        entry = self.young.get(key)
        if entry is None:
            entry = self.enter(key)
            found = entry.get(item, MISSING)
            if found is not MISSING:
                return found
        if entry.whole:
            return ABSENT
        try:
            [namespace] = self.item.encode([self.item.fit(item)], [key])
        except StateAccessError:
            # It is not of the declared type, so the map does not have it.
            return ABSENT
        place = self._places.of(key)
        data = self.database.get(self.prefix + place[:2] + join(self.form, place[2:], namespace))
        if data is None:
            found = ABSENT
        else:
            found = self.value.decode(data)
            self.note_size(len(data))
        entry[item] = found
        self.added += 1
        return found

    def read(self, key: Key, nothing: dict[Any, Any] | None = None) -> MapEntry:
        entry = self._entry(key)
        if not entry.whole:
            before = len(entry)
            for place, data in self.database.scan_prefix(self.stored_at(key)):
                item = self.item.decode(split(self.form, place[4:])[1])
                if item not in entry:
                    entry[item] = self.value.decode(data)
                    self.note_size(len(data))
            self.added += len(entry) - before
            for item in [item for item, value in entry.items() if value is ABSENT]:
                del entry[item]
            entry.whole = True
        return entry

    def _settle(self) -> None:
        for key, items in self.changed.items():
            changed = self.young[key].changed
            before = len(changed)
            changed |= items
            self.added += len(changed) - before
        self.dirty.update(self.changed)
        self.changed.clear()

    def remove(self, key: Key, item: Any) -> None:
        entry = self._entry(key)
        found = entry.get(item, MISSING)
        if found is MISSING:
            found = self.fetch(key, item)
        if found is ABSENT:
            raise KeyError(item)
        if entry.whole:
            del entry[item]
        else:
            entry[item] = ABSENT
        self.changed[key].add(item)

    def clear(self, key: Key) -> None:
        entry = self._entry(key)
        if entry.whole and not entry:
            return
        entry.clear()
        entry.changed.clear()
        self.changed.pop(key, None)
        entry.whole = True
        entry.cleared = True
        self.dirty.add(key)

    def flush(self) -> None:
        keys: list[Key] = []
        items: list[Any] = []
        values: list[Any] = []
        self._settle()
        batch = self.database.batch()
        for key in self.dirty:
            entry = self.young[key]
            if entry.cleared:
                for place, _ in self.database.scan_prefix(self.stored_at(key)):
                    batch.delete(place)
                entry.cleared = False
            for item in entry.changed:
                keys.append(key)
                items.append(item)
                values.append(entry.get(item, ABSENT))
            entry.changed.clear()
        self.dirty.clear()
        self.database.write(batch)
        namespaces = self.item.encode(items, keys)
        places = [
            self.prefix + place[:2] + join(self.form, place[2:], namespace)
            for place, namespace in zip(self._places.of_all(keys), namespaces, strict=True)
        ]
        self._write(places, self.value, values, keys)

    def remove_gone(self, places: Sequence[bytes], gone_ms: int, batch: Batch) -> None:
        for place in places:
            encoded, namespace = split(self.form, place[4:])
            key, item = self._places.key_of(encoded), self.item.decode(namespace)
            entry = self.young.get(key)
            if entry is None:
                batch.delete(place)
                self.old.get(key, {}).pop(item, None)
                continue
            pair = entry.get(item, MISSING)
            if pair is MISSING and not (entry.whole or entry.cleared):
                batch.delete(place)
            elif pair is not MISSING and pair is not ABSENT and pair[0] <= gone_ms:
                self.remove(key, item)
