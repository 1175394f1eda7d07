"""The machine's clock, and I/O: executors on threads or in the caller's thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, Generic, TypeVar

from rheos.connectors.calls.outside_calls import carried
from rheos.core.protocol.ports import Completion, EventLoop

T = TypeVar("T")


class FutureCompletion(Generic[T]):
    """A Completion of the ports, over a Future."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        assert self._future.done(), "a completion is never waited for"
        return self._future.result()


# --- the clock and the executor of a worker -----------------------------------------------------------


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000


class ThreadedIo:
    """An IoExecutor on `threads` threads. One of them calls `wake` after each completion. Other threads
    that deliver something to the mailbox call it, too. Its users bound its queue: a reader requests one
    chunk at a time, a checkpoint one write per state."""

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

    def aside(self, work: Callable[[], T]) -> FutureCompletion[T]:
        return DetachedIo(self.wake).submit(work)

    def event_loop(self) -> EventLoop:
        return _event_loop(self.wake)

    def close(self, within_s: float | None = None) -> bool:
        """Drop work that has not begun and wait for the rest, for at most `within_s` if it is passed.
        Return whether all work has ended. May be called again."""
        self._pool.shutdown(wait=within_s is None, cancel_futures=True)
        return not wait_for(list(self._under_way), within_s).not_done


class DetachedIo:
    """An IoExecutor with a thread for each piece of work, for calls that may hang. Nothing waits for
    them, and the process ends without them. `wake` is as in `ThreadedIo`."""

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


# --- within a Spark task of a batch job, where waiting is allowed -------------------------------------


class InlineIo:
    """An IoExecutor that does the work at once, in the caller's thread."""

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        return _CompletedCall(work)

    aside = submit

    def wake(self) -> None:
        """Do nothing: no thread sleeps for long."""

    def event_loop(self) -> EventLoop:
        return _event_loop(self.wake)


class _CompletedCall(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._error: Exception | None = None
        try:
            self._value = work()
        except Exception as error:
            self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value


def _event_loop(wake: Callable[[], None]) -> EventLoop:
    from rheos.runtimes.host.event_loop import ThreadedLoop  # Few jobs need asyncio.

    return ThreadedLoop(wake)
