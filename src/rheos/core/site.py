"""The file and line of the user's call that is being executed, for errors and `explain`."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from rheos.core.errors import RheosError, Site

PACKAGE = str(Path(__file__).parents[1]) + "/"
"""Folder of this package."""

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})

P = ParamSpec("P")
R = TypeVar("R")

_done_for: ContextVar[Site | None] = ContextVar("_done_for", default=None)


def user_frames() -> Iterator[FrameType]:
    """Yield the stack frames outside this package, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def is_users(file: str) -> bool:
    """Return whether a file is the user's own, and not of this package or a library.

    A file without a folder belongs to a library that was compiled by Cython.
    """
    compiled = file.endswith((".pyx", ".pxi", ".pxd"))
    return not compiled and not file.startswith(("<", PACKAGE, *_LIBRARIES))


def call_site() -> Site:
    """Return the innermost line on the stack outside this package, or the line set by `done_for`."""
    if (site := _done_for.get()) is not None:
        return site
    for frame in user_frames():
        return in_notebook(Site(frame.f_code.co_filename, frame.f_lineno))
    return Site("<unknown>", 0)


def in_notebook(site: Site) -> Site:
    """Return the cell ("In[3]") and line in the notebook, if IPython generated the file for a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return site
    cell = shell.compile.format_code_name(site.file)
    return site if cell is None else Site(cell[1], site.line)


def names_in_sight() -> dict[str, Any]:
    """Return the local names of the user's frames, inner ones first, for string annotations."""
    found: dict[str, Any] = {}
    for frame in user_frames():
        for name, value in frame.f_locals.items():
            found.setdefault(name, value)
    return found


@contextmanager
def done_for(site: Site) -> Iterator[None]:
    """Attribute the calls within to a line of the user's program, after the program has finished."""
    before = _done_for.set(site)
    try:
        yield
    finally:
        _done_for.reset(before)


@contextmanager
def located(site: Site, operator: str | None = None) -> Iterator[None]:
    """Add the place in the user's code to errors that are raised in the block."""
    try:
        yield
    except RheosError as error:
        error.located(site=site, operator=operator)
        if error.site is not None:
            # A worker names the file, and does not know about cells.
            error.site = in_notebook(error.site)
        raise error from None


def located_at_call(fn: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that users call: its errors begin with the line of the call."""

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with located(call_site()):
            return fn(*args, **kwargs)

    return call
