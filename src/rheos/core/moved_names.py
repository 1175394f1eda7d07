"""Modules that have moved, by the names that stored pickles hold.

Keyed state may hold pickles of Rheos' own classes, by module and name. An import of an old name gives
the module of today.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

MOVED: Final = {
    f"rheos.{name}": f"rheos.core.{name}"
    for name in (
        "aggregates",
        "checkpoint",
        "errors",
        "graph",
        "operators",
        "plan",
        "protocol",
        "state",
        "task",
    )
} | {"rheos.testing.faulty_proxy": "rheos.ops.chaos.faulty_proxy"}
"""Packages and modules of Rheos 0.1, and where they are today."""


def name_today(module: str) -> str:
    """Return the name of a module, of which a stored pickle may have an old one."""
    parts = module.split(".")
    for depth in (2, 3):
        package = ".".join(parts[:depth])
        if package in MOVED:
            return MOVED[package] + module.removeprefix(package)
    return module


class _MovedModules:
    """Finds modules by their old names, before other finders load a second copy."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader: Any = self  # Without the base class, which takes longer to import than all of this.
        return ModuleSpec(name, loader) if name_today(name) != name else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(name_today(module.__name__))


def find_moved_modules() -> None:
    """Let imports of old names give the modules of today. Called once, when `rheos` is imported."""
    sys.meta_path.insert(0, _MovedModules())
