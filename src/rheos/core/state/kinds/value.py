"""ValueState: one value per key.

Every record uses the handle, so it is as short as possible. It does not check whether a key exists: the
placeholder for a missing key cannot be looked up (`scope.NoKey`). A mutable value that was read is
treated as changed.
"""

from __future__ import annotations

from typing import Any

from rheos.core.errors import SchemaError, StateAccessError
from rheos.core.graph.state import ValueState
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.safe_strings import shown as value_text
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.codec import ValueCodec, shown
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.copies import copier
from rheos.core.state.kinds.expiring import ExpiringValueHandle
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ABSENT, MISSING, ValueStore


class ValueHandle:
    """The handle of a value of an immutable type."""

    __slots__ = ("_cls", "_codec", "_default", "_dirty", "_fetch", "_remove", "_scope", "_values")

    def __init__(self, store: ValueStore, scope: KeyScope, default: Any) -> None:
        self._codec = store.codec
        self._cls = store.codec.cls
        self._values = store.values
        self._dirty = store.dirty
        self._fetch = store.fetch
        self._remove = store.remove
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
                self._remove(self._scope.key)
                return
            value = self._codec.fit(value)
        key = self._scope.key
        self._values[key] = value
        self._dirty.add(key)

    def clear(self) -> None:
        """Forget the key's value: reading it returns the default again."""
        self._remove(self._scope.key)

    def __repr__(self) -> str:
        return f"ValueState({self.value!r})"


class InMemoryValueHandle(ValueHandle):
    """The handle of values that are completely in memory: each record needs just one lookup."""

    __slots__ = ()

    @ValueHandle.value.getter  # type: ignore[attr-defined,untyped-decorator]
    def value(self) -> Any:
        return self._values.get(self._scope.key, self._default)


class MutableValueHandle(ValueHandle):
    """The handle of a mutable value. The default is copied, and a read marks the value as changed."""

    __slots__ = ("_copy",)

    def __init__(self, store: ValueStore, scope: KeyScope, default: Any) -> None:
        super().__init__(store, scope, default)
        self._copy = copier(default)

    @ValueHandle.value.getter  # type: ignore[attr-defined,untyped-decorator]
    def value(self) -> Any:
        key = self._scope.key
        found = self._values.get(key, MISSING)
        if found is MISSING:
            found = self._fetch(key)
        if found is ABSENT:
            if self._default is None:
                return None
            found = self._values[key] = self._copy()
        self._dirty.add(key)
        return found


def value_handle(
    declared: Any, stores: KeyedStateBackend, expiry: Expiry | None, default: Any = None
) -> ValueHandle | ExpiringValueHandle:
    """Return the handle of a value per key, of the declared type. Raise SchemaError if it is
    invalid."""
    store = stores.values(declared.name, declared.type, expiry)
    if expiry is not None:
        return ExpiringValueHandle(store, stores.scope, expiry, default)
    make: type[ValueHandle] = MutableValueHandle
    if store.codec.immutable:
        make = InMemoryValueHandle if store.in_memory else ValueHandle
    return make(store, stores.scope, default)


def check_default(declared: ValueState[Any]) -> None:
    """Check that the default of a declaration is a value that could be assigned to it.

    Raises:
        SchemaError: It is not of the declared type.
    """
    if declared.default is None:
        return
    codec = ValueCodec(declared.name, declared.type)
    try:
        codec.encode([codec.fit(declared.default)], [()])
    except StateAccessError:
        raise SchemaError(
            f"state {declared.name!r} is declared as {shown(declared.type)}, but its default is "
            f"{type(declared.default).__name__} {value_text(declared.default)}",
            site=declared.site,
            hint="pass a default of the declared type, or leave it out",
        ) from None


class ValueKind(DeclaredKind[ValueState[Any]]):
    holds = StatePurpose.VALUE

    def types(self, declared: ValueState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: ValueState[Any], stores: KeyedStateBackend, expiry: Expiry | None
    ) -> ValueHandle | ExpiringValueHandle:
        return value_handle(declared, stores, expiry, declared.default)
