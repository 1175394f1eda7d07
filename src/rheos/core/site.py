"""Where the user wrote it: the file and line of the call that is at work, for errors and `explain`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from rheos.core.errors import RheosError, Site

_PACKAGE = str(Path(__file__).parents[1]) + "/"

P = ParamSpec("P")
R = TypeVar("R")

_done_for: ContextVar[Site | None] = ContextVar("_done_for", default=None)


def _user_frames() -> Iterator[FrameType]:
    """The frames on the stack that are not of this package, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            yield frame
        frame = frame.f_back


def call_site() -> Site:
    """The innermost line on the stack that is outside of this package, or the one that this is done
    for."""
    if (said := _done_for.get()) is not None:
        return said
    for frame in _user_frames():
        return in_notebook(Site(frame.f_code.co_filename, frame.f_lineno))
    return Site("<unknown>", 0)


def in_notebook(site: Site) -> Site:
    """The cell ("In[3]") and its line, where the file is one that IPython has made up for a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return site
    cell = shell.compile.format_code_name(site.file)
    return site if cell is None else Site(cell[1], site.line)


def names_in_sight() -> dict[str, Any]:
    """The local names of the user's frames, inner ones first: what a string annotation may mean."""
    found: dict[str, Any] = {}
    for frame in _user_frames():
        for name, value in frame.f_locals.items():
            found.setdefault(name, value)
    return found


@contextmanager
def done_for(site: Site) -> Iterator[None]:
    """What a command does after the user's file has ended, for a line of it."""
    before = _done_for.set(site)
    try:
        yield
    finally:
        _done_for.reset(before)


@contextmanager
def located(site: Site, operator: str | None = None) -> Iterator[None]:
    """Gives the errors that are raised within their place in the user's code."""
    try:
        yield
    except RheosError as error:
        error.located(site=site, operator=operator)
        if error.site is not None:
            # A worker names the file, and knows of no cells.
            error.site = in_notebook(error.site)
        raise error from None


def located_at_call(fn: Callable[P, R]) -> Callable[P, R]:
    """A function for users: its errors begin with the line that calls it."""

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with located(call_site()):
            return fn(*args, **kwargs)

    return call
