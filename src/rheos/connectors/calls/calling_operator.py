"""The operator that the code of this thread works for, by which its log messages are identified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class _Place(threading.local):
    operator: Callable[[], str | None] | None = None


_place = _Place()


def operator_here() -> str | None:
    """The operator's id; None in a thread that works for none, or is not of a slot."""
    return None if _place.operator is None else _place.operator()


def works_for(operator: Callable[[], str | None] | None) -> None:
    """From now on this thread works for what `operator` gives when something is logged."""
    _place.operator = operator


def carried(work: Callable[[], T]) -> Callable[[], T]:
    """The same work for another thread, which does it for the operator that this one works for now."""
    if _place.operator is None:
        return work
    operator = _place.operator()

    def run() -> T:
        before = _place.operator
        _place.operator = lambda: operator
        try:
            return work()
        finally:
            _place.operator = before

    return run
