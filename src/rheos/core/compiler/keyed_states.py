"""The keyed state of a function: the declarations that compiled code supports, and the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rheos.core.compiler.record_values import check_stored
from rheos.core.errors import ProgramError
from rheos.core.graph.state import (
    ListState,
    MapState,
    ReducingState,
    StateDeclaration,
    ValueState,
    keyed_declarations,
)
from rheos.core.state.columnar.column import check_column
from rheos.core.state.columnar.list_column import check_list
from rheos.core.state.columnar.map_column import check_map

_WHAT = "a compiled function"


@dataclass(frozen=True)
class KeyedStates:
    """The keyed state of a function, by name. Compiled code may use `values`, `lists` and `maps`."""

    values: Mapping[str, ValueState[Any]]
    lists: Mapping[str, ListState[Any]]
    maps: Mapping[str, MapState[Any, Any]]
    reducers: Mapping[str, Any]
    """For each of `values` that is a ReducingState, the function that combines two values."""
    others: Mapping[str, ProgramError]
    """For each other declaration, the reason why compiled code does not support it."""

    def check(self, name: str) -> None:
        """Raise ProgramError if compiled code does not support a state."""
        if name in self.others:
            raise self.others[name]


def keyed_states(function: object) -> KeyedStates:
    """Return the keyed state that a function declares."""
    values: dict[str, ValueState[Any]] = {}
    lists: dict[str, ListState[Any]] = {}
    maps: dict[str, MapState[Any, Any]] = {}
    reducers: dict[str, Any] = {}
    others: dict[str, ProgramError] = {}
    for name, declared in keyed_declarations(function).items():
        kept = _single_value(declared) if isinstance(declared, ReducingState) else declared
        try:
            _check(kept, is_combined=kept is not declared)
        except ProgramError as error:
            others[name] = error
            continue
        if isinstance(kept, ListState):
            lists[name] = kept
        elif isinstance(kept, MapState):
            maps[name] = kept
        else:
            assert isinstance(kept, ValueState)
            values[name] = kept
        if isinstance(declared, ReducingState):
            reducers[name] = declared.reduce
    return KeyedStates(values, lists, maps, reducers, others)


def reducer_name(state: str) -> str:
    """Return the name by which code refers to the function of a ReducingState."""
    return f"the function of state {state!r}"


def _single_value(declared: ReducingState[Any]) -> ValueState[Any]:
    """Return the state that stores the combined value."""
    made: ValueState[Any] = ValueState(declared.type, ttl=declared.ttl)
    made.name, made.site = declared.name, declared.site
    return made


def _check(declared: StateDeclaration, *, is_combined: bool) -> None:
    """Raise ProgramError if compiled code does not support a declaration. `is_combined` is whether it
    stores the value of a ReducingState."""
    match declared:
        case ListState():
            check_list(declared, _WHAT)
        case MapState():
            check_map(declared, _WHAT)
        case ValueState() if is_combined and dataclasses.is_dataclass(declared.type):
            raise ProgramError(
                f"state {declared.name!r} combines dataclasses, which {_WHAT} does not support",
                site=declared.site,
                hint="split it into several states",
            )
        case ValueState() if dataclasses.is_dataclass(declared.type):
            check_stored(declared)
        case _:
            check_column(declared, _WHAT, needs_default=False, may_expire=True)
