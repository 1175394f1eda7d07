"""What `rheos` exports is the API: nothing else shows, and all of it says what it is."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import rheos as rh


def test_what_is_exported_is_there_and_sorted() -> None:
    assert list(rh.__all__) == sorted(rh.__all__)
    assert all(hasattr(rh, name) for name in rh.__all__)


def test_nothing_else_shows_but_the_packages_inside() -> None:
    shown = {name for name, value in vars(rh).items() if not name.startswith("_")}
    modules = {name for name in shown if isinstance(getattr(rh, name), ModuleType)}
    assert shown - modules - set(rh.__all__) <= {"VERSION"}


@pytest.mark.parametrize(
    "name", [name for name in rh.__all__ if inspect.isclass(getattr(rh, name)) or name == "files"]
)
def test_every_class_says_what_it_is(name: str) -> None:
    assert (inspect.getdoc(getattr(rh, name)) or "").strip()
