"""ReducingState and AggregatingState: state to which values are added, with one value per key.

A ReducingState combines values two by two into one of their own type. An AggregatingState adds values
to an accumulator, from which a result is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rheos.core.graph.state import AggregatingState, ReducingState
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.expiring import ExpiringValueHandle
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.kinds.value import ValueHandle, value_handle


class CombiningHandle:
    """Handle with `add(value)`, `value` and `clear()`."""

    __slots__ = ("_cell", "_combine", "_first", "_shown")

    def __init__(
        self,
        cell: ValueHandle | ExpiringValueHandle,
        first: Callable[[Any], Any],
        combine: Callable[[Any, Any], Any],
        shown: Callable[[Any], Any],
    ) -> None:
        """Create the handle. `cell` keeps a value without a default. `first` converts the first value
        to the stored one, `combine` adds another value, and `shown` converts the stored value to the
        one that is read."""
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
        """Return the combined value; None if no value was added."""
        kept = self._cell.value
        return None if kept is None else self._shown(kept)

    def clear(self) -> None:
        """Forget the values that were added for the key."""
        self._cell.clear()

    def __repr__(self) -> str:
        return f"{self.value!r}"


class ReducingKind(DeclaredKind[ReducingState[Any]]):
    holds = StatePurpose.VALUE

    def types(self, declared: ReducingState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: ReducingState[Any], stores: KeyedStateBackend, expiry: Expiry | None
    ) -> CombiningHandle:
        return CombiningHandle(value_handle(declared, stores, expiry), _same, declared.reduce, _same)


def _same(value: Any) -> Any:
    return value


class AggregatingKind(DeclaredKind[AggregatingState[Any]]):
    holds = StatePurpose.VALUE

    def types(self, declared: AggregatingState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: AggregatingState[Any], stores: KeyedStateBackend, expiry: Expiry | None
    ) -> CombiningHandle:
        function = declared.function

        def first(record: Any) -> Any:
            return function.add(record, function.create_accumulator())

        def combine(accumulator: Any, record: Any) -> Any:
            return function.add(record, accumulator)

        cell = value_handle(declared, stores, expiry)
        return CombiningHandle(cell, first, combine, function.get_result)
