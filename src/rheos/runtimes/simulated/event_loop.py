"""An asyncio event loop in virtual time.

The world gives it turns, and its timers expire by the virtual clock. It has no sockets.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from traceback import FrameSummary
from typing import Any, TypeVar

from rheos.core.protocol.ports import Completion

T = TypeVar("T")

_STEPS_PER_TURN = 1_000_000
_LAST_STEPS = 1000


class VirtualLoop(asyncio.AbstractEventLoop):
    """The running loop of coroutines; `now_us` is the clock. Methods that it lacks, such as those of
    sockets, raise NotImplementedError, as asyncio documents."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = 0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Tasks that are not done, the oldest first."""

    def turn(self, steps: int = _STEPS_PER_TURN) -> bool:
        """Run all that can run now. Return whether there was any."""
        before = _get_running_loop()
        _set_running_loop(self)
        ran = False
        try:
            for _ in range(steps):
                while self._timers and self._timers[0][0] <= self.time():
                    self._ready.append(heappop(self._timers)[2])
                if not self._ready:
                    break
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                ran = True
        finally:
            _set_running_loop(before)
        return ran

    def next_us(self) -> int | None:
        """Return the time of its next known action, or None."""
        if self._ready:
            return self._now_us()
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        # Rounded up, so that the timer is due at that time.
        return -int(-self._timers[0][0] * 1e6 // 1) if self._timers else None

    # --- the interface that asyncio needs ---------------------------------------------------------

    def time(self) -> float:
        return self._now_us() / 1e6

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heappush(self._timers, (when, self._numbers, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_soon(run)
        return future

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors of tasks whose result nobody awaits."""


class SimEventLoop:
    """The EventLoop of a simulated slot, which gives it turns. `delay_us` draws the time in us until a
    coroutine starts."""

    def __init__(self, now_us: Callable[[], int], delay_us: Callable[[], int]) -> None:
        self.loop = VirtualLoop(now_us)  # type: ignore[abstract]
        self._delay_us = delay_us

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        submitted: _SubmittedCall[T] = _SubmittedCall()
        self.loop.call_later(self._delay_us() / 1e6, submitted.begin, self.loop, work)
        return submitted

    def stack(self) -> list[FrameSummary]:
        return []

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        for task in list(self.loop.tasks):
            task.cancel()
        self.loop.turn(_LAST_STEPS)
        self.loop.create_task(last())
        self.loop.turn(_LAST_STEPS)


class InstantEventLoop:
    """An EventLoop for a caller that may wait: its time jumps until the submitted work is done."""

    def __init__(self) -> None:
        self._us = 0
        self.loop = VirtualLoop(lambda: self._us)  # type: ignore[abstract]

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        submitted: _SubmittedCall[T] = _SubmittedCall()
        submitted.begin(self.loop, work)
        while not submitted.done():
            if self.loop.turn():
                continue
            due_us = self.loop.next_us()
            if due_us is None:
                break
            self._us = max(self._us, due_us)
        return submitted

    def stack(self) -> list[FrameSummary]:
        return []

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.submit(last)


class _SubmittedCall(Completion[T]):
    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    def begin(self, loop: VirtualLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = loop.create_task(work())

    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def result(self) -> T:
        assert self._task is not None
        assert self._task.done(), "a completion is never waited for"
        return self._task.result()
