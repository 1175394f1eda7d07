"""The contracts of the stores of declared state: values, lists and maps by key. There are no other
forms.

Handles (`state/kinds/`) are written once, over these contracts, and are on the path of every record. So
a store exposes its data in memory and the set of changed keys, and handles call it only for other data.
These collections stay the same objects for the life of the store.

A key without a value, and an item that is not in a map, have the value `ABSENT`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Protocol

from rheos.core.state.codec import ValueCodec
from rheos.core.state.keys import Key

ABSENT: Any = object()
"""Placeholder for the value of a key without one. Only a store with data on disk has it among its
values: it means that the disk has no value, either."""

MISSING: Any = object()
"""Nothing is known in memory: what a look into `values` gives that finds nothing."""


class ValueStore(Protocol):
    """One value per key."""

    codec: ValueCodec
    in_memory: bool
    """Whether what is not in `values` is nowhere: there is no need to `fetch`."""

    @property
    def values(self) -> dict[Key, Any]:
        """Values in memory. The dict may be read and written until the backend's next `prepare`."""
        ...

    @property
    def dirty(self) -> set[Key]:
        """The keys whose values have changed, which is for who changes them to add."""
        ...

    def fetch(self, key: Key) -> Any:
        """Return the value of a key that is not in `values`, or ABSENT, and add it there."""
        ...

    def remove(self, key: Key) -> None:
        """The key has no value, whether it had one or not."""
        ...


class ListStore(Protocol):
    """A list per key."""

    element: ValueCodec

    @property
    def values(self) -> dict[Key, list[Any]]:
        """Lists in memory. Each is the whole list, or its end, to which elements may be appended."""
        ...

    @property
    def appended(self) -> set[Key]:
        """The keys whose lists were appended to, which is for who appends to add."""
        ...

    def note_change(self, key: Key, /) -> object:
        """Elements of the list, which was read, may be changed in place."""
        ...

    def enter(self, key: Key) -> list[Any]:
        """The list, or its end, of a key that is not in `values`; it is there now."""
        ...

    def read(self, key: Key, nothing: list[Any], /) -> list[Any]:
        """The whole list, or `nothing` where it is empty. It may not be changed."""
        ...

    def replace(self, key: Key, items: list[Any]) -> None:
        """The list is now `items`, which are the store's from here on; none clears it."""
        ...


class MapStore(Protocol):
    """A dict per key. An entry is read and written by itself."""

    item: ValueCodec
    """Codec of the keys inside the map."""
    value: ValueCodec
    in_memory: bool
    """Whether what is not in `values` is nowhere: there is no need to `fetch`."""

    @property
    def values(self) -> dict[Key, dict[Any, Any]]:
        """The part of each map that is in memory. Items may be put, and must be added to `changed`."""
        ...

    @property
    def changed(self) -> defaultdict[Key, set[Any]]:
        """By key, the items that have changed or may be changed in place, which is for who puts or
        reads them to add. They are in `values`."""
        ...

    def enter(self, key: Key) -> dict[Any, Any]:
        """Return the known part of the map of a key that is not in `values`, and add it there."""
        ...

    def fetch(self, key: Key, item: Any) -> Any:
        """The value of an item that is not in what is known of the map, or ABSENT. It is in it now."""
        ...

    def read(self, key: Key, nothing: dict[Any, Any], /) -> dict[Any, Any]:
        """The whole map, or `nothing` where it is empty. It may not be changed."""
        ...

    def remove(self, key: Key, item: Any) -> None:
        """Raises KeyError where the map has no such item."""
        ...

    def clear(self, key: Key) -> None:
        """The map is empty."""
        ...
