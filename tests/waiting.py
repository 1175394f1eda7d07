"""Waiting for effects of other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 400) -> T:
    """What the condition gives once it holds; the bound only ends a test that has failed."""
    deadline = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        if holds := condition():
            return holds
        now = time.monotonic()
        assert now < deadline, "it did not come about"
        # A costly condition leaves the processor to what it waits for.
        time.sleep(min(max(0.02, 3 * (now - begun)), 0.5))
