"""Value, list and map state with a time to live.

The stores contain pairs of stamp and value (`state/expiry.py`). A handle removes a value that has
expired at the time of the call, and does not return it. So if one call of a key has found a value
expired, no later call sees it, even one at an earlier event time.

A value that is changed in place keeps its stamp. To renew the stamp, assign the value again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.copies import copier
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ABSENT, MISSING, ListStore, MapStore, ValueStore

_NO_ITEMS: list[Any] = []
_NO_ENTRIES: dict[Any, Any] = {}


class ExpiringValueHandle:
    __slots__ = ("_codec", "_copy", "_default", "_expiry", "_fixed", "_now", "_scope", "_store", "_ttl")

    def __init__(self, store: ValueStore, scope: KeyScope, expiry: Expiry, default: Any) -> None:
        self._store = store
        self._codec = store.codec
        self._fixed = store.codec.immutable
        self._scope = scope
        self._expiry = expiry
        self._now = expiry.now_ms
        self._ttl = expiry.ttl_ms
        self._default = default
        self._copy = copier(default)

    @property
    def value(self) -> Any:
        key, store = self._scope.key, self._store
        pair = store.values.get(key, MISSING)
        if pair is MISSING:
            pair = store.fetch(key)
        now_ms = self._now()
        if pair is not ABSENT and pair[0] + self._ttl <= now_ms:
            store.remove(key)
            pair = ABSENT
        if pair is ABSENT:
            if self._fixed or self._default is None:
                return self._default
            pair = store.values[key] = (now_ms, self._copy())
        elif self._expiry.renews_on_read and pair[0] < now_ms:
            pair = store.values[key] = (now_ms, pair[1])
        elif self._fixed:
            return pair[1]
        store.dirty.add(key)
        return pair[1]

    @value.setter
    def value(self, value: Any) -> None:
        key, store = self._scope.key, self._store
        if value.__class__ is not self._codec.cls:
            if value is None and self._default is None:
                store.remove(key)
                return
            value = self._codec.fit(value)
        store.values[key] = (self._now(), value)
        store.dirty.add(key)

    def clear(self) -> None:
        """Forget the key's value: reading it returns the default again."""
        self._store.remove(self._scope.key)

    def __repr__(self) -> str:
        return f"ValueState({self.value!r})"


class ExpiringListHandle:
    """Handle of a list in which each element has its own stamp."""

    __slots__ = ("_expiry", "_fit", "_fixed", "_scope", "_store")

    def __init__(self, store: ListStore, scope: KeyScope, expiry: Expiry) -> None:
        self._store = store
        self._fit = store.element.fit
        self._fixed = store.element.immutable
        self._scope = scope
        self._expiry = expiry

    def append(self, value: Any) -> None:
        key, store = self._scope.key, self._store
        pair = (self._expiry.now_ms(), self._fit(value))
        found = store.values.get(key)
        if found is None:
            found = store.enter(key)
        found.append(pair)
        store.appended.add(key)

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """Replace the list by `values`; an empty iterable clears it."""
        now_ms, fit = self._expiry.now_ms(), self._fit
        self._store.replace(self._scope.key, [(now_ms, fit(value)) for value in values])

    def clear(self) -> None:
        """Forget the key's list, which is then empty."""
        self._store.replace(self._scope.key, [])

    def _living(self, *, used: bool) -> list[Any]:
        """Return the pairs that have not expired. If `used`, the caller may change their values."""
        key, store, expiry = self._scope.key, self._store, self._expiry
        found = store.read(key, _NO_ITEMS)
        if not found:
            return _NO_ITEMS
        now_ms = expiry.now_ms()
        living = [pair for pair in found if pair[0] + expiry.ttl_ms > now_ms]
        renewed = expiry.renews_on_read and any(stamp < now_ms for stamp, _ in living)
        if renewed:
            living = [(max(stamp, now_ms), value) for stamp, value in living]
        if renewed or len(living) < len(found):
            store.replace(key, living.copy())
        elif used and not self._fixed:
            store.note_change(key)
        return living

    def __iter__(self) -> Iterator[Any]:
        return iter([value for _, value in self._living(used=True)])

    def __len__(self) -> int:
        return len(self._living(used=False))

    def __repr__(self) -> str:
        return f"ListState({list(self)!r})"


class ExpiringMapHandle:
    """Handle of a map in which each entry has its own stamp."""

    __slots__ = ("_expiry", "_fit_item", "_fit_value", "_fixed", "_scope", "_store")

    def __init__(self, store: MapStore, scope: KeyScope, expiry: Expiry) -> None:
        self._store = store
        self._fit_item = store.item.fit
        self._fit_value = store.value.fit
        self._fixed = store.value.immutable
        self._scope = scope
        self._expiry = expiry

    def _look(self, item: Any) -> Any:
        """Return the value of an item, or ABSENT. The caller may change it in place."""
        key, store, expiry = self._scope.key, self._store, self._expiry
        pair = store.values.get(key, _NO_ENTRIES).get(item, MISSING)
        if pair is MISSING:
            pair = store.fetch(key, item)
        if pair is ABSENT:
            return ABSENT
        now_ms = expiry.now_ms()
        if pair[0] + expiry.ttl_ms <= now_ms:
            store.remove(key, item)
            return ABSENT
        if expiry.renews_on_read and pair[0] < now_ms:
            store.values[key][item] = (now_ms, pair[1])
        elif self._fixed:
            return pair[1]
        store.changed[key].add(item)
        return pair[1]

    def __getitem__(self, item: Any) -> Any:
        value = self._look(item)
        if value is ABSENT:
            raise KeyError(item)
        return value

    def get(self, item: Any, default: Any = None) -> Any:
        value = self._look(item)
        return default if value is ABSENT else value

    def __contains__(self, item: Any) -> bool:
        return self._look(item) is not ABSENT

    def __setitem__(self, item: Any, value: Any) -> None:
        key, store = self._scope.key, self._store
        item, pair = self._fit_item(item), (self._expiry.now_ms(), self._fit_value(value))
        found = store.values.get(key)
        if found is None:
            found = store.enter(key)
        found[item] = pair
        store.changed[key].add(item)

    def __delitem__(self, item: Any) -> None:
        self[item]
        self._store.remove(self._scope.key, item)

    def clear(self) -> None:
        """Forget the key's entries."""
        self._store.clear(self._scope.key)

    def _living(self) -> dict[Any, Any]:
        """Return the entries that have not expired. The caller may change their values in place."""
        items = list(self._store.read(self._scope.key, _NO_ENTRIES))
        found = {item: self._look(item) for item in items}
        return {item: value for item, value in found.items() if value is not ABSENT}

    def __len__(self) -> int:
        return len(self._living())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> tuple[Any, ...]:
        return tuple(self._living())

    def values(self) -> tuple[Any, ...]:
        return tuple(self._living().values())

    def items(self) -> tuple[tuple[Any, Any], ...]:
        return tuple(self._living().items())

    def __repr__(self) -> str:
        return f"MapState({self._living()!r})"
