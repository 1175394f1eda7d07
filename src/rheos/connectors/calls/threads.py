"""Threads of connectors: what is logged in them belongs to the operator that started them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rheos.connectors.calls.calling_operator import carried


def thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a daemon thread that works for the operator for which this thread works now. The caller
    starts it."""
    return threading.Thread(target=carried(target), name=name, daemon=True)
