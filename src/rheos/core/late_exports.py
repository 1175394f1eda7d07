"""Attributes of a package that are imported at their first use, so that importing it is cheap."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any


def exported(package: str, namespace: dict[str, Any], name: str) -> Any:
    """Return a submodule of a package, or a name of its module `exports`.

    Args:
        package: The package, such as "rheos".
        namespace: The package's globals, which receive all exported names.
        name: The attribute.

    Raises:
        AttributeError: The package has no such attribute.
    """
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    if find_spec(f"{package}.{name}"):
        return importlib.import_module(f"{package}.{name}")
    exports = importlib.import_module(f"{package}.exports")
    namespace.update({each: getattr(exports, each) for each in (*exports.__all__, "__all__")})
    if name not in namespace:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return namespace[name]
