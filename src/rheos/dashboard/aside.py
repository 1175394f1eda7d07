"""Work that may take minutes, beside the loop that answers requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """At most so many at a time; further ones wait. The end of the process waits for none of them, as
    it would for the threads of an executor: what was asked of a job is the job's to finish."""

    def __init__(self, at_most: int) -> None:
        self._room = asyncio.Semaphore(at_most)

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, from a thread of its own. Raises what it raises."""
        async with self._room:
            loop = asyncio.get_running_loop()
            found: asyncio.Future[T] = loop.create_future()

            def settle(settled: Callable[[], None]) -> None:
                # Who asked may have gone.
                if not found.done():
                    settled()

            def at_work() -> None:
                with contextlib.suppress(RuntimeError):  # The loop has ended.
                    try:
                        result = work()
                    except Exception as error:
                        raised = error
                        loop.call_soon_threadsafe(settle, lambda: found.set_exception(raised))
                    else:
                        loop.call_soon_threadsafe(settle, lambda: found.set_result(result))

            threading.Thread(target=at_work, name="rheos-operation", daemon=True).start()
            return await found
