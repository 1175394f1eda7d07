"""MapState: a dict per key, with entries that are read and written one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rheos.core.graph.state import MapState
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.kinds.expiring import ExpiringMapHandle
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ABSENT, MISSING, MapStore

_NOTHING: dict[Any, Any] = {}


class MapHandle:
    """Handle of a map. If values may be changed in place, reading them marks them as changed."""

    __slots__ = (
        "_changed",
        "_fetch",
        "_fit_item",
        "_fit_value",
        "_fixed",
        "_item_cls",
        "_read",
        "_scope",
        "_store",
        "_value_cls",
        "_values",
    )

    def __init__(self, store: MapStore, scope: KeyScope) -> None:
        self._store = store
        self._values = store.values
        self._changed = store.changed
        self._fetch = store.fetch
        self._read = store.read
        self._item_cls, self._fit_item = store.item.cls, store.item.fit
        self._value_cls, self._fit_value = store.value.cls, store.value.fit
        self._fixed = store.value.immutable
        self._scope = scope

    # The three ways to look up an item repeat the same code, because a shared function would cost a
    # call for every access.

    def __getitem__(self, item: Any) -> Any:
        key = self._scope.key
        found = self._values.get(key, _NOTHING).get(item, MISSING)
        if found is MISSING:
            found = self._fetch(key, item)
        if found is ABSENT:
            raise KeyError(item)
        if not self._fixed:
            self._changed[key].add(item)
        return found

    def get(self, item: Any, default: Any = None) -> Any:
        key = self._scope.key
        found = self._values.get(key, _NOTHING).get(item, MISSING)
        if found is MISSING:
            found = self._fetch(key, item)
        if found is ABSENT:
            return default
        if not self._fixed:
            self._changed[key].add(item)
        return found

    def __contains__(self, item: Any) -> bool:
        key = self._scope.key
        found = self._values.get(key, _NOTHING).get(item, MISSING)
        if found is MISSING:
            found = self._fetch(key, item)
        return found is not ABSENT

    def __setitem__(self, item: Any, value: Any) -> None:
        if item.__class__ is not self._item_cls:
            item = self._fit_item(item)
        if value.__class__ is not self._value_cls:
            value = self._fit_value(value)
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            found = self._store.enter(key)
        found[item] = value
        self._changed[key].add(item)

    def __delitem__(self, item: Any) -> None:
        self._store.remove(self._scope.key, item)

    def clear(self) -> None:
        """Forget the key's entries."""
        self._store.clear(self._scope.key)

    def _load_all(self) -> dict[Any, Any]:
        """Return all entries, and mark them as changed if their values may be changed in place."""
        key = self._scope.key
        found = self._read(key, _NOTHING)
        if found and not self._fixed:
            self._changed[key].update(found)
        return found

    def __len__(self) -> int:
        return len(self._read(self._scope.key, _NOTHING))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> tuple[Any, ...]:
        return tuple(self._read(self._scope.key, _NOTHING))

    def values(self) -> tuple[Any, ...]:
        return tuple(self._load_all().values())

    def items(self) -> tuple[tuple[Any, Any], ...]:
        return tuple(self._load_all().items())

    def __repr__(self) -> str:
        return f"MapState({self._read(self._scope.key, _NOTHING)!r})"


class InMemoryMapHandle(MapHandle):
    """The handle of maps that are completely in memory: a missing entry does not exist."""

    __slots__ = ()

    def __getitem__(self, item: Any) -> Any:
        key = self._scope.key
        found = self._values.get(key, _NOTHING)[item]
        if not self._fixed:
            self._changed[key].add(item)
        return found

    def get(self, item: Any, default: Any = None) -> Any:
        key = self._scope.key
        if self._fixed:
            return self._values.get(key, _NOTHING).get(item, default)
        found = self._values.get(key, _NOTHING).get(item, MISSING)
        if found is MISSING:
            return default
        self._changed[key].add(item)
        return found

    def __contains__(self, item: Any) -> bool:
        return item in self._values.get(self._scope.key, ())


def map_store(
    declared: MapState[Any, Any], stores: KeyedStateBackend, expiry: Expiry | None
) -> MapStore:
    """Return the store of a declaration, whose size is limited."""
    store = stores.maps(declared.name, declared.key_type, declared.value_type, expiry)
    stores.watch(store, stores.scope.limit(KeyContents.ENTRIES))
    return store


class MapKind(DeclaredKind[MapState[Any, Any]]):
    holds = StatePurpose.MAP

    def types(self, declared: MapState[Any, Any]) -> tuple[Any, ...]:
        return (declared.key_type, declared.value_type)

    def handle(
        self, declared: MapState[Any, Any], stores: KeyedStateBackend, expiry: Expiry | None
    ) -> MapHandle | ExpiringMapHandle:
        scope, store = stores.scope, map_store(declared, stores, expiry)
        if expiry is not None:
            return ExpiringMapHandle(store, scope, expiry)
        return (InMemoryMapHandle if store.in_memory else MapHandle)(store, scope)
