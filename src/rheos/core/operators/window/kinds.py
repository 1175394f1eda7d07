"""The kinds of windows, by the names that programs and stored state use."""

from __future__ import annotations

from collections.abc import Callable

from rheos.core.errors import ProgramError, UnrestorableError
from rheos.core.graph.windows import Window
from rheos.core.operators.window.calendar import CalendarWindows
from rheos.core.operators.window.contract import Cut, Windows
from rheos.core.operators.window.cumulating import CumulatingWindows
from rheos.core.operators.window.grid import WindowGrid
from rheos.core.operators.window.sessions import SessionWindows

KINDS: dict[str, Callable[[Cut], Windows]] = {
    WindowGrid.kind: WindowGrid.of,
    SessionWindows.kind: SessionWindows.of,
    CumulatingWindows.kind: CumulatingWindows.of,
    CalendarWindows.kind: CalendarWindows.of,
}
"""Constructors of windows from their parameters, by kind."""


def windows_of(window: Window) -> Windows:
    """Return the windows of a user's descriptor. Raise ProgramError if its kind is not registered."""
    if window.kind not in KINDS:
        raise ProgramError(
            f"{window!r} has the window kind {window.kind!r}, which is not registered",
            hint="register the kind in rheos.core.operators.window.kinds.KINDS; registered are "
            f"{', '.join(KINDS)}",
        )
    return KINDS[window.kind](window.cut)


def stored_windows(kind: str | None, cut: Cut) -> Windows:
    """Return the windows with which stored state was created. State of version 0.1.0 has no kind,
    because only the grid existed. Raise UnrestorableError if the kind is unknown."""
    kind = kind or WindowGrid.kind
    if kind not in KINDS:
        raise UnrestorableError(
            f"the state belongs to windows of the kind {kind!r}, which this version of Rheos "
            "does not know",
            hint="use the version of Rheos that wrote it, or a newer one",
        )
    return KINDS[kind](cut)
