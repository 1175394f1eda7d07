"""The tree at the top of errors.py is the tree of the classes, and what `rheos` exports of it."""

from __future__ import annotations

import re

import rheos
from rheos import errors
from rheos.errors import RheosError

_LINE = re.compile(r"^    ([│ ]*(?:[├└]── )?)(\w+Error)\b", re.MULTILINE)


def drawn() -> dict[str, str]:
    """The parent of each class, as the tree shows it."""
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


def test_the_tree_is_that_of_the_classes() -> None:
    assert drawn() == {"RheosError": "Exception", **below(RheosError)}


def test_every_error_is_exported() -> None:
    exported = {name for name in rheos.__all__ if name.endswith("Error")}
    assert exported == set(drawn())
