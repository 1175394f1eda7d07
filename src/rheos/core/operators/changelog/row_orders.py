"""The rows of keys in the order of a column, kept next to the state that stores them.

A change of one of n rows costs two searches, O(log n), and no sort. The orders are not state: that of a
key is sorted from its stored rows when it is missing. The number of rows in all orders is bounded, and
the orders that are unused for the longest time are forgotten first.

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
from operator import itemgetter
from typing import Any, TypeAlias

from rheos.core.state.keys import Key

MOST_ORDERED_ROWS = 1 << 17
"""Maximum number of rows in all orders of an operator, unless a single key has more."""

Row: TypeAlias = Sequence[Any]
_Entry: TypeAlias = tuple[Any, str, Row]
"""The sort key of a row, its item in state, and the row."""

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


class RowOrders:
    """The orders of the rows of several keys."""

    def __init__(
        self, place: Callable[[Row], Any], tie: Callable[[Row], Any], *, smallest: bool
    ) -> None:
        """Create orders by `place`, ascending if `smallest`; rows with equal places by `tie`."""
        self._place, self._tie, self._smallest = place, tie, smallest
        self._orders: OrderedDict[Key, list[_Entry]] = OrderedDict()
        self._size = 0

    def first(self, n: int, key: Key, stored: Mapping[str, Row]) -> list[Row]:
        """Return the first rows of a key.

        Args:
            n: The number of rows.
            key: The key.
            stored: Its rows in state, by item, of which the order is made if it is missing.
        """
        entries = self._orders.get(key)
        if entries is None:
            entries = [(self._sort_key(row), item, row) for item, row in stored.items()]
            entries.sort(key=_by_sort_key)
            self._orders[key] = entries
            self._grow(len(entries))
        else:
            self._orders.move_to_end(key)
        return [row for _, _, row in entries[:n]]

    def change(self, key: Key, item: str, before: Row | None, after: Row | None) -> None:
        """Replace, add or remove a row of the key that `first` was called with before."""
        entries = self._orders[key]
        if before is not None:
            place = bisect_left(entries, self._sort_key(before), key=_by_sort_key)
            while entries[place][1] != item:  # Another row with the same sort key.
                place += 1
            del entries[place]
            self._size -= 1
        if after is not None:
            sort_key = self._sort_key(after)
            place = bisect_right(entries, sort_key, key=_by_sort_key)
            entries.insert(place, (sort_key, item, after))
            self._grow(1)

    def clear(self) -> None:
        """Forget all orders, because the state is another one."""
        self._orders.clear()
        self._size = 0

    def _sort_key(self, row: Row) -> Any:
        place = self._place(row)
        return place if self._smallest else _Descending(place), self._tie(row)

    def _grow(self, by: int) -> None:
        self._size += by
        while self._size > MOST_ORDERED_ROWS and len(self._orders) > 1:
            _, forgotten = self._orders.popitem(last=False)
            self._size -= len(forgotten)
