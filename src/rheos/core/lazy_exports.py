"""Imports attributes of a package at their first use, so that importing the package is fast.

A package lists its names as imports of a module `exports`, which type checkers read. A program that
uses one name imports only the module that this name comes from.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any


def exported(exports: str, namespace: dict[str, Any], name: str) -> Any:
    """Return a submodule of a package, or a name of the module that lists its exports.

    Args:
        exports: The name of that module, such as "rheos.api.exports".
        namespace: The package's globals, which receive the name.
        name: The attribute.

    Raises:
        AttributeError: The package has no such attribute.
    """
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    from rheos.core.unknown_names import with_hints  # The package itself imports without it.

    package = namespace["__name__"]
    if find_spec(f"{package}.{name}"):
        return with_hints(name, importlib.import_module(f"{package}.{name}"))
    found = _exports(exports).get(name)
    if found is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    if isinstance(found, tuple):
        module, of = found
        found = getattr(__import__(module, fromlist=[of]), of)
    return namespace.setdefault(name, with_hints(name, found))


@cache
def _exports(module: str) -> dict[str, Any]:
    """Parse a module of exports without running it. Return the module and name from which it imports
    each of its names, and its `__all__`."""
    # Some tools, such as pytest's hooks, use loaders without source code.
    folder = importlib.import_module(module.rpartition(".")[0]).__path__
    spec: Any = PathFinder.find_spec(module, folder)
    found: dict[str, Any] = {}
    for node in ast.parse(spec.loader.get_source(spec.name)).body:
        match node:
            case ast.ImportFrom(module=origin, names=names):
                found |= {each.asname or each.name: (origin, each.name) for each in names}
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                found["__all__"] = ast.literal_eval(value)
    return found
