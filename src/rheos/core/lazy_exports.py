"""Imports attributes of a package at their first use, so that importing the package is fast.

A package lists its names as imports of its module `exports`, which type checkers read. A program that
uses one name imports only the module that this name comes from.
"""

from __future__ import annotations

import ast
import importlib
import sys
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
    if isinstance(found, tuple):
        module, of = found
        found = getattr(__import__(module, fromlist=[of]), of)
    return namespace.setdefault(name, with_hints(name, found))


@cache
def _exports(package: str) -> dict[str, Any]:
    """Parse a package's module `exports`, without running it. Return the module and name from which
    each of its names is imported, and the list `__all__`."""
    # Some tools, such as pytest's hooks, use loaders without source code.
    spec: Any = PathFinder.find_spec(f"{package}.exports", sys.modules[package].__path__)
    found: dict[str, Any] = {}
    for node in ast.parse(spec.loader.get_source(spec.name)).body:
        match node:
            case ast.ImportFrom(module=module, names=names):
                found |= {each.asname or each.name: (module, each.name) for each in names}
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                found["__all__"] = ast.literal_eval(value)
    return found
