"""The contract of kinds of declared state.

A new kind is one file here, with its handle and its `DeclaredKind`, a declaration in `graph/state.py`,
and a line in the registry (`kinds/__init__.py`). Its state is kept in one of the stores that every
backend has. So it is written, restored, compared and shown like any other state of that form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from rheos.core.graph.state import StateDeclaration
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry

D = TypeVar("D", bound=StateDeclaration)

Form: TypeAlias = Literal[StatePurpose.VALUE, StatePurpose.LIST, StatePurpose.MAP]


class DeclaredKind(ABC, Generic[D]):
    """One kind of declared state. `D` is the class of its declarations."""

    holds: Form
    """Form in which it is stored. Two kinds with the same form and type can read each other's state."""

    @abstractmethod
    def types(self, declared: D) -> tuple[Any, ...]:
        """Return the types of the stored values or elements; for a map, of its keys and values. They
        determine the encoding, and are compared when the program changes."""

    @abstractmethod
    def handle(self, declared: D, stores: KeyedStateBackend, expiry: Expiry | None) -> Any:
        """Return the handle that replaces the declaration in the user's function. It uses the store of
        the declaration's name, with the kind's form and types, at the key of the stores' scope.

        Called once in each subtask, before anything is restored. If the declaration has a time to live,
        the store is created with the `expiry`, and the handle does not show expired entries. Raise
        SchemaError if the declared types cannot be stored.
        """
