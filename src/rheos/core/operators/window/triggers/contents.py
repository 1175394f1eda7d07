"""Contents of a window of a key: its records, or their accumulator.

All methods apply to the key and window to which the backend's scope is set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from rheos.core.graph.state import ListState, StateDeclaration, ValueState
from rheos.core.graph.window_functions import Element
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.kinds import handle_of

ROWS, TIMES, COMBINED = "rows", "times", "combined"
"""Names of the states."""


class Contents(ABC):
    @abstractmethod
    def add(self, record: Any, timestamp: int | None) -> None:
        """Add a record."""

    @abstractmethod
    def elements(self) -> list[Element]:
        """Return the elements of the window: its rows, or its accumulator as the only element."""

    @abstractmethod
    def replace(self, elements: Sequence[Element]) -> None:
        """Replace the contents with these elements."""

    @abstractmethod
    def take(self) -> Any:
        """Return all elements, and leave the contents empty."""

    @abstractmethod
    def join(self, taken: Any) -> None:
        """Add elements that were taken from other contents."""

    @abstractmethod
    def clear(self) -> None: ...


class Records(Contents):
    """The records, in order of arrival."""

    @staticmethod
    def declared(record: type | None) -> list[StateDeclaration]:
        rows: ListState[Any] = ListState(object if record is None else record)
        times = ListState(int)
        rows.name, times.name = ROWS, TIMES
        return [rows, times]

    def __init__(self, backend: KeyedStateBackend, record: type | None, *, event_time: bool) -> None:
        self._rows, self._times = (handle_of(one, backend) for one in self.declared(record))
        self._timed = event_time

    def add(self, record: Any, timestamp: int | None) -> None:
        self._rows.append(record)
        if self._timed:
            self._times.append(timestamp)

    def elements(self) -> list[Element]:
        if self._timed:
            return list(map(Element, self._rows, self._times))
        return [Element(row, None) for row in self._rows]

    def replace(self, elements: Sequence[Element]) -> None:
        self._rows.replace([element.record for element in elements])
        if self._timed:
            self._times.replace([element.timestamp for element in elements])

    def take(self) -> Any:
        taken = self.elements()
        self.clear()
        return taken

    def join(self, taken: Any) -> None:
        for record, timestamp in taken:
            self.add(record, timestamp)

    def clear(self) -> None:
        self._rows.clear()
        if self._timed:
            self._times.clear()


class CombinedValue(Contents):
    """A single value, into which all records are combined."""

    @staticmethod
    def declared(kept: Any) -> list[StateDeclaration]:
        combined: ValueState[Any] = ValueState(kept)
        combined.name = COMBINED
        return [combined]

    def __init__(
        self,
        backend: KeyedStateBackend,
        kept: Any,
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
    ) -> None:
        """Create the contents. `add` receives None as the value before the first record."""
        [self._value] = (handle_of(one, backend) for one in self.declared(kept))
        self._add, self._merge = add, merge

    def add(self, record: Any, timestamp: int | None) -> None:
        self._value.value = self._add(self._value.value, record)

    def elements(self) -> list[Element]:
        value = self._value.value
        return [] if value is None else [Element(value, None)]

    def replace(self, elements: Sequence[Element]) -> None:
        raise AssertionError("windows with an evictor store their records")

    def take(self) -> Any:
        taken = self._value.value
        self.clear()
        return taken

    def join(self, taken: Any) -> None:
        mine = self._value.value
        if taken is not None:
            self._value.value = taken if mine is None else self._merge(mine, taken)

    def clear(self) -> None:
        self._value.clear()
