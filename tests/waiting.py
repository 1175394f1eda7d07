"""Waiting for effects of other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 400) -> T:
    """What the condition gives once it holds; the bound only ends a test that has failed."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return holds
