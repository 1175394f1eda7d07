"""The contracts of the stores of declared state: values, lists and maps by key. No other forms exist.

Handles (`state/kinds/`) are written once, for these contracts, and every record uses them. So a store
exposes its data in memory and the set of changed keys, and handles call methods only for other data.
The exposed collections remain the same objects for the life of the store.

A key without a value, and an item that is not in a map, have the value `ABSENT`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Protocol

from rheos.core.state.codec import ValueCodec
from rheos.core.state.keys import Key

ABSENT: Any = object()
"""Placeholder for the value of a key without one. Only stores with data on disk have it among their
values: it means that the disk has no value, either."""

MISSING: Any = object()
"""Result of a look-up in `values` that finds nothing: memory does not show whether a value exists."""


class ValueStore(Protocol):
    """Store of one value per key."""

    codec: ValueCodec
    in_memory: bool
    """Whether all existing values are in `values`, so that no `fetch` is needed."""

    @property
    def values(self) -> dict[Key, Any]:
        """Values in memory. The dict may be read and written until the backend's next `prepare`."""
        ...

    @property
    def dirty(self) -> set[Key]:
        """Return the keys with changed values. The code that changes a value must add its key."""
        ...

    def fetch(self, key: Key) -> Any:
        """Return the value of a key that is not in `values`, or ABSENT, and add it there."""
        ...

    def remove(self, key: Key) -> None:
        """Remove the key's value, if it has one."""
        ...


class ListStore(Protocol):
    """Store of a list per key."""

    element: ValueCodec

    @property
    def values(self) -> dict[Key, list[Any]]:
        """Lists in memory. Each is the whole list, or its end, to which elements may be appended."""
        ...

    @property
    def appended(self) -> set[Key]:
        """Return the keys whose lists were appended to. The code that appends must add the key."""
        ...

    def note_change(self, key: Key, /) -> object:
        """Note that elements of the list, which was read, may be changed in place."""
        ...

    def enter(self, key: Key) -> list[Any]:
        """Return the list, or its end, of a key that is not in `values`, and add it there."""
        ...

    def read(self, key: Key, nothing: list[Any], /) -> list[Any]:
        """Return the whole list, or `nothing` if it is empty. The caller must not change it."""
        ...

    def replace(self, key: Key, items: list[Any]) -> None:
        """Replace the list by `items`, which then belong to the store. An empty list clears it."""
        ...


class MapStore(Protocol):
    """Store of a dict per key, whose entries are read and written one by one."""

    item: ValueCodec
    """Codec of the keys inside the map."""
    value: ValueCodec
    in_memory: bool
    """Whether all existing entries are in `values`, so that no `fetch` is needed."""

    @property
    def values(self) -> dict[Key, dict[Any, Any]]:
        """Return the part of each map in memory. Code that puts an item must add it to `changed`."""
        ...

    @property
    def changed(self) -> defaultdict[Key, set[Any]]:
        """Return, by key, the items that have changed or may be changed in place. The code that puts or
        reads an item must add it. All of them are in `values`."""
        ...

    def enter(self, key: Key) -> dict[Any, Any]:
        """Return the known part of the map of a key that is not in `values`, and add it there."""
        ...

    def fetch(self, key: Key, item: Any) -> Any:
        """Return the value of an item that memory does not have, or ABSENT, and add it there."""
        ...

    def read(self, key: Key, nothing: dict[Any, Any], /) -> dict[Any, Any]:
        """Return the whole map, or `nothing` if it is empty. The caller must not change it."""
        ...

    def remove(self, key: Key, item: Any) -> None:
        """Remove an item. Raise KeyError if the map has no such item."""
        ...

    def clear(self, key: Key) -> None:
        """Remove all items."""
        ...
