"""The operator that the code of a thread works for, and its calls to servers with their time limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class OutsideCall:
    """A kind of call to a server, and what happens if the server does not answer."""

    server: str
    """The system, for people: "Redis"."""
    call: str
    """Name of the call for messages: "a command"."""
    limit_s: float
    """Seconds without progress after which the call is abandoned. Infinite if the call has no limit,
    because a thread of its own waits and nothing waits for that thread."""
    limit: str = ""
    """More about the limit, for people: when it begins again, or which setting extends it."""
    then: str
    """What happens at the limit, and why no row is lost or duplicated."""


def thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a daemon thread that works for the operator for which this thread works now. The caller
    starts it."""
    return threading.Thread(target=carried(target), name=name, daemon=True)
