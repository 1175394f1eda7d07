"""The keyed state of a function: the declarations that compiled code supports, and the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rheos.core.compiler.record_values import check_stored
from rheos.core.errors import ProgramError
from rheos.core.graph.state import ListState, StateDeclaration, ValueState, keyed_declarations
from rheos.core.state.columnar.column import check_column
from rheos.core.state.columnar.list_column import check_list

_WHAT = "a compiled function"


@dataclass(frozen=True)
class KeyedStates:
    """The keyed state of a function, by name. Compiled code may use `values` and `lists`."""

    values: Mapping[str, ValueState[Any]]
    lists: Mapping[str, ListState[Any]]
    others: Mapping[str, ProgramError]
    """For each other declaration, the reason why compiled code does not support it."""

    def check(self, name: str) -> None:
        """Raise ProgramError if compiled code does not support a state."""
        if name in self.others:
            raise self.others[name]

    def columns(self) -> list[ValueState[Any] | ListState[Any]]:
        """Return the declarations that compiled code supports."""
        return [*self.values.values(), *self.lists.values()]


def keyed_states(function: object) -> KeyedStates:
    """Return the keyed state that a function declares."""
    values: dict[str, ValueState[Any]] = {}
    lists: dict[str, ListState[Any]] = {}
    others: dict[str, ProgramError] = {}
    for name, declared in keyed_declarations(function).items():
        try:
            _check(declared)
        except ProgramError as error:
            others[name] = error
            continue
        if isinstance(declared, ListState):
            lists[name] = declared
        else:
            assert isinstance(declared, ValueState)
            values[name] = declared
    return KeyedStates(values, lists, others)


def _check(declared: StateDeclaration) -> None:
    """Raise ProgramError if compiled code does not support a declaration."""
    match declared:
        case ListState():
            check_list(declared, _WHAT)
        case ValueState() if dataclasses.is_dataclass(declared.type):
            check_stored(declared)
        case _:
            check_column(declared, _WHAT, needs_default=False, may_expire=True)
