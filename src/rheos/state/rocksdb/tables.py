"""Values, lists and maps: what is in memory for a key, and how it is read and written.

All is written without reading it first where that can be: a value is put, an element of a list goes
into a segment behind those that are stored, an entry of a map is put by itself.
"""

from __future__ import annotations

import struct
from typing import Any

from rheos.errors import StateAccessError
from rheos.state.codec import ValueCodec
from rheos.state.keys import Key
from rheos.state.rocksdb.cache import ENTRY_BYTES, MISSING, CachedTable, Place
from rheos.state.rocksdb.database import Batch
from rheos.state.rocksdb.layout import Form, Places, join, split
from rheos.state.tables import ABSENT

_PLACE = struct.Struct(">q")

_MANY_SEGMENTS = 16
"""A list in more segments than this is written anew as one, once it has been read."""


class ValueTable(CachedTable[Any]):
    """A value, or ABSENT."""

    form = Form.VALUE

    def __init__(self, name: str, codec: ValueCodec, places: Places) -> None:
        super().__init__(name, codec, places)
        self.codec = codec

    @property
    def values(self) -> dict[Key, Any]:
        return self.young

    def fetch(self, key: Key) -> Any:
        """The value of a key that is not among the young ones; it is now."""
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

    def weight(self) -> int:
        return len(self.young) * (ENTRY_BYTES + self.item_bytes)

    def flush(self, batch: Batch) -> None:
        if not self.dirty:
            return
        young = self.young
        there, values = [], []
        for key in self.dirty:
            value = young.get(key, MISSING)
            if value is ABSENT:
                batch.delete(self.stored_at(key))
            elif value is not MISSING:
                there.append(key)
                values.append(value)
        encoded = self.codec.encode(values, there)
        for place, data in zip(self._places.of_all(there), encoded, strict=True):
            batch.put(self.prefix + place, data)
        self.note_size(sum(map(len, encoded)), len(encoded))
        self.dirty.clear()


class ListEntry:
    """A list, or the end of one whose beginning was not read."""

    __slots__ = ("items", "rewritten", "segments", "stored", "whole")

    def __init__(self) -> None:
        self.items: list[Any] = []
        """All elements where it is whole; else those that are not stored yet."""
        self.whole = False
        self.stored = 0
        """How many of the items are stored."""
        self.segments: list[bytes] | None = None
        """Where they are stored; None where that was not read."""
        self.rewritten = False
        """Whatever is stored is to be replaced by the items."""


class ListTable(CachedTable[ListEntry]):
    """A list in segments of what was appended between two writes."""

    form = Form.LIST

    def __init__(
        self, name: str, codec: ValueCodec, element: ValueCodec, places: Places, place: Place
    ) -> None:
        super().__init__(name, element, places)
        self.codec = codec
        """Of lists."""
        self.element = element
        self._place = place

    def enter(self, key: Key) -> ListEntry:
        """The entry of a key that is not among the young ones; it is now."""
        entry = self.old.get(key)
        if entry is None:
            entry = ListEntry()
        self.young[key] = entry
        self.added += len(entry.items)
        return entry

    def read(self, key: Key) -> ListEntry:
        """The entry of the key, whole."""
        entry = self.young.get(key) or self.enter(key)
        if entry.whole:
            return entry
        segments, items, size = [], [], 0
        for place, data in self.database.scan_prefix(self.stored_at(key)):
            segments.append(place)
            items += self.codec.decode(data)
            size += len(data)
        entry.stored = len(items)
        entry.items = items + entry.items
        entry.segments = segments
        entry.whole = True
        self.added += len(items)
        if items:
            self.note_size(size, len(items))
        if len(segments) > _MANY_SEGMENTS:
            entry.rewritten = True
            self.dirty.add(key)
        return entry

    def flush(self, batch: Batch) -> None:
        keys: list[Key] = []
        new: list[list[Any]] = []
        entries: list[ListEntry] = []
        for key in self.dirty:
            entry = self.young[key]
            if entry.rewritten:
                self._delete(batch, key, entry)
            items = entry.items[entry.stored :] if entry.stored else entry.items
            if items:
                keys.append(key)
                new.append(items)
                entries.append(entry)
        self.dirty.clear()
        encoded = self.codec.encode(new, keys)
        starts = self._places.of_all(keys)
        for entry, start, items, data in zip(entries, starts, new, encoded, strict=True):
            segment = self.prefix + join(self.form, start, _PLACE.pack(self._place.take()))
            batch.put(segment, data)
            self.note_size(len(data), len(items))
            if entry.whole:
                entry.stored = len(entry.items)
                if entry.segments is not None:
                    entry.segments.append(segment)
            else:
                entry.items = []

    def _delete(self, batch: Batch, key: Key, entry: ListEntry) -> None:
        """Whatever is stored of the key."""
        if entry.segments is None:
            stored = [place for place, _ in self.database.scan_prefix(self.stored_at(key))]
        else:
            stored = entry.segments
        for place in stored:
            batch.delete(place)
        entry.segments, entry.stored, entry.rewritten = [], 0, False

    def rotate(self, most_items: int) -> None:
        for key in [key for key, entry in self.young.items() if len(entry.items) > most_items]:
            del self.young[key]
        super().rotate(most_items)


class MapEntry:
    """What is known of a map."""

    __slots__ = ("changed", "cleared", "values", "whole")

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        """By item, its value, or ABSENT."""
        self.whole = False
        """Whether what is not in `values` is nowhere."""
        self.changed: set[Any] = set()
        self.cleared = False
        """Whatever is stored is to be deleted, before what has changed is written."""


class MapTable(CachedTable[MapEntry]):
    """A dict by single entries."""

    form = Form.MAP

    def __init__(self, name: str, item: ValueCodec, value: ValueCodec, places: Places) -> None:
        super().__init__(name, value, places)
        self.item = item
        """Of the keys inside the map."""
        self.value = value

    def enter(self, key: Key) -> MapEntry:
        """The entry of a key that is not among the young ones; it is now."""
        entry = self.old.get(key)
        if entry is None:
            entry = MapEntry()
        self.young[key] = entry
        self.added += len(entry.values)
        return entry

    def fetch(self, key: Key, entry: MapEntry, item: Any) -> Any:
        """The value of an item that is not in the entry's values, or ABSENT; it is in them now."""
        if entry.whole:
            return ABSENT
        try:
            [namespace] = self.item.encode([self.item.fit(item)], [key])
        except StateAccessError:
            # It is not of the declared type: so it is not there.
            return ABSENT
        place = self._places.of(key)
        data = self.database.get(self.prefix + place[:2] + join(self.form, place[2:], namespace))
        if data is None:
            found = ABSENT
        else:
            found = self.value.decode(data)
            self.note_size(len(data))
        entry.values[item] = found
        self.added += 1
        return found

    def read(self, key: Key) -> MapEntry:
        """The entry of the key, whole."""
        entry = self.young.get(key) or self.enter(key)
        if not entry.whole:
            values = entry.values
            before = len(values)
            for place, data in self.database.scan_prefix(self.stored_at(key)):
                item = self.item.decode(split(self.form, place[4:])[1])
                if item not in values:
                    values[item] = self.value.decode(data)
                    self.note_size(len(data))
            entry.whole = True
            self.added += len(values) - before
        return entry

    def touch(self, key: Key, entry: MapEntry, item: Any) -> None:
        """The item may have changed."""
        entry.changed.add(item)
        self.dirty.add(key)

    def flush(self, batch: Batch) -> None:
        keys: list[Key] = []
        items: list[Any] = []
        values: list[Any] = []
        for key in self.dirty:
            entry = self.young[key]
            if entry.cleared:
                for place, _ in self.database.scan_prefix(self.stored_at(key)):
                    batch.delete(place)
                entry.cleared = False
            for item in entry.changed:
                keys.append(key)
                items.append(item)
                values.append(entry.values[item])
            entry.changed.clear()
        self.dirty.clear()
        namespaces = self.item.encode(items, keys)
        there = [(value, key) for value, key in zip(values, keys, strict=True) if value is not ABSENT]
        encoded = iter(self.value.encode([value for value, _ in there], [key for _, key in there]))
        for place, namespace, value in zip(self._places.of_all(keys), namespaces, values, strict=True):
            stored = self.prefix + place[:2] + join(self.form, place[2:], namespace)
            if value is ABSENT:
                batch.delete(stored)
            else:
                data = next(encoded)
                batch.put(stored, data)
                self.note_size(len(data))

    def rotate(self, most_items: int) -> None:
        for key in [key for key, entry in self.young.items() if len(entry.values) > most_items]:
            del self.young[key]
        super().rotate(most_items)
