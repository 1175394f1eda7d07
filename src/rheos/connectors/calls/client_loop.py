"""Event loop of one client that is written for asyncio.

It runs only during a call: between calls nothing is read from the connection, so a slow job slows the
server down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

CLOSE_S = 1.0
"""Seconds that closing may take, for each of its steps."""


class ClientLoop:
    """Event loop for one thread at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    @property
    def is_closed(self) -> bool:
        """Return whether the loop was closed."""
        return self.loop.is_closed()

    def run(self, work: Awaitable[T], limit_s: float) -> T:
        """Run until the work ends. Raises TimeoutError at the limit."""

        async def bounded() -> T:
            return await asyncio.wait_for(work, limit_s)

        return self.loop.run_until_complete(bounded())

    def close(self) -> None:
        """Cancel the tasks that are left, and close the loop."""
        # If a client is closed while it connects, its tasks are still running.
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_S))
        self.loop.close()
