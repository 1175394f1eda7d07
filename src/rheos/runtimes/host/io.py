"""The real clock, and the I/O executor of a worker: a few threads next to the mailbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

from rheos.connectors.calls.calling_operator import carried
from rheos.core.protocol.ports import EventLoop
from rheos.runtimes.host.completion import FutureCompletion
from rheos.runtimes.host.event_loop import ThreadedLoop

T = TypeVar("T")


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000


class ThreadedIo:
    """An IoExecutor on `threads` threads. `wake` is called, from one of them, after each completion,
    and by who else has something for the mailbox.

    Its queue is bounded by those who use it: a reader asks for one chunk at a time, a checkpoint for
    one write per state.
    """

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rheos-io")
        self._under_way: set[Future[Any]] = set()
        self.wake = wake

    def submit(self, work: Callable[[], T]) -> FutureCompletion[T]:
        future = self._pool.submit(carried(work))
        self._under_way.add(future)
        future.add_done_callback(self._ended)
        return FutureCompletion(future)

    def _ended(self, future: Future[Any]) -> None:
        self._under_way.discard(future)
        self.wake()

    def event_loop(self) -> EventLoop:
        return ThreadedLoop(self.wake)

    def close(self, within_s: float | None = None) -> bool:
        """Drops what has not begun and waits for what has; no longer than `within_s`, where it is
        given. Returns whether all has ended. May be called again."""
        self._pool.shutdown(wait=within_s is None, cancel_futures=True)
        return not wait_for(list(self._under_way), within_s).not_done


class DetachedIo:
    """An IoExecutor with a thread for each piece of work, for what may hang: nothing waits for it, and
    the process ends without it. `wake` as in `ThreadedIo`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def submit(self, work: Callable[[], T]) -> FutureCompletion[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            self.wake()

        threading.Thread(target=run, name="rheos-detached", daemon=True).start()
        return FutureCompletion(future)
