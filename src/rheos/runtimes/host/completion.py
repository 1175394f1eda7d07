"""Adapts a Python future to the mailbox's `Completion`."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class FutureCompletion(Generic[T]):
    """A Completion of the ports."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        assert self._future.done(), "a completion is never waited for"
        return self._future.result()
