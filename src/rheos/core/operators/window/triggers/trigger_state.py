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
    """Yield each trigger, the attribute that declares state, and the declaration with the name under
    which the state is stored."""
    for attribute, declaration in declarations(trigger).items():
        stored = copy.copy(declaration)
        stored.name = f"{path}_{attribute}"
        yield trigger, attribute, stored
    for name, part in trigger.parts().items():
        yield from declared_by(part, f"{path}_{name}")


def bound(trigger: Trigger, backend: KeyedStateBackend) -> list[Any]:
    """Assign the handles of its state to a trigger, and return them."""
    handles = []
    for owner, attribute, declaration in declared_by(trigger):
        handle = handle_of(declaration, backend)
        bind(owner, attribute, handle)
        handles.append(handle)
    return handles
