"""Work that may take minutes, beside the loop that answers requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from rheos.listener.threads import in_thread

T = TypeVar("T")


class Aside:
    """At most so many at a time; further ones wait. What was asked of a job is the job's to finish, so
    the end of the process waits for none of them."""

    def __init__(self, at_most: int) -> None:
        self._room = asyncio.Semaphore(at_most)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, from a thread of its own. Raises what it raises."""
        async with self._room:
            return await in_thread(work)
