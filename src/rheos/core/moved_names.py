"""Maps the old names of moved modules, which stored pickles contain, to their names today.

Keyed state may contain pickles of Rheos' own classes, which are stored by module and name. An import of
an old module name returns today's module.
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
"""Packages and modules of Rheos 0.1, and their names today."""


def name_today(module: str) -> str:
    """Return today's name of a module; a stored pickle may contain an old one."""
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
    """Make imports of old names return today's modules. Called once, when `rheos` is imported."""
    sys.meta_path.insert(0, _MovedModules())
