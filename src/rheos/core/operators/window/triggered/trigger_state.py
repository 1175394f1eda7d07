"""State that a trigger and its inner triggers declare, by key and window."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from rheos.core.graph.state import StateDeclaration, bind, declarations
from rheos.core.graph.window_functions import Trigger
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.kinds import handle_of


def declared_by(
    trigger: Trigger, path: str = "trigger"
) -> Iterator[tuple[Trigger, str, StateDeclaration]]:
    """Each trigger with the attribute that it declares state as, and the declaration under the name
    that it is stored by."""
    for attribute, declaration in declarations(trigger).items():
        stored = copy.copy(declaration)
        stored.name = f"{path}_{attribute}"
        yield trigger, attribute, stored
    for name, part in trigger.parts().items():
        yield from declared_by(part, f"{path}_{name}")


def bound(trigger: Trigger, backend: KeyedStateBackend) -> list[Any]:
    """Gives a trigger the handles of its state; these are returned."""
    handles = []
    for owner, attribute, declaration in declared_by(trigger):
        handle = handle_of(declaration, backend)
        bind(owner, attribute, handle)
        handles.append(handle)
    return handles
