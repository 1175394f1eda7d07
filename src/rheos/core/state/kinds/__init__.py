"""The registry of the kinds of declared state, and functions that depend on a declaration's kind."""

from __future__ import annotations

from typing import Any, assert_never

from rheos.core.errors import ProgramError
from rheos.core.graph.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    StateDeclaration,
    ValueState,
)
from rheos.core.protocol.shapes import StatePurpose, StateShape, TtlShape, TypeShape
from rheos.core.protocol.snapshots import StateKind
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.describe import type_shape
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.combining import AggregatingKind, ReducingKind
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.kinds.list import ListKind
from rheos.core.state.kinds.map import MapKind
from rheos.core.state.kinds.value import ValueKind

KINDS: dict[type[StateDeclaration], DeclaredKind[Any]] = {
    ValueState: ValueKind(),
    ListState: ListKind(),
    MapState: MapKind(),
    ReducingState: ReducingKind(),
    AggregatingState: AggregatingKind(),
}
"""Kinds by the class of the declaration."""


def kind_of(declared: StateDeclaration) -> DeclaredKind[Any]:
    """Return the kind of a declaration. Raise ProgramError if it is not registered."""
    for cls in type(declared).__mro__:
        if cls in KINDS:
            return KINDS[cls]
    known = ", ".join(cls.__name__ for cls in KINDS)
    raise ProgramError(
        f"state {declared.name!r} is declared as {type(declared).__name__}, which is not a kind "
        "of state",
        hint=f"declare one of {known}",
    )


def handle_of(declared: StateDeclaration, backend: KeyedStateBackend) -> Any:
    """Return the handle that replaces the declaration in a running function. Called before the backend
    is restored.

    Raise SchemaError if the declared type cannot be stored.
    """
    expiry = None if declared.ttl is None else Expiry(declared.ttl, backend.scope)
    return kind_of(declared).handle(declared, backend, expiry)


def stored_types(declared: StateDeclaration) -> tuple[Any, ...]:
    """Return the types that a declaration stores: of its values or, for a map, of its keys and
    values."""
    return kind_of(declared).types(declared)


def shape_of(declared: StateDeclaration) -> StateShape:
    """Return the shape of a declaration's state, without the key. Every checkpoint contains it, for
    later comparison. Raise SchemaError if the types cannot be stored."""
    kind = kind_of(declared)
    types = [type_shape(declared.name, declared_type) for declared_type in kind.types(declared)]
    match kind.holds:
        case StatePurpose.VALUE | StatePurpose.LIST:
            [shape] = types
        case StatePurpose.MAP:
            key, value = types
            shape = TypeShape(name="dict", args=[key, value])
        case _:
            assert_never(kind.holds)
    ttl = None if declared.ttl is None else TtlShape(time=declared.ttl.time, ms=declared.ttl.ms)
    return StateShape(kind=StateKind.KEYED, holds=kind.holds, value=shape, ttl=ttl)
