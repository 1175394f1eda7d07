"""What stands for declared state inside a running function: handles onto the tables of the current key.

They are on the path of every record, and so as short as can be: a dict, the scope, the dirty keys.
A mutable value that is read is taken for changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from rheos.state.backend import KeyScope

Values = dict[Any, Any]
Dirty = set[Any]


class _Handle:
    __slots__ = ("_dirty", "_scope", "_values")

    def __init__(self, values: Values, dirty: Dirty, scope: KeyScope) -> None:
        self._values = values
        self._dirty = dirty
        self._scope = scope

    def clear(self) -> None:
        """Forgets what the key has."""
        key = self._scope.key
        if self._values.pop(key, self) is not self:
            self._dirty.add(key)


class ValueHandle(_Handle):
    """A ValueState of an immutable type."""

    __slots__ = ("_default",)

    def __init__(self, values: Values, dirty: Dirty, scope: KeyScope, default: Any) -> None:
        super().__init__(values, dirty, scope)
        self._default = default

    @property
    def value(self) -> Any:
        return self._values.get(self._scope.key, self._default)

    @value.setter
    def value(self, value: Any) -> None:
        key = self._scope.key
        self._values[key] = value
        self._dirty.add(key)


class MutableValueHandle(ValueHandle):
    """A ValueState that may be changed in place: the default is copied, a read marks it dirty."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        key = self._scope.key
        values = self._values
        if key not in values:
            if self._default is None:
                return None
            values[key] = copy.deepcopy(self._default)
        self._dirty.add(key)
        return values[key]

    @value.setter
    def value(self, value: Any) -> None:
        key = self._scope.key
        self._values[key] = value
        self._dirty.add(key)


class ListHandle(_Handle):
    """A ListState."""

    __slots__ = ()

    def append(self, value: Any) -> None:
        key = self._scope.key
        self._dirty.add(key)
        if key in self._values:
            self._values[key].append(value)
        else:
            self._values[key] = [value]

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """The list is now `values`; none clears it."""
        new = list(values)
        if not new:
            self.clear()
            return
        key = self._scope.key
        self._values[key] = new
        self._dirty.add(key)

    def __iter__(self) -> Iterator[Any]:
        # Elements may be mutable: who reads them may change them.
        key = self._scope.key
        values = self._values.get(key)
        if values is None:
            return iter(())
        self._dirty.add(key)
        return iter(tuple(values))

    def __len__(self) -> int:
        return len(self._values.get(self._scope.key, ()))


class MapHandle(_Handle):
    """A MapState."""

    __slots__ = ()

    def _read(self) -> dict[Any, Any]:
        """The key's own map; or a new one, which is not kept."""
        key = self._scope.key
        found = self._values.get(key)
        if found is None:
            return {}
        self._dirty.add(key)
        return found  # type: ignore[no-any-return]

    def __getitem__(self, item: Any) -> Any:
        return self._read()[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        key = self._scope.key
        self._dirty.add(key)
        self._values.setdefault(key, {})[item] = value

    def __delitem__(self, item: Any) -> None:
        found = self._read()
        del found[item]
        if not found:
            self.clear()

    def __contains__(self, item: Any) -> bool:
        return item in self._values.get(self._scope.key, ())

    def __len__(self) -> int:
        return len(self._values.get(self._scope.key, ()))

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._read()))

    def get(self, item: Any, default: Any = None) -> Any:
        return self._read().get(item, default)

    def keys(self) -> Iterable[Any]:
        return tuple(self._read())

    def values(self) -> Iterable[Any]:
        return tuple(self._read().values())

    def items(self) -> Iterable[tuple[Any, Any]]:
        return tuple(self._read().items())
