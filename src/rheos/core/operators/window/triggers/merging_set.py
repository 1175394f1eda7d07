"""The windows of one key that may still merge, and the places of their contents.

A window grows with its records, but its contents remain stored under the bounds with which it began,
its *place*. Contents are moved only if several windows merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.graph.state import StateDeclaration, ValueState
from rheos.core.operators.window.triggers.assigning import Bounds
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.kinds import handle_of

MERGING = "merging"
"""Name of the state."""


@dataclass(frozen=True)
class AbsorbedWindows:
    """Changes to the windows of a key when a new window is added."""

    window: Bounds
    """Window that contains the new one."""
    place: Bounds
    """Place of its contents."""
    replaced: tuple[Bounds, ...]
    """Windows that are now part of `window`."""
    moved: tuple[Bounds, ...]
    """Places whose contents must be moved to `place`."""
    windows: list[tuple[int, int, int, int]]
    """All windows of the key after the change."""


class MergingSet:
    """The stored windows of one key. The backend's scope is set to that key, with `NO_WINDOW`."""

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

    def with_window(self, new: Bounds) -> AbsorbedWindows:
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
        return AbsorbedWindows(window, place, replaced, tuple(places[1:]), windows)

    def keep(self, windows: Sequence[tuple[int, int, int, int]]) -> None:
        self._windows.value = list(windows)

    def drop(self, window: Bounds) -> None:
        """Remove a window that has ended."""
        left = [known for known in self._windows.value or () if tuple(known[:2]) != window]
        if left:
            self._windows.value = left
        else:
            self._windows.clear()
