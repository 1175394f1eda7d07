"""Imports attributes of a package at their first use, so that importing the package is fast.

A package lists its names as imports of its module `exports`, which type checkers read. A program that
uses one name imports only the module that this name comes from.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any


def exported(package: str, namespace: dict[str, Any], name: str) -> Any:
    """Return a submodule of a package, or a name of its module `exports`.

    Args:
        package: The package, such as "rheos".
        namespace: The package's globals, which receive the name.
        name: The attribute.

    Raises:
        AttributeError: The package has no such attribute.
    """
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    from rheos.core.unknown_names import with_hints  # The package itself imports without it.

    if find_spec(f"{package}.{name}"):
        return with_hints(name, importlib.import_module(f"{package}.{name}"))
    found = _exports(package).get(name)
    if found is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    if isinstance(found, _Import):
        found = getattr(__import__(found.module, fromlist=[found.name]), found.name)
    return namespace.setdefault(name, with_hints(name, found))


@dataclass(frozen=True)
class _Import:
    module: str
    name: str


@dataclass(frozen=True)
class _Module:
    """A placeholder for a module that is not imported. Its attributes describe later imports."""

    name: str

    def __getattr__(self, attribute: str) -> _Import:
        return _Import(self.name, attribute)


@cache
def _exports(package: str) -> dict[str, Any]:
    """Run a package's module `exports`, and return the names with the imports that it would do."""
    # Some tools, such as pytest's hooks, use loaders without code.
    spec: Any = PathFinder.find_spec(f"{package}.exports", sys.modules[package].__path__)
    found: dict[str, Any] = {"__builtins__": {"__import__": lambda name, *_: _Module(name)}}
    exec(spec.loader.get_code(spec.name), found)
    return found
