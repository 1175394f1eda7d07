"""The event loop of a worker: asyncio's own, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rheos.connectors.calls.outside_calls import carried
from rheos.runtimes.host.io import FutureCompletion

T = TypeVar("T")

_CLOSES_WITHIN_S = 5.0


class ThreadedLoop:
    """An EventLoop in a thread of its own. That thread calls `wake` after each completion. The process
    ends without waiting for the loop, so a function that blocks its thread delays nothing else."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=carried(self._run), name="rheos-async", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> FutureCompletion[T]:
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        future.add_done_callback(lambda _: self._wake())
        return FutureCompletion(future)

    def stack(self) -> list[traceback.FrameSummary]:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return [] if frame is None else list(traceback.extract_stack(frame))

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        ending = asyncio.run_coroutine_threadsafe(_end(last), self._loop)
        with contextlib.suppress(Exception):
            ending.result(_CLOSES_WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSES_WITHIN_S if ending.done() else 0)


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CLOSES_WITHIN_S / 2)
    await last()
