"""ListState: a list per key. Appending does not read the list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rheos.core.graph.state import ListState
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.kinds.expiring import ExpiringListHandle
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ListStore

_NOTHING: list[Any] = []


class ListHandle:
    """Handle of a list. If elements may be changed in place, reading them marks the list as changed."""

    __slots__ = ("_appended", "_cls", "_fit", "_fixed", "_read", "_scope", "_store", "_values")

    def __init__(self, store: ListStore, scope: KeyScope) -> None:
        self._store = store
        self._values = store.values
        self._appended = store.appended
        self._read = store.read
        self._cls = store.element.cls
        self._fit = store.element.fit
        self._fixed = store.element.immutable
        self._scope = scope

    def append(self, value: Any) -> None:
        if value.__class__ is not self._cls:
            value = self._fit(value)
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            found = self._store.enter(key)
        found.append(value)
        self._appended.add(key)

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """Replace the list by `values`; an empty iterable clears it."""
        fit = self._fit
        self._store.replace(self._scope.key, [fit(value) for value in values])

    def clear(self) -> None:
        """Forget the key's list, which is then empty."""
        self._store.replace(self._scope.key, [])

    def __iter__(self) -> Iterator[Any]:
        key = self._scope.key
        found = self._read(key, _NOTHING)
        if found and not self._fixed:
            self._store.note_change(key)
        return iter(found.copy())

    def __len__(self) -> int:
        return len(self._read(self._scope.key, _NOTHING))

    def __repr__(self) -> str:
        return f"ListState({self._read(self._scope.key, _NOTHING)!r})"


def list_store(
    declared: ListState[Any], stores: KeyedStateBackend, expiry: Expiry | None = None
) -> ListStore:
    """Return the store of a declaration, whose size is limited."""
    store = stores.lists(declared.name, declared.type, expiry)
    stores.watch(store, stores.scope.limit(KeyContents.ELEMENTS))
    return store


class ListKind(DeclaredKind[ListState[Any]]):
    holds = StatePurpose.LIST

    def types(self, declared: ListState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: ListState[Any], stores: KeyedStateBackend, expiry: Expiry | None
    ) -> ListHandle | ExpiringListHandle:
        scope, store = stores.scope, list_store(declared, stores, expiry)
        return ListHandle(store, scope) if expiry is None else ExpiringListHandle(store, scope, expiry)
