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
} | {
    "rheos.testing.faulty_proxy": "rheos.ops.chaos.faulty_proxy",
    "rheos.core.operators.over.by_time": "rheos.core.operators.over.event_time_over",
    "rheos.core.protocol.accumulated": "rheos.core.protocol.accumulators",
}
"""Old names of packages and modules, and their names today. Packages come first, because a module may
have moved after its package."""


def name_today(module: str) -> str:
    """Return today's name of a module; a stored pickle may contain an old one."""
    for old, new in MOVED.items():
        if module == old or module.startswith(f"{old}."):
            module = new + module.removeprefix(old)
    return module


class _MovedModules:
    """Finds modules by their old names, before other finders load a second copy."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader: Any = self  # Without the base class, which takes longer to import than all of this.
        return ModuleSpec(name, loader) if name_today(name) != name else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(name_today(module.__name__))


def find_moved_modules() -> None:
    """Make imports of old names return today's modules. Rheos calls it once, when it is imported."""
    sys.meta_path.insert(0, _MovedModules())
