"""Waits of the main thread that end on Ctrl-C.

Libraries may handle SIGINT so that a wait for a lock starts again (`SA_RESTART`; Polars does). Python
then raises KeyboardInterrupt only when the wait ends. So each wait is divided into short ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_LOOK_EVERY_S = 0.25


def event_set(event: threading.Event, timeout_s: float | None = None) -> bool:
    """Wait for an event. Return whether it is set; False after the time."""
    return _waited(event.wait, event.is_set, timeout_s)


def thread_ended(thread: threading.Thread) -> None:
    """Wait for the end of a thread."""
    _waited(thread.join, lambda: not thread.is_alive(), None)


def result_of(future: Future[T]) -> T:
    """Wait for the result of a future, and return it, or raise its error."""
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    event_set(ended)
    return future.result()


def _waited(
    wait: Callable[[float], object], is_over: Callable[[], bool], timeout_s: float | None
) -> bool:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while not is_over():
        left_s = _LOOK_EVERY_S if deadline is None else deadline - time.monotonic()
        if left_s <= 0:
            return False
        wait(min(left_s, _LOOK_EVERY_S))
    return True
