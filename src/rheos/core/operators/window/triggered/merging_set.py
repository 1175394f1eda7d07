"""The windows of one key that may still merge, and where what they hold is kept.

What a window holds stays under the name it was begun with, its *place*, as windows grow with every
record: only where several become one is something moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.graph.state import StateDeclaration, ValueState
from rheos.core.operators.window.triggered.assigning import Bounds
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.kinds import handle_of

MERGING = "merging"
"""The name of the state."""


@dataclass(frozen=True)
class Absorbed:
    """Changes to the windows of a key when a new window is added."""

    window: Bounds
    """The one that the new one is in."""
    place: Bounds
    """Place of its contents."""
    replaced: tuple[Bounds, ...]
    """The windows that are a part of it now."""
    moved: tuple[Bounds, ...]
    """The places that are to be moved to its own."""
    windows: list[tuple[int, int, int, int]]
    """All windows of the key then."""


class MergingSet:
    """State is that of the key which the backend's scope is set to, under no window."""

    @staticmethod
    def declared() -> list[StateDeclaration]:
        windows: ValueState[Any] = ValueState(list[tuple[int, int, int, int]])
        windows.name = MERGING
        return [windows]

    def __init__(self, backend: KeyedStateBackend) -> None:
        [self._windows] = (handle_of(one, backend) for one in self.declared())

    def place_of(self, window: Bounds) -> Bounds | None:
        """Return the place of a window's contents; None if the window does not exist any more."""
        for start, end, *place in self._windows.value or ():
            if (start, end) == window:
                return place[0], place[1]
        return None

    def with_window(self, new: Bounds) -> Absorbed:
        """Return the changes for a new window. Windows that touch are merged, too."""
        known = [tuple(one) for one in self._windows.value or ()]
        meet = sorted(one for one in known if one[0] <= new[1] and new[0] <= one[1])
        start = min(new[0], *(one[0] for one in meet)) if meet else new[0]
        end = max(new[1], *(one[1] for one in meet)) if meet else new[1]
        window = start, end
        places = [(one[2], one[3]) for one in meet]
        place = places[0] if places else window
        replaced = tuple((one[0], one[1]) for one in meet if one[:2] != window)
        windows = sorted([*(one for one in known if one not in meet), (*window, *place)])
        return Absorbed(window, place, replaced, tuple(places[1:]), windows)

    def keep(self, windows: Sequence[tuple[int, int, int, int]]) -> None:
        self._windows.value = list(windows)

    def drop(self, window: Bounds) -> None:
        """Remove a window that has ended."""
        left = [known for known in self._windows.value or () if tuple(known[:2]) != window]
        if left:
            self._windows.value = left
        else:
            self._windows.clear()
