"""The contract of keyed state: tables of values by key, one per declaration, and their snapshots.

A backend belongs to one subtask of one operator. The operator sets `scope.key` before each call of user
code; handles (`state/handles.py`) read and write the tables of that key. `snapshot` is called at a
barrier, between calls. The synchronous part of it is short: what cannot change is only referred to, and
encoded when the part is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pyarrow as pa

from rheos.errors import StateAccessError
from rheos.graph.state import StateDeclaration
from rheos.protocol.snapshots import Snapshot, SnapshotPart
from rheos.state.keys import Key

if TYPE_CHECKING:
    from rheos.state.timers import TimerService


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


class Values(Protocol):
    """The bare values of one state, for operators that keep state of their own."""

    @property
    def values(self) -> dict[Key, Any]:
        """Those that are in memory. It may be read and written until the next `prepare`."""
        ...

    @property
    def dirty(self) -> set[Key]:
        """The keys whose values have changed, which is for the operator to tell."""
        ...

    def fetch(self, key: Key) -> Any:
        """The value of a key that is not in `values`, where it has one: then it is there now. Else
        `tables.ABSENT`."""
        ...


class KeyedStateBackend(ABC):
    """Keeps the state of one subtask's key groups."""

    scope: KeyScope
    stride: int
    """`prepare` is to be called once for about so many rows or timers."""

    @abstractmethod
    def handle(self, declaration: StateDeclaration) -> Any:
        """What the user's function gets in the place of the declaration. Called before `restore`.

        Raises SchemaError where the declared type cannot be stored.
        """

    @abstractmethod
    def values(self, name: str, declared: Any) -> Values:
        """A value state that is used without handles. Called before `restore`."""

    @abstractmethod
    def timers(self, *, event_time: bool) -> TimerService:
        """The subtask's timers, which are state, too. Called at most once, before `restore`."""

    def prepare(self, keys: Sequence[Key]) -> None:
        """Called between calls of user code, with about the keys of the next ones. A value that was
        read before is no more the one that is kept: it is to be read again."""

    def forget(self) -> None:
        """Forgets all keys, as if none had come. Only of a backend that keeps its state in memory."""
        raise NotImplementedError

    @abstractmethod
    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        """Takes the tables of each state, in the order in which they apply. Called once, before use."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All declared state, and the timers. Costs what has changed since the last one."""

    @abstractmethod
    def savepoint(self) -> list[SnapshotPart]:
        """A FULL part for each declared state, in the rows that every backend reads. Changes nothing:
        the next snapshot is what it would have been without."""

    @abstractmethod
    def force_full(self) -> None:
        """The last snapshot was not kept: what it alone told is to be in the next."""

    def close(self) -> None:
        """Nothing is used any more. May be called again."""
