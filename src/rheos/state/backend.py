"""The contract of keyed state: tables of values by key, one per declaration, and their snapshots.

A backend belongs to one subtask of one operator. The operator sets `scope.key` before each call of user
code; handles (`state/handles.py`) read and write the tables of that key. `snapshot` is called at a
barrier, between calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from rheos.errors import StateAccessError
from rheos.graph.state import StateDeclaration
from rheos.protocol.snapshots import SnapshotPart

ROWS = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""A part of row state: sorted by (key_group, key, namespace); a null value deletes."""


class NoKey:
    """Stands for the key where there is none. Looking anything up by it is the user's error."""

    def __hash__(self) -> NoReturn:
        raise StateAccessError(
            "keyed state or a timer was used outside a keyed context",
            hint="use it in process_element, on_timer or process; not in open, close or __init__",
        )


class KeyScope:
    """The key that user code runs under."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = NoKey()


class KeyedStateBackend(ABC):
    """Keeps the state of one subtask's key groups."""

    scope: KeyScope

    @abstractmethod
    def handle(self, declaration: StateDeclaration) -> Any:
        """What the user's function gets in the place of the declaration."""

    @abstractmethod
    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        """Takes the tables of each state, in the order in which they apply. Called once, before use."""

    @abstractmethod
    def snapshot(self) -> list[SnapshotPart]:
        """One part for each declared state. Costs what has changed since the last one."""

    @abstractmethod
    def snapshot_failed(self) -> None:
        """The last snapshot was not kept: the next parts are full."""
