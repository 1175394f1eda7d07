"""Calls into client libraries end within our limit, whatever the library does."""

from __future__ import annotations

import threading

import pytest

from rheos.connectors.calls import bounded_calls
from rheos.connectors.calls.bounded_calls import (
    AbandonedCallError,
    AbandonedError,
    BoundedCalls,
    CallsUnderWay,
    LoneCalls,
    Progressed,
)
from rheos.core.errors import UnavailableError
from tests.waiting import wait_for

_AT_ONCE_S = 0.01
_LONG_S = 60.0


class Library:
    """Library whose calls block until the test releases them."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.released = threading.Event()

    def block(self, progressed: Progressed) -> str:
        self.let_go.wait(_LONG_S)
        return "too late"


def test_a_call_returns_its_result_or_raises_its_error() -> None:
    calls = BoundedCalls()
    assert calls.run("asked", _LONG_S, lambda progressed: 7) == 7

    def fails(progressed: Progressed) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        calls.run("asked", _LONG_S, fails)
    assert calls.run("asked", _LONG_S, lambda progressed: 8) == 8
    calls.close()


def test_calls_that_end_share_one_thread() -> None:
    calls = BoundedCalls()
    threads = {calls.run("asked", _LONG_S, lambda progressed: threading.get_ident()) for _ in range(5)}
    assert len(threads) == 1
    calls.close()


def test_an_abandoned_call_releases_resources_when_it_returns() -> None:
    under_way, library = CallsUnderWay(), Library()
    calls = BoundedCalls(under_way)
    with pytest.raises(AbandonedCallError, match=r"the topic is written: no answer for 0\.01 s"):
        calls.run("the topic is written", _AT_ONCE_S, library.block, library.released.set)
    assert under_way.abandoned() == 1
    assert under_way.longest_wait() is None
    assert calls.run("again", _LONG_S, lambda progressed: "answer") == "answer"
    assert not library.released.is_set()
    library.let_go.set()
    assert library.released.wait(_LONG_S)
    calls.close()


def test_progress_restarts_the_limit_and_ends_the_work_of_an_abandoned_call() -> None:
    calls, stopped, may_go_on = BoundedCalls(), threading.Event(), threading.Event()

    def works(progressed: Progressed) -> None:
        try:
            may_go_on.wait(_LONG_S)
            progressed()
        except AbandonedError:
            stopped.set()
            raise

    with pytest.raises(AbandonedCallError):
        calls.run("asked", _AT_ONCE_S, works)
    may_go_on.set()
    assert stopped.wait(_LONG_S)

    def in_steps(progressed: Progressed) -> int:
        for _ in range(5):
            progressed()
        return 5

    assert calls.run("asked", _LONG_S, in_steps) == 5
    calls.close()


def test_abandoned_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_calls, "MOST_ABANDONED", 2)
    under_way, library = CallsUnderWay(), Library()
    calls = BoundedCalls(under_way)
    for _ in range(2):
        with pytest.raises(AbandonedCallError):
            calls.run("asked", _AT_ONCE_S, library.block)
    with pytest.raises(UnavailableError, match="2 calls of this process were abandoned"):
        calls.run("asked", _LONG_S, lambda progressed: 1)
    library.let_go.set()


def test_waiting_calls_are_known_with_purpose_and_duration() -> None:
    under_way, library = CallsUnderWay(), Library()
    calls, begun = BoundedCalls(under_way), threading.Event()

    def blocks(progressed: Progressed) -> str:
        begun.set()
        return library.block(progressed)

    caller = threading.Thread(target=lambda: calls.run("the table is written", _LONG_S, blocks))
    caller.start()
    assert begun.wait(_LONG_S)
    waits = under_way.longest_wait()
    assert waits is not None
    assert waits[0] == "the table is written"
    assert waits[1] >= 0
    library.let_go.set()
    caller.join(_LONG_S)
    calls.close()


def test_a_call_is_not_made_next_to_an_abandoned_one_with_its_key() -> None:
    calls, library = LoneCalls(CallsUnderWay()), Library()
    with pytest.raises(AbandonedCallError, match=r"published: no answer for 0\.01 s"):
        calls.run("a", "published", _AT_ONCE_S, library.block)
    with pytest.raises(AbandonedCallError, match="an earlier call was abandoned and has not returned"):
        calls.run("a", "published", _LONG_S, lambda progressed: 1)
    assert calls.run("b", "published", _LONG_S, lambda progressed: 1) == 1
    library.let_go.set()
    wait_for(lambda: "a" not in calls._busy)
    assert calls.run("a", "published", _LONG_S, lambda progressed: 1) == 1
    with pytest.raises(ZeroDivisionError):
        calls.run("a", "published", _LONG_S, lambda progressed: 1 // 0)
    assert calls.run("a", "published", _LONG_S, lambda progressed: 1) == 1


def test_work_that_usually_takes_long_does_not_count_as_waiting() -> None:
    under_way = CallsUnderWay()
    with under_way.watched("the table is published", quiet_s=_LONG_S):
        assert under_way.longest_wait() is None
    with under_way.watched("the table is published"):
        waits = under_way.longest_wait()
        assert waits is not None
        assert waits[0] == "the table is published"
    assert under_way.longest_wait() is None
