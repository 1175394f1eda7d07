"""State without a key: broadcast state, and the lists of operator state.

It is small, and every snapshot contains all of it. A part has one row for each entry or element, so
that elements of a list can be distributed. The kind of the part (BROADCAST, LIST or UNION) defines how
its rows are distributed to the subtasks of a restored job.

The user's function has a handle in place of the declaration. Broadcast state is a dict, so reading it
is as fast as reading a dict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from rheos.core.errors import ProgramError, StateAccessError
from rheos.core.graph.state import (
    BroadcastState,
    OperatorListState,
    OperatorUnionState,
    UnkeyedStateDeclaration,
    bind,
    unkeyed_declarations,
)
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.state.codec import ValueCodec
from rheos.core.state.describe import type_shape

ITEM, VALUE = "item", "value"
"""Columns of a part: both for a dict, only `VALUE` for a list."""

Tables: TypeAlias = Iterable[pa.Table]


class UnkeyedState(ABC):
    """One declared state of one subtask."""

    handle: Any
    """Handle that the function uses."""

    @abstractmethod
    def restore(self, tables: Tables) -> None:
        """Restore the state. The operator calls it once, before it calls the function."""

    @abstractmethod
    def part(self) -> SnapshotPart:
        """Return a part with the whole state. The state may change from here on."""


class BroadcastHandle(dict[Any, Any]):
    """The entries of broadcast state. Writes are checked; reads are those of a dict."""

    def __init__(self, name: str, item: ValueCodec, value: ValueCodec) -> None:
        super().__init__()
        self._name = name
        self._item = item
        self._value = value
        self.writable = False
        """Whether the current row reaches every subtask, so that its call may write."""
        self.version = 0
        """Number of times that entries may have changed."""

    def _check(self) -> None:
        self.version += 1
        if not self.writable:
            raise StateAccessError(
                f"broadcast state {self._name!r} was written where it is read-only",
                hint="write it in process_broadcast_element: otherwise its value would differ "
                "between subtasks",
            )

    def __setitem__(self, item: Any, value: Any) -> None:
        self._check()
        super().__setitem__(self._item.fit(item), self._value.fit(value))

    def __delitem__(self, item: Any) -> None:
        self._check()
        super().__delitem__(item)

    def clear(self) -> None:
        self._check()
        super().clear()

    def pop(self, *args: Any) -> Any:
        self._check()
        return super().pop(*args)

    def popitem(self) -> tuple[Any, Any]:
        self._check()
        return super().popitem()

    def setdefault(self, item: Any, default: Any = None) -> Any:
        if item not in self:
            self[item] = default
        return self[item]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for item, value in dict(*args, **kwargs).items():
            self[item] = value

    def __ior__(self, other: Any) -> BroadcastHandle:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"broadcast state {self._name!r} cannot be pickled: use dict(...) of it")

    def forget(self) -> None:
        """Remove all entries, without checking whether the function may write."""
        self.version += 1
        super().clear()

    def take(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Add restored entries, without checking whether the function may write."""
        self.version += 1
        super().update(entries)


class _Broadcast(UnkeyedState):
    handle: BroadcastHandle

    def __init__(self, declared: BroadcastState[Any, Any]) -> None:
        self._name = declared.name
        self._item = ValueCodec(declared.name, declared.key_type)
        self._value = ValueCodec(declared.name, declared.value_type)
        self.handle = BroadcastHandle(declared.name, self._item, self._value)

    def restore(self, tables: Tables) -> None:
        for table in tables:
            items, values = (table.column(name).to_pylist() for name in (ITEM, VALUE))
            decoded = map(self._item.decode, items), map(self._value.decode, values)
            self.handle.take(zip(*decoded, strict=True))

    def part(self) -> SnapshotPart:
        items, values = list(self.handle), list(self.handle.values())
        encoded = _encoded_later(self._value, values, items)

        def write() -> pa.Table:
            columns = {ITEM: self._item.encode(items, items), VALUE: encoded()}
            return pa.table({name: pa.array(data, pa.binary()) for name, data in columns.items()})

        return SnapshotPart(self._name, StateKind.BROADCAST, write)


class OperatorListHandle:
    """The list elements of one subtask."""

    def __init__(self, element: ValueCodec) -> None:
        self._fit = element.fit
        self._elements: list[Any] = []

    def append(self, value: Any) -> None:
        self._elements.append(self._fit(value))

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        """Replace all elements by `values`."""
        self._elements[:] = [self._fit(value) for value in values]

    def clear(self) -> None:
        self._elements.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements.copy())

    def __len__(self) -> int:
        return len(self._elements)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._elements!r})"


class _OperatorList(UnkeyedState):
    handle: OperatorListHandle

    def __init__(self, name: str, declared: Any, kind: StateKind) -> None:
        self._name = name
        self._kind = kind
        self._element = ValueCodec(name, declared)
        self.handle = OperatorListHandle(self._element)

    def restore(self, tables: Tables) -> None:
        for table in tables:
            self.handle.extend(map(self._element.decode, table.column(VALUE).to_pylist()))

    def part(self) -> SnapshotPart:
        elements = list(self.handle)
        encoded = _encoded_later(self._element, elements, range(len(elements)))
        return SnapshotPart(
            self._name, self._kind, lambda: pa.table({VALUE: pa.array(encoded(), pa.binary())})
        )


def _encoded_later(
    codec: ValueCodec, values: Sequence[Any], keys: Sequence[Any]
) -> Callable[[], list[bytes]]:
    """Return a function that returns the encoded values. Mutable values are encoded now."""
    if codec.immutable:
        return lambda: codec.encode(values, keys)
    now = codec.encode(values, keys)
    return lambda: now


# --- state of a function --------------------------------------------------------------------------


class UnkeyedStates:
    """All unkeyed state of one function in one subtask. Binds the handles to the function."""

    def __init__(self, function: object) -> None:
        """Create the state. Raise SchemaError if a declared type cannot be stored."""
        self._states = {
            name: _state_of(declared) for name, declared in unkeyed_declarations(function).items()
        }
        self._broadcast: list[BroadcastHandle] = []
        for name, state in self._states.items():
            bind(function, name, state.handle)
            if isinstance(state, _Broadcast):
                self._broadcast.append(state.handle)

    def restore(self, restored: Mapping[str, Tables]) -> None:
        for name, state in self._states.items():
            state.restore(restored.get(name, ()))

    def parts(self) -> list[SnapshotPart]:
        return [state.part() for state in self._states.values()]

    @property
    def broadcast(self) -> Mapping[str, BroadcastHandle]:
        """Return the handles of broadcast state, by name."""
        found = {name: state.handle for name, state in self._states.items()}
        return {name: each for name, each in found.items() if isinstance(each, BroadcastHandle)}

    def forget_broadcast(self) -> None:
        """Remove all entries of broadcast state."""
        for handle in self._broadcast:
            handle.forget()

    def set_writable(self, writable: bool) -> None:
        """Set whether broadcast state may be written."""
        for handle in self._broadcast:
            handle.writable = writable


def _state_of(declared: UnkeyedStateDeclaration) -> UnkeyedState:
    match declared:
        case BroadcastState():
            return _Broadcast(declared)
        case OperatorListState():
            return _OperatorList(declared.name, declared.type, StateKind.LIST)
        case OperatorUnionState():
            return _OperatorList(declared.name, declared.type, StateKind.UNION)
        case _:
            raise _no_kind(declared)


def unkeyed_shapes(function: object) -> dict[str, StateShape]:
    """Return the shapes of a function's unkeyed state. Raise SchemaError if it cannot be stored."""
    return {name: _shape_of(declared) for name, declared in unkeyed_declarations(function).items()}


def _shape_of(declared: UnkeyedStateDeclaration) -> StateShape:
    match declared:
        case BroadcastState():
            args = [type_shape(declared.name, of) for of in (declared.key_type, declared.value_type)]
            value = TypeShape(name="dict", args=args)
            return StateShape(kind=StateKind.BROADCAST, holds=StatePurpose.MAP, value=value)
        case OperatorListState():
            kind = StateKind.LIST
        case OperatorUnionState():
            kind = StateKind.UNION
        case _:
            raise _no_kind(declared)
    return StateShape(
        kind=kind, holds=StatePurpose.LIST, value=type_shape(declared.name, declared.type)
    )


def _no_kind(declared: UnkeyedStateDeclaration) -> ProgramError:
    return ProgramError(
        f"state {declared.name!r} is declared as {type(declared).__name__}, which is not a kind "
        "of state",
        hint="declare one of BroadcastState, OperatorListState, OperatorUnionState",
    )
