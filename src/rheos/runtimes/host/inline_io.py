"""I/O for operators within a Spark task of a batch job: there, waiting is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rheos.core.protocol.ports import Completion, EventLoop
from rheos.runtimes.host.event_loop import ThreadedLoop

T = TypeVar("T")


class InlineIo:
    """Does the work at once, in the caller's thread."""

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        return _Done(work)

    def wake(self) -> None:
        """Nobody sleeps for long."""

    def event_loop(self) -> EventLoop:
        return ThreadedLoop(self.wake)


class _Done(Generic[T]):
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
