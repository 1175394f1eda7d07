"""The operator that a thread works for, and descriptions of its calls to servers with their time
limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class _ThreadOperator(threading.local):
    operator: Callable[[], str | None] | None = None


_place = _ThreadOperator()


def operator_here() -> str | None:
    """Return the id of the operator that this thread works for; None outside slots and their
    helpers."""
    return None if _place.operator is None else _place.operator()


def works_for(operator: Callable[[], str | None] | None) -> None:
    """Set the function that returns the operator for which this thread works. Log messages name that
    operator."""
    _place.operator = operator


def carried(work: Callable[[], T]) -> Callable[[], T]:
    """Return `work` for another thread, which then works for the same operator as this thread does
    now."""
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


@dataclass(frozen=True, kw_only=True)
class OutsideCall:
    """Kind of call to a server, and what happens if the server does not answer."""

    server: str
    """Name of the system, for people: "Redis"."""
    call: str
    """Name of the call for messages: "a command"."""
    limit_s: float
    """Seconds without progress after which the call is abandoned. Infinite if the call has no limit,
    because a thread of its own waits and nothing waits for that thread."""
    limit: str = ""
    """Further description of the limit for people: when it restarts, or which setting extends it."""
    then: str
    """What happens at the limit, and why no row is lost or duplicated."""


def thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a daemon thread, not started, that works for the operator that this thread works for
    now."""
    return threading.Thread(target=carried(target), name=name, daemon=True)
