"""The stores of the memory backend (`stores.py`): Python values by key, and the changed keys.

Handles use their dicts directly. `freeze` is the synchronous part of a snapshot: it fixes the contents
of the part, resets the changes, and defers the rest of the work to its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.binary_columns import BinaryColumn
from rheos.core.state.codec import ValueCodec
from rheos.core.state.expiry import PIECE, Expiry
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.parts import (
    DELETED,
    PLACE,
    DeltaChain,
    Entries,
    Selection,
    StoredValues,
    restore_values,
    restored_rows,
)
from rheos.core.state.stamps import list_codec, value_codec
from rheos.core.state.stores import ABSENT

Frozen = tuple[int, Callable[[], Entries]]
"""Number of entries, and a function that returns them."""


class StateTable(ABC):
    """One declared state. With an expiry, values, elements and entries are pairs of stamp and value."""

    is_adoptable: ClassVar[bool] = False
    """Whether another table can take its contents (`adopt`)."""

    def __init__(self, expiry: Expiry | None) -> None:
        self.chain = DeltaChain()
        self.expiry = expiry

    def next_part(self) -> tuple[PartMode, Frozen]:
        """Return the synchronous part of a snapshot. A full part leaves out expired entries."""
        mode = self.chain.next_mode(self.changes())
        full = mode is PartMode.FULL
        if full and self.expiry is not None:
            for _ in self.sweep():
                pass
        frozen = self.freeze_all() if full else self.freeze_changes()
        self.chain.taken(mode, frozen[0])
        return mode, frozen

    def keys_held(self) -> int:
        """Return the number of keys with state; 0 if it is unknown."""
        return 0

    @abstractmethod
    def changes(self) -> int:
        """Return the approximate number of entries in a delta."""

    @abstractmethod
    def freeze_all(self) -> Frozen:
        """Return the whole state, and mark it as unchanged."""

    @abstractmethod
    def freeze_changes(self) -> Frozen:
        """Return the changes, and reset them."""

    @abstractmethod
    def copy(self) -> Frozen:
        """Return the whole state without affecting the chain of parts: changed entries remain marked as
        changed. Expired entries are left out, but not removed."""

    @abstractmethod
    def sweep(self) -> Iterator[None]:
        """Remove expired entries; see `expiry.ExpiringStore`."""

    @abstractmethod
    def entries(self) -> int:
        """Return the number of entries."""

    def _gone_ms(self) -> int:
        assert self.expiry is not None
        return self.expiry.gone_ms()

    @abstractmethod
    def forget(self) -> None:
        """Forget all keys. Handles keep references to the dicts, so these are emptied."""

    @abstractmethod
    def restore(self, tables: Iterable[pa.Table], keys: KeyCodec) -> None:
        """Apply parts of a restored state, in the order of their chain. They do not count as changes.
        An adoptable table can be called again with the parts that follow."""

    def adopt(self, other: Any) -> None:
        """Take the restored entries of a table of the same declaration, which is not used afterwards.
        This table is empty."""
        raise NotImplementedError


def _encoded_later(
    codec: ValueCodec, values: Sequence[Any], keys: Sequence[Key], *, fixed: bool
) -> StoredValues:
    """Return a function that encodes values. Values that may change are encoded now."""
    if not fixed:
        encoded = _encoded(codec, values, keys)
        return lambda positions: encoded.take(pa.array(positions, pa.int64()))
    # Only errors read the keys.
    return lambda positions: _encoded(
        codec, [values[at] for at in positions], Selection(keys, positions)
    )


def _encoded(codec: ValueCodec, values: Sequence[Any], keys: Sequence[Key]) -> BinaryColumn:
    # By identity: some values cannot be compared, such as NumPy arrays.
    if all(value is not DELETED for value in values):
        return codec.encode_column(values, keys)
    there = [at for at, value in enumerate(values) if value is not DELETED]
    encoded = codec.encode_column([values[at] for at in there], Selection(keys, there))
    rows: list[int | None] = [None] * len(values)
    for row, at in enumerate(there):
        rows[at] = row
    return encoded.take(pa.array(rows, pa.int64()))


class MemoryValueTable(StateTable):
    """One value per key. The namespace is empty."""

    in_memory = True
    is_adoptable = True

    def __init__(self, name: str, declared: Any, expiry: Expiry | None = None) -> None:
        super().__init__(expiry)
        self.codec = value_codec(name, declared, expires=expiry is not None)
        self.values: dict[Key, Any] = {}
        self.dirty: set[Key] = set()

    def keys_held(self) -> int:
        return len(self.values)

    def changes(self) -> int:
        return len(self.dirty)

    def freeze_all(self) -> Frozen:
        self.dirty.clear()
        return self.copy()

    def copy(self) -> Frozen:
        left = self.values
        if self.expiry is not None:
            gone_ms = self._gone_ms()
            left = {key: pair for key, pair in left.items() if pair[0] > gone_ms}
        return self._freeze(list(left), list(left.values()))

    def entries(self) -> int:
        return len(self.values)

    def sweep(self) -> Iterator[None]:
        there = list(self.values)
        for start in range(0, len(there), PIECE):
            gone_ms = self._gone_ms()
            for key in there[start : start + PIECE]:
                pair = self.values.get(key)
                if pair is not None and pair[0] <= gone_ms:
                    self.remove(key)
            yield

    def freeze_changes(self) -> Frozen:
        keys = list(self.dirty)
        self.dirty.clear()
        return self._freeze(keys, [self.values.get(key, DELETED) for key in keys])

    def _freeze(self, keys: list[Key], values: list[Any]) -> Frozen:
        encoded = _encoded_later(self.codec, values, keys, fixed=self.codec.immutable)
        return len(keys), lambda: Entries(keys, [b""] * len(keys), encoded)

    def forget(self) -> None:
        self.values.clear()
        self.dirty.clear()

    def fetch(self, key: Key) -> Any:
        """Return ABSENT: all values are in `values`."""
        return ABSENT

    def remove(self, key: Key) -> None:
        if key in self.values:
            del self.values[key]
            self.dirty.add(key)

    def restore(self, tables: Iterable[pa.Table], keys: KeyCodec) -> None:
        restore_values(self.values, tables, keys, self.codec.decode_all)

    def adopt(self, other: MemoryValueTable) -> None:
        self.values.update(other.values)


class MemoryListTable(StateTable):
    """A list per key, written in segments: each delta adds the elements that were appended.

    The namespace is the index of a segment's first element; its value is the list of elements. A list
    that changed in another way is rewritten as one segment.
    """

    is_adoptable = True

    def __init__(self, name: str, declared: Any, expiry: Expiry | None = None) -> None:
        super().__init__(expiry)
        self.codec = list_codec(name, declared, expires=expiry is not None)
        """Codec of lists."""
        self.element = ValueCodec(name, declared)
        self.values: dict[Key, list[Any]] = {}
        self.appended: set[Key] = set()
        self.rewritten: set[Key] = set()
        self.read: Callable[[Key, list[Any]], list[Any]] = self.values.get
        self.note_change: Callable[[Key], object] = self.rewritten.add
        self._written: dict[Key, list[int]] = {}
        """Places of a key's written segments, followed by the number of written elements."""

    def keys_held(self) -> int:
        return len(self.values)

    def enter(self, key: Key) -> list[Any]:
        made = self.values[key] = []
        return made

    def replace(self, key: Key, items: list[Any]) -> None:
        if items:
            self.values[key] = items
            self.rewritten.add(key)
        elif self.values.pop(key, None):
            self.appended.discard(key)
            self.rewritten.add(key)

    def changes(self) -> int:
        return len(self.appended | self.rewritten)

    def freeze_all(self) -> Frozen:
        self.appended.clear()
        self.rewritten.clear()
        self._written = {key: [0, len(values)] for key, values in self.values.items()}
        return self.copy()

    def copy(self) -> Frozen:
        left = {key: list(items) for key, items in self.values.items()}
        if self.expiry is not None:
            living = {key: self._living(items) for key, items in left.items()}
            left = {key: items for key, items in living.items() if items}
        return self._freeze(list(left), [0] * len(left), list(left.values()))

    def _living(self, items: list[Any]) -> list[Any]:
        gone_ms = self._gone_ms()
        return [pair for pair in items if pair[0] > gone_ms]

    def entries(self) -> int:
        return sum(map(len, self.values.values()))

    def sweep(self) -> Iterator[None]:
        seen = 0
        for key in list(self.values):
            items = self.values.get(key, [])
            living = self._living(items)
            if len(living) < len(items):
                self.replace(key, living)
            seen += len(items)
            while seen >= PIECE:
                seen -= PIECE
                yield

    def freeze_changes(self) -> Frozen:
        keys: list[Key] = []
        places: list[int] = []
        segments: list[Any] = []

        def add(key: Key, place: int, segment: Any) -> None:
            keys.append(key)
            places.append(place)
            segments.append(segment)

        for key in self.rewritten:
            values = self.values.get(key)
            for place in self._written.pop(key, [0])[:-1]:
                if place or not values:
                    add(key, place, DELETED)
            if values:
                add(key, 0, list(values))
                self._written[key] = [0, len(values)]
        for key in self.appended - self.rewritten:
            values = self.values[key]
            written = self._written.setdefault(key, [0])
            add(key, written[-1], values[written[-1] :])
            written.append(len(values))
        self.appended.clear()
        self.rewritten.clear()
        return self._freeze(keys, places, segments)

    def _freeze(self, keys: list[Key], places: list[int], segments: list[Any]) -> Frozen:
        # The segments are copies already; their elements may not be.
        encoded = _encoded_later(self.codec, segments, keys, fixed=self.element.immutable)
        return len(keys), lambda: Entries(keys, [PLACE.pack(place) for place in places], encoded)

    def forget(self) -> None:
        self.values.clear()
        self.appended.clear()
        self.rewritten.clear()
        self._written.clear()

    def restore(self, tables: Iterable[pa.Table], keys: KeyCodec) -> None:
        for key, place, items in restored_rows(tables, keys, _places, self.codec.decode_all):
            if place == 0:
                # The list was rewritten as a whole, or it is empty.
                self.values.pop(key, None)
                self._written.pop(key, None)
            if items is DELETED:
                # Later segments are deleted only together with a change of the first one.
                continue
            # The next delta of the list is added to its segments, or deletes them.
            written = self._written.setdefault(key, [0])
            written[-1] = place
            there = self.values.setdefault(key, [])
            there.extend(items)
            written.append(len(there))

    def adopt(self, other: MemoryListTable) -> None:
        self.values.update(other.values)
        self._written.update(other._written)


def _places(namespaces: Sequence[bytes]) -> list[int]:
    return [PLACE.unpack(each)[0] for each in namespaces]


class MemoryMapTable(StateTable):
    """A dict per key. The namespace is the encoded key of the entry."""

    in_memory = True
    is_adoptable = True

    def __init__(self, name: str, key: Any, value: Any, expiry: Expiry | None = None) -> None:
        super().__init__(expiry)
        self.item = ValueCodec(name, key)
        self.value = value_codec(name, value, expires=expiry is not None)
        self.values: dict[Key, dict[Any, Any]] = {}
        self.changed: defaultdict[Key, set[Any]] = defaultdict(set)
        self.read: Callable[[Key, dict[Any, Any]], dict[Any, Any]] = self.values.get

    def keys_held(self) -> int:
        return len(self.values)

    def enter(self, key: Key) -> dict[Any, Any]:
        made = self.values[key] = {}
        return made

    def fetch(self, key: Key, item: Any) -> Any:
        """Return ABSENT: all values are in `values`."""
        return ABSENT

    def remove(self, key: Key, item: Any) -> None:
        found = self.values.get(key)
        if found is None:
            raise KeyError(item)
        del found[item]
        if not found:
            del self.values[key]
        self.changed[key].add(item)

    def clear(self, key: Key) -> None:
        if key in self.values:
            self.changed[key].update(self.values.pop(key))

    def changes(self) -> int:
        return sum(map(len, self.changed.values()))

    def freeze_all(self) -> Frozen:
        self.changed.clear()
        return self.copy()

    def copy(self) -> Frozen:
        entries = [
            (key, item, value) for key, inside in self.values.items() for item, value in inside.items()
        ]
        if self.expiry is not None:
            gone_ms = self._gone_ms()
            entries = [entry for entry in entries if entry[2][0] > gone_ms]
        return self._freeze(entries)

    def entries(self) -> int:
        return sum(map(len, self.values.values()))

    def sweep(self) -> Iterator[None]:
        seen = 0
        for key in list(self.values):
            gone_ms = self._gone_ms()
            inside = self.values.get(key, {})
            for item in [item for item, pair in inside.items() if pair[0] <= gone_ms]:
                self.remove(key, item)
            seen += len(inside)
            while seen >= PIECE:
                seen -= PIECE
                yield

    def freeze_changes(self) -> Frozen:
        nothing: dict[Any, Any] = {}
        changed = [
            (key, item, self.values.get(key, nothing).get(item, DELETED))
            for key, items in self.changed.items()
            for item in items
        ]
        self.changed.clear()
        return self._freeze(changed)

    def _freeze(self, changed: list[tuple[Key, Any, Any]]) -> Frozen:
        keys = [key for key, _, _ in changed]
        items = [item for _, item, _ in changed]
        values = [value for _, _, value in changed]
        encoded = _encoded_later(self.value, values, keys, fixed=self.value.immutable)
        return len(keys), lambda: Entries(keys, self.item.encode(items, keys), encoded)

    def forget(self) -> None:
        self.values.clear()
        self.changed.clear()

    def restore(self, tables: Iterable[pa.Table], keys: KeyCodec) -> None:
        found = self.values
        rows = restored_rows(tables, keys, self.item.decode_all, self.value.decode_all)
        for key, item, value in rows:
            inside = found.get(key)
            if value is not DELETED:
                if inside is None:
                    found[key] = {item: value}
                else:
                    inside[item] = value
            elif inside is not None and inside.pop(item, DELETED) is not DELETED and not inside:
                del found[key]

    def adopt(self, other: MemoryMapTable) -> None:
        self.values.update(other.values)
