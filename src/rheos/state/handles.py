"""What stands for declared state inside a running function: handles onto the tables of the current key.

They are on the path of every record, and so as short as can be. There is no check whether there is a
key: the key that stands for none cannot be looked up (`backend.NoKey`). A mutable value that is read is
taken for changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from rheos.state.backend import KeyScope
from rheos.state.tables import ListTable, MapTable, ValueTable

_MISSING = object()


class ValueHandle:
    """A ValueState of an immutable type."""

    __slots__ = ("_cls", "_codec", "_default", "_dirty", "_scope", "_values")

    def __init__(self, table: ValueTable, scope: KeyScope, default: Any) -> None:
        self._codec = table.codec
        self._cls = table.codec.cls
        self._values = table.values
        self._dirty = table.dirty
        self._scope = scope
        self._default = default

    @property
    def value(self) -> Any:
        return self._values.get(self._scope.key, self._default)

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
        if key in self._values:
            del self._values[key]
            self._dirty.add(key)


class MutableValueHandle(ValueHandle):
    """A ValueState that may be changed in place: the default is copied, a read marks it dirty."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        key = self._scope.key
        found = self._values.get(key, _MISSING)
        if found is _MISSING:
            if self._default is None:
                return None
            found = self._values[key] = copy.deepcopy(self._default)
        self._dirty.add(key)
        return found

    @value.setter
    def value(self, value: Any) -> None:
        ValueHandle.value.__set__(self, value)  # type: ignore[attr-defined]


class ListHandle:
    """A ListState."""

    __slots__ = ("_appended", "_element", "_fixed", "_rewritten", "_scope", "_values")

    def __init__(self, table: ListTable, scope: KeyScope) -> None:
        self._values = table.values
        self._appended = table.appended
        self._rewritten = table.rewritten
        self._element = table.element
        self._fixed = table.element.immutable
        self._scope = scope

    def append(self, value: Any) -> None:
        if value.__class__ is not self._element.cls:
            value = self._element.fit(value)
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            self._values[key] = [value]
        else:
            found.append(value)
        self._appended.add(key)

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """The list is now `values`; none clears it."""
        fit = self._element.fit
        new = [fit(value) for value in values]
        if not new:
            self.clear()
            return
        key = self._scope.key
        self._values[key] = new
        self._rewritten.add(key)

    def clear(self) -> None:
        """Forgets the key's list: it is empty again."""
        key = self._scope.key
        if key in self._values:
            del self._values[key]
            self._appended.discard(key)
            self._rewritten.add(key)

    def __iter__(self) -> Iterator[Any]:
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            return iter(())
        if not self._fixed:
            self._rewritten.add(key)
        return iter(tuple(found))

    def __len__(self) -> int:
        return len(self._values.get(self._scope.key, ()))

    def __repr__(self) -> str:
        return f"ListState({self._values.get(self._scope.key, [])!r})"


class MapHandle:
    """A MapState."""

    __slots__ = ("_dirty", "_fixed", "_item", "_scope", "_value", "_values")

    def __init__(self, table: MapTable, scope: KeyScope) -> None:
        self._values = table.values
        self._dirty = table.dirty
        self._item = table.item
        self._value = table.value
        self._fixed = table.value.immutable
        self._scope = scope

    def _touch(self, key: Any, item: Any) -> None:
        changed = self._dirty.get(key)
        if changed is None:
            self._dirty[key] = {item}
        else:
            changed.add(item)

    def _all(self) -> dict[Any, Any]:
        """The key's entries, whose values will be read."""
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            return {}
        if not self._fixed:
            self._dirty.setdefault(key, set()).update(found)
        return found

    def __getitem__(self, item: Any) -> Any:
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            raise KeyError(item)
        value = found[item]
        if not self._fixed:
            self._touch(key, item)
        return value

    def get(self, item: Any, default: Any = None) -> Any:
        key = self._scope.key
        found = self._values.get(key)
        if found is None or item not in found:
            return default
        if not self._fixed:
            self._touch(key, item)
        return found[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        if item.__class__ is not self._item.cls:
            item = self._item.fit(item)
        if value.__class__ is not self._value.cls:
            value = self._value.fit(value)
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            self._values[key] = {item: value}
        else:
            found[item] = value
        self._touch(key, item)

    def __delitem__(self, item: Any) -> None:
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            raise KeyError(item)
        del found[item]
        self._touch(key, item)
        if not found:
            del self._values[key]

    def clear(self) -> None:
        """Forgets the key's entries."""
        key = self._scope.key
        if key in self._values:
            self._dirty.setdefault(key, set()).update(self._values.pop(key))

    def __contains__(self, item: Any) -> bool:
        return item in self._values.get(self._scope.key, ())

    def __len__(self) -> int:
        return len(self._values.get(self._scope.key, ()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> tuple[Any, ...]:
        return tuple(self._values.get(self._scope.key, ()))

    def values(self) -> tuple[Any, ...]:
        return tuple(self._all().values())

    def items(self) -> tuple[tuple[Any, Any], ...]:
        return tuple(self._all().items())

    def __repr__(self) -> str:
        return f"MapState({self._values.get(self._scope.key, {})!r})"
