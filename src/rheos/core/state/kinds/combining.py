"""State that values are added to: what is kept is one value per key, with all that was added in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class KeptValue(Protocol):
    """The handle of a value without a default, which may expire. None means that there is no value."""

    value: Any

    def clear(self) -> None: ...


class CombiningHandle:
    """`add(value)`, `value`, `clear()`."""

    __slots__ = ("_cell", "_combine", "_first", "_shown")

    def __init__(
        self,
        cell: KeptValue,
        first: Callable[[Any], Any],
        combine: Callable[[Any, Any], Any],
        shown: Callable[[Any], Any],
    ) -> None:
        """`first` makes what is kept of the first value, `combine` that of what is kept and another
        one, and `shown` what is read of it."""
        self._cell = cell
        self._first = first
        self._combine = combine
        self._shown = shown

    def add(self, value: Any) -> None:
        cell = self._cell
        kept = cell.value
        cell.value = self._first(value) if kept is None else self._combine(kept, value)

    @property
    def value(self) -> Any:
        """None where nothing was added."""
        kept = self._cell.value
        return None if kept is None else self._shown(kept)

    def clear(self) -> None:
        """Forgets what was added for the key."""
        self._cell.clear()

    def __repr__(self) -> str:
        return f"{self.value!r}"
