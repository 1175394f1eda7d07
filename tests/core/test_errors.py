"""The tree at the top of errors.py is the tree of the classes, and what `rheos` exports of it."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import rheos
from rheos.core import errors
from rheos.core.errors import InternalError, OutOfMemoryError, RheosError, unexpected

_LINE = re.compile(r"^    ([│ ]*(?:[├└]── )?)(\w+Error)\b", re.MULTILINE)


def drawn() -> dict[str, str]:
    """Return the parent of each class in the tree."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for indent, name in _LINE.findall(errors.__doc__ or ""):
        depth = len(indent) // 4
        above[depth:] = [name]
        parents[name] = above[depth - 1] if depth else "Exception"
    return parents


def below(kind: type[Exception]) -> dict[str, str]:
    found: dict[str, str] = {}
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            found[child.__name__] = kind.__name__
            found.update(below(child))
    return found


def test_the_tree_matches_the_classes() -> None:
    assert drawn() == {"RheosError": "Exception", **below(RheosError)}


def test_every_error_is_exported() -> None:
    exported = {name for name in rheos.__all__ if name.endswith("Error")}
    assert exported == set(drawn())


def too_much_for_numpy() -> None:
    np.empty(1 << 58, dtype=np.int64)


def too_much_for_arrow() -> None:
    pa.allocate_buffer(1 << 61)


def too_much_for_python() -> None:
    bytearray(1 << 62)


def no_more_pages() -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def no_more_threads() -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    "allocate",
    [too_much_for_numpy, too_much_for_arrow, too_much_for_python, no_more_pages, no_more_threads],
)
def test_every_out_of_memory_error_is_recognised(allocate: Callable[[], None]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each library has its own
        allocate()
    error = unexpected(raised.value)
    assert isinstance(error, OutOfMemoryError)
    assert "a process has run out of memory" in error.what
    assert "rocksdb" in (error.hint or "")


@pytest.mark.parametrize("error", [RuntimeError("can't"), OSError(errno.ENOSPC, "full"), ValueError()])
def test_other_exceptions_are_defects(error: Exception) -> None:
    assert isinstance(unexpected(error), InternalError)
