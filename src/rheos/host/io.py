"""The real clock, and the I/O executor of a worker: a few threads beside the mailbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000


class _Pending(Generic[T]):
    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        assert self._future.done(), "a completion is never waited for"
        return self._future.result()


class ThreadedIo:
    """An IoExecutor on `threads` threads. `wake` is called, from one of them, after each completion,
    and by who else has something for the mailbox.

    Its queue is bounded by those who use it: a reader asks for one chunk at a time, a checkpoint for
    one write per state.
    """

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rheos-io")
        self.wake = wake

    def submit(self, work: Callable[[], T]) -> _Pending[T]:
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self.wake())
        return _Pending(future)

    def close(self) -> None:
        """Drops what has not begun and waits for what has."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class DetachedIo:
    """An IoExecutor with a thread for each piece of work, for what may hang: nothing waits for it, and
    the process ends without it. Nobody is woken."""

    def submit(self, work: Callable[[], T]) -> _Pending[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="rheos-detached", daemon=True).start()
        return _Pending(future)

    def wake(self) -> None:
        pass
