"""Work that may take minutes, beside the loop that answers requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from rheos.connectors.listener.threads import in_thread

T = TypeVar("T")


class BackgroundWork:
    """Runs up to a maximum number of calls at a time; further calls wait. The process ends without
    waiting for them, because the job itself finishes what it was asked to do."""

    def __init__(self, at_most: int) -> None:
        self._room = asyncio.Semaphore(at_most)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, from a thread of its own. Raises what it raises."""
        async with self._room:
            return await in_thread(work)
