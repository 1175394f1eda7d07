"""What the user's function gets: as the handles of the memory backend, over tables that are cached.

What is in memory is found by one look into a dict, as there; the rest is the table's matter.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from rheos.state.backend import KeyScope
from rheos.state.rocksdb.cache import MISSING
from rheos.state.rocksdb.tables import ListTable, MapEntry, MapTable, ValueTable
from rheos.state.tables import ABSENT


class CachedValueHandle:
    """A ValueState of an immutable type."""

    __slots__ = ("_cls", "_codec", "_default", "_dirty", "_fetch", "_scope", "_values")

    def __init__(self, table: ValueTable, scope: KeyScope, default: Any) -> None:
        self._codec = table.codec
        self._cls = table.codec.cls
        self._values = table.young
        self._dirty = table.dirty
        self._fetch = table.fetch
        self._scope = scope
        self._default = default

    @property
    def value(self) -> Any:
        key = self._scope.key
        found = self._values.get(key, MISSING)
        if found is MISSING:
            found = self._fetch(key)
        return self._default if found is ABSENT else found

    @value.setter
    def value(self, value: Any) -> None:
        if value.__class__ is not self._cls:
            if value is None and self._default is None:
                self.clear()
                return
            value = self._codec.fit(value)
        key = self._scope.key
        self._values[key] = value
        self._dirty.add(key)

    def clear(self) -> None:
        """Forgets the key's value: it is the default again."""
        key = self._scope.key
        if self._values.get(key, MISSING) is not ABSENT:
            self._values[key] = ABSENT
            self._dirty.add(key)


class CachedMutableValueHandle(CachedValueHandle):
    """A ValueState that may be changed in place: the default is copied, a read marks it dirty."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        key = self._scope.key
        found = self._values.get(key, MISSING)
        if found is MISSING:
            found = self._fetch(key)
        if found is ABSENT:
            if self._default is None:
                return None
            found = self._values[key] = copy.deepcopy(self._default)
        self._dirty.add(key)
        return found

    @value.setter
    def value(self, value: Any) -> None:
        CachedValueHandle.value.__set__(self, value)  # type: ignore[attr-defined]


class CachedListHandle:
    """A ListState. Appending reads nothing."""

    __slots__ = ("_dirty", "_element", "_enter", "_fixed", "_scope", "_table", "_young")

    def __init__(self, table: ListTable, scope: KeyScope) -> None:
        self._table = table
        self._young = table.young
        self._dirty = table.dirty
        self._enter = table.enter
        self._element = table.element
        self._fixed = table.element.immutable
        self._scope = scope

    def append(self, value: Any) -> None:
        if value.__class__ is not self._element.cls:
            value = self._element.fit(value)
        key = self._scope.key
        entry = self._young.get(key)
        if entry is None:
            entry = self._enter(key)
        entry.items.append(value)
        self._dirty.add(key)
        self._table.added += 1

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """The list is now `values`; none clears it."""
        fit = self._element.fit
        self._replace([fit(value) for value in values])

    def clear(self) -> None:
        """Forgets the key's list: it is empty again."""
        self._replace([])

    def _replace(self, items: list[Any]) -> None:
        key = self._scope.key
        entry = self._young.get(key) or self._enter(key)
        if entry.whole and not entry.items and not items:
            return
        entry.items = items
        entry.whole = True
        entry.rewritten = True
        self._dirty.add(key)
        self._table.added += len(items)

    def _all(self) -> list[Any]:
        return self._table.read(self._scope.key).items

    def __iter__(self) -> Iterator[Any]:
        key = self._scope.key
        entry = self._table.read(key)
        if not self._fixed and entry.items:
            entry.rewritten = True
            self._dirty.add(key)
        return iter(tuple(entry.items))

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"ListState({self._all()!r})"


class CachedMapHandle:
    """A MapState. An entry is read and written by itself."""

    __slots__ = ("_dirty", "_fixed", "_item", "_scope", "_table", "_value", "_young")

    def __init__(self, table: MapTable, scope: KeyScope) -> None:
        self._table = table
        self._young = table.young
        self._dirty = table.dirty
        self._item = table.item
        self._value = table.value
        self._fixed = table.value.immutable
        self._scope = scope

    def _find(self, item: Any) -> Any:
        """The item's value, or ABSENT."""
        key = self._scope.key
        entry = self._young.get(key)
        if entry is None:
            entry = self._table.enter(key)
        found = entry.values.get(item, MISSING)
        if found is MISSING:
            found = self._table.fetch(key, entry, item)
        if not self._fixed and found is not ABSENT:
            self._table.touch(key, entry, item)
        return found

    def __getitem__(self, item: Any) -> Any:
        found = self._find(item)
        if found is ABSENT:
            raise KeyError(item)
        return found

    def get(self, item: Any, default: Any = None) -> Any:
        found = self._find(item)
        return default if found is ABSENT else found

    def __contains__(self, item: Any) -> bool:
        key = self._scope.key
        entry = self._young.get(key) or self._table.enter(key)
        found = entry.values.get(item, MISSING)
        if found is MISSING:
            found = self._table.fetch(key, entry, item)
        return found is not ABSENT

    def __setitem__(self, item: Any, value: Any) -> None:
        if item.__class__ is not self._item.cls:
            item = self._item.fit(item)
        if value.__class__ is not self._value.cls:
            value = self._value.fit(value)
        key = self._scope.key
        entry = self._young.get(key)
        if entry is None:
            entry = self._table.enter(key)
        entry.values[item] = value
        entry.changed.add(item)
        self._dirty.add(key)
        self._table.added += 1

    def __delitem__(self, item: Any) -> None:
        if item not in self:
            raise KeyError(item)
        key = self._scope.key
        entry = self._young[key]
        entry.values[item] = ABSENT
        self._table.touch(key, entry, item)

    def clear(self) -> None:
        """Forgets the key's entries."""
        key = self._scope.key
        entry = self._young.get(key) or self._table.enter(key)
        if entry.whole and not entry.values:
            return
        entry.values.clear()
        entry.changed.clear()
        entry.whole = True
        entry.cleared = True
        self._dirty.add(key)

    def _whole(self) -> tuple[Any, MapEntry]:
        key = self._scope.key
        return key, self._table.read(key)

    def __len__(self) -> int:
        _, entry = self._whole()
        return sum(value is not ABSENT for value in entry.values.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> tuple[Any, ...]:
        _, entry = self._whole()
        return tuple(item for item, value in entry.values.items() if value is not ABSENT)

    def items(self) -> tuple[tuple[Any, Any], ...]:
        key, entry = self._whole()
        found = tuple(pair for pair in entry.values.items() if pair[1] is not ABSENT)
        if not self._fixed:
            for item, _ in found:
                self._table.touch(key, entry, item)
        return found

    def values(self) -> tuple[Any, ...]:
        return tuple(value for _, value in self.items())

    def __repr__(self) -> str:
        _, entry = self._whole()
        shown = {item: value for item, value in entry.values.items() if value is not ABSENT}
        return f"MapState({shown!r})"
