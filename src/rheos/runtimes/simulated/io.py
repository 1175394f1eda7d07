"""Simulated I/O: submitted work happens when the scheduler chooses, or never, after a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from rheos.core.protocol.ports import EventLoop
from rheos.runtimes.host.io import InlineIo

if TYPE_CHECKING:
    from rheos.runtimes.simulated.event_loop import VirtualLoop

T = TypeVar("T")


class SimCompletion(Generic[T]):
    def __init__(self, work: Callable[[], T], at_us: int) -> None:
        self.at_us = at_us
        self._work = work
        self._value: T | None = None
        self._error: Exception | None = None
        self._done = False

    def run(self) -> None:
        """Do the work. The scheduler calls it once."""
        assert not self._done
        try:
            self._value = self._work()
        except Exception as error:
            self._error = error
        self._done = True

    def done(self) -> bool:
        return self._done

    def result(self) -> T:
        assert self._done, "a completion is never waited for"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class SimIo:
    """An IoExecutor. `delay_us` draws how long each piece of work takes."""

    def __init__(self, now_us: Callable[[], int], delay_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._delay_us = delay_us
        self._pending: list[SimCompletion[object]] = []
        self._loops: list[VirtualLoop] = []

    def submit(self, work: Callable[[], T]) -> SimCompletion[T]:
        completion = SimCompletion(work, self._now_us() + self._delay_us())
        self._pending.append(completion)  # type: ignore[arg-type]
        return completion

    aside = submit

    def event_loop(self) -> EventLoop:
        from rheos.runtimes.simulated.event_loop import SimEventLoop  # Few jobs need asyncio.

        loop = SimEventLoop(self._now_us, self._delay_us)
        self._loops.append(loop.loop)
        return loop

    def wake(self) -> None:
        """Do nothing: the caller runs within a turn of the process, which checks everything."""

    def run_due(self) -> bool:
        """Do what is due, in the order of its time. Return whether there was any."""
        now_us = self._now_us()
        due = sorted((c for c in self._pending if c.at_us <= now_us), key=lambda c: c.at_us)
        self._pending = [c for c in self._pending if c.at_us > now_us]
        for completion in due:
            completion.run()
        turned = [loop.turn() for loop in self._loops]
        return bool(due) or any(turned)

    def perish(self, goes_through: Callable[[], bool]) -> None:
        """End the process's I/O. `goes_through` draws which pending work takes effect, without a
        result."""
        abandoned, self._pending = self._pending, []
        self._loops.clear()
        for completion in abandoned:
            if goes_through():
                completion.run()

    def next_us(self) -> int | None:
        times = [completion.at_us for completion in self._pending]
        times += [us for loop in self._loops if (us := loop.next_us()) is not None]
        return min(times, default=None)


# --- for callers who step operators by hand -----------------------------------------------------------


class InstantIo(InlineIo):
    """The I/O of test harnesses, and of replays."""

    def event_loop(self) -> EventLoop:
        from rheos.runtimes.simulated.event_loop import InstantEventLoop

        return InstantEventLoop()
