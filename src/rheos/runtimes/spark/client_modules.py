"""Modules of client libraries, which connectors import when they are first used.

Some of them take a second to import. A driver that waits for a running job imports them ahead, and lets
its slots import them, too. So the pause of the job's output does not contain these imports.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable


def client_modules() -> tuple[str, ...]:
    """Return the client modules of the connectors that this process has imported."""
    # Workers only call `import_ahead`, and need no registry.
    from rheos.connectors.registration import CONNECTORS

    imported = frozenset(sys.modules)  # Registrations import further ones.
    found = [each.registration for each in CONNECTORS.registered()]
    used = [each for each in found if each is not None and each.module in imported]
    return tuple(dict.fromkeys(name for each in used for name in (*each.requires, *each.imports)))


def import_ahead(modules: Iterable[str]) -> None:
    """Import modules. An import that fails here fails again at its first use, which reports it."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
