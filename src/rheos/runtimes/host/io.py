"""The machine's clock, and I/O: executors on threads or in the caller's thread, and an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
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


# --- the event loop of a worker: asyncio's own, in a thread -------------------------------------------


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
    """An IoExecutor on `threads` threads. One of them calls `wake` after each completion. Others that
    deliver something to the mailbox call it, too. Its users bound its queue: a reader requests one
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

    def event_loop(self) -> EventLoop:
        return ThreadedLoop(self.wake)

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

    def wake(self) -> None:
        """Do nothing: no thread sleeps for long."""

    def event_loop(self) -> EventLoop:
        return ThreadedLoop(self.wake)


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
