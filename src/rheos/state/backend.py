"""The contract of keyed state: tables of values by key, one per declaration, and their snapshots.

A backend belongs to one subtask of one operator. The operator sets `scope.key` before each call of user
code; handles (`state/handles.py`) read and write the tables of that key. `snapshot` is called at a
barrier, between calls. The synchronous part of it is short: what cannot change is only referred to, and
encoded when the part is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from rheos.errors import StateAccessError
from rheos.graph.state import StateDeclaration
from rheos.protocol.snapshots import SnapshotPart


class NoKey:
    """Stands for the key where there is none. Looking anything up by it is the user's error."""

    def __hash__(self) -> NoReturn:
        raise StateAccessError(
            "keyed state or a timer was used outside a keyed context",
            hint="use it in process_element, on_timer or process; not in open, close or __init__",
        )


NO_KEY = NoKey()


class KeyScope:
    """The key that user code runs under."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = NO_KEY


class KeyedStateBackend(ABC):
    """Keeps the state of one subtask's key groups."""

    scope: KeyScope

    @abstractmethod
    def handle(self, declaration: StateDeclaration) -> Any:
        """What the user's function gets in the place of the declaration. Called before `restore`.

        Raises SchemaError where the declared type cannot be stored.
        """

    @abstractmethod
    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        """Takes the tables of each state, in the order in which they apply. Called once, before use."""

    @abstractmethod
    def snapshot(self) -> list[SnapshotPart]:
        """One part for each declared state. Costs what has changed since the last one."""

    @abstractmethod
    def savepoint(self) -> list[SnapshotPart]:
        """A FULL part for each declared state, in the rows that every backend reads. Changes nothing:
        the next snapshot is what it would have been without."""

    @abstractmethod
    def force_full(self) -> None:
        """The last snapshot was not kept: the next parts are full."""
