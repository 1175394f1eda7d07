"""Threads for handlers. They are reused, because starting one costs more than a short request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

_IDLE_S = 0.5
"""Idle time after which a thread ends."""

T = TypeVar("T")
_Work: TypeAlias = Callable[[], None]


class HandlerThreads:
    """Pool of daemon threads that grows with the work; its callers limit that. Unlike the threads of an
    executor, they do not delay the end of the process."""

    def __init__(self) -> None:
        self._handed: SimpleQueue[_Work | None] = SimpleQueue()
        """Work for idle threads; None ends a thread."""
        self._lock = threading.Lock()
        self._idle = 0
        """Number of idle threads, minus the work that is queued for them."""

    def start(self, work: _Work) -> None:
        """Run the work in a thread. It must not raise."""
        with self._lock:
            reused = self._idle > 0
            self._idle -= reused
        if reused:
            self._handed.put(work)
        else:
            threading.Thread(
                target=self._run, args=(work,), name="rheos-http-work", daemon=True
            ).start()

    def end_idle(self) -> None:
        """End the idle threads."""
        with self._lock:
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._handed.put(None)

    def _run(self, first: _Work) -> None:
        work: _Work | None = first
        del first
        while work is not None:
            work()
            del work  # The thread outlives the work, and must not keep its objects alive.
            with self._lock:
                self._idle += 1
            try:
                work = self._handed.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                work = self._handed.get()  # Work was queued at the last moment.


_THREADS = HandlerThreads()


def _begin_again() -> None:
    """Reset the pool in a forked process, which has no threads."""
    global _THREADS
    _THREADS = HandlerThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


def end_idle_threads() -> None:
    """End the idle threads. Called when a listener was closed."""
    _THREADS.end_idle()


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread, and return its result or raise its error."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not found.done():  # The waiting task may have been cancelled.
            settled()

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            raised = error
            _call_soon(loop, lambda: settle(lambda: found.set_exception(raised)))
        else:
            _call_soon(loop, lambda: settle(lambda: found.set_result(result)))

    _THREADS.start(run)
    return await found


def _call_soon(loop: asyncio.AbstractEventLoop, do: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # The loop has ended already.
        loop.call_soon_threadsafe(do)
