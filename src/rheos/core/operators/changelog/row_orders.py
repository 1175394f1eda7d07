"""The rows of keys in the order of a column, kept next to the state that stores them.

A change of one of n rows costs two searches, O(log n), and no sort. The orders are not state: that of a
key is sorted from its stored rows when it is missing. The number of rows in all orders is bounded, and
the orders that are unused for the longest time are forgotten first. A row may be any object that the
functions of the order can read, such as a row with the results computed for it.

```python
orders = RowOrders(place=lambda row: row[1], tie=lambda row: row[0], smallest=False)
assert orders.first(1, (7,), {"a": ("ada", 3), "b": ("bo", 5)}) == [("bo", 5)]
orders.change((7,), "b", ("bo", 5), ("bo", 2))
assert orders.first(1, (7,), {}) == [("ada", 3)]
```
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from rheos.core.state.keys import Key

MOST_ORDERED_ROWS = 1 << 17
"""Maximum number of rows in all orders of an operator, unless a single key has more."""

T = TypeVar("T")


class OrderedEntry(NamedTuple, Generic[T]):
    """A row in an order."""

    sort_key: Any
    item: str
    """Key of the row in state."""
    row: T


@dataclass(frozen=True, slots=True)
class OrderChange(Generic[T]):
    """A change of an order. Indices are those after the change."""

    removed: T | None
    """The row that was removed."""
    gap: int | None
    """Index of the row that followed the removed one."""
    added: int | None
    """Index of the added row."""


_by_sort_key = itemgetter(0)


class _Descending:
    """A value that sorts in descending order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


class RowOrders(Generic[T]):
    """The orders of the rows of several keys."""

    def __init__(self, place: Callable[[T], Any], tie: Callable[[T], Any], *, smallest: bool) -> None:
        """Create orders by `place`, ascending if `smallest`; rows with equal places by `tie`."""
        self._place, self._tie, self._smallest = place, tie, smallest
        self._orders: OrderedDict[Key, list[OrderedEntry[T]]] = OrderedDict()
        self._size = 0

    def first(self, n: int, key: Key, stored: Mapping[str, T], *, with_ties: bool = False) -> list[T]:
        """Return the first rows of a key.

        Args:
            n: The number of rows. With ties, the rows that the order places equal to the last of them
                are returned, too.
            key: The key.
            stored: Its rows in state, by item, of which the order is made if it is missing.
        """
        entries = self.known(key)
        if entries is None:
            entries = self.add(key, stored)
        if with_ties and len(entries) > n:
            last = entries[n - 1].sort_key[0]
            n = next(
                (at for at in range(n, len(entries)) if entries[at].sort_key[0] != last), len(entries)
            )
        return [entry.row for entry in entries[:n]]

    def known(self, key: Key) -> Sequence[OrderedEntry[T]] | None:
        """Return the rows of a key in order; None if its order is missing. `change` changes them."""
        entries = self._orders.get(key)
        if entries is not None:
            self._orders.move_to_end(key)
        return entries

    def add(self, key: Key, stored: Mapping[str, T]) -> Sequence[OrderedEntry[T]]:
        """Make the order of a key that is missing, and return its rows as `known` does."""
        entries = [OrderedEntry(self._sort_key(row), item, row) for item, row in stored.items()]
        entries.sort(key=_by_sort_key)
        self._orders[key] = entries
        self._grow(len(entries))
        return entries

    def change(self, key: Key, item: str, before: T | None, after: T | None) -> OrderChange[T]:
        """Replace, add or remove a row of a key whose order exists. `before` sorts as the row does that
        is in the order."""
        entries = self._orders[key]
        removed, gap, added = None, None, None
        if before is not None:
            gap = bisect_left(entries, self._sort_key(before), key=_by_sort_key)
            while entries[gap].item != item:  # Another row with the same sort key.
                gap += 1
            removed = entries.pop(gap).row
            self._size -= 1
        if after is not None:
            sort_key = self._sort_key(after)
            added = bisect_right(entries, sort_key, key=_by_sort_key)
            entries.insert(added, OrderedEntry(sort_key, item, after))
            self._grow(1)
            if gap is not None and added <= gap:
                gap += 1
        return OrderChange(removed, gap, added)

    def clear(self) -> None:
        """Forget all orders, because the state is another one."""
        self._orders.clear()
        self._size = 0

    def _sort_key(self, row: T) -> Any:
        place = self._place(row)
        return place if self._smallest else _Descending(place), self._tie(row)

    def _grow(self, by: int) -> None:
        self._size += by
        while self._size > MOST_ORDERED_ROWS and len(self._orders) > 1:
            _, forgotten = self._orders.popitem(last=False)
            self._size -= len(forgotten)
