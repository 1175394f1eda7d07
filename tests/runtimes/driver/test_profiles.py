"""One profile at a time, requested from one subtask of the running attempt; answers are validated."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.errors import ConfigurationError, TransportError
from rheos.core.protocol.control import SampleStacks, StacksSampled
from rheos.core.protocol.ids import Attempt
from rheos.core.protocol.stacks import MOST_STACKS, StackProfile, profile_problem
from rheos.runtimes.driver.profiles import ProfileService

ONE, TWO = Attempt(1), Attempt(2)


class Driven:
    """Profile service, with the messages that it has sent."""

    def __init__(self) -> None:
        self.service = ProfileService()
        self.sent: list[tuple[int, int, int]] = []

    def step(self, now_ms: int = 0, attempt: Attempt = ONE, parallelism: int = 2) -> None:
        def send(message: SampleStacks, subtask: int) -> None:
            self.sent.append((message.request, message.for_ms, subtask))

        self.service.step(attempt, parallelism, now_ms, send)

    def hears(self, request: int = 1, **changes: Any) -> None:
        self.service.sampled(StacksSampled(attempt=ONE, request=request, profile=profile(**changes)))


def profile(**changes: Any) -> StackProfile:
    made: dict[str, Any] = {"subtask": 1, "every_ms": 10, "samples": 3, "stacks": {"a;b": 2, "a": 1}}
    return StackProfile(**{**made, **changes})


def test_a_profile_is_requested_once_and_returned() -> None:
    driven = Driven()
    answer = driven.service.request(1, 500)
    driven.step()
    driven.step(10)
    assert driven.sent == [(1, 500, 1)]
    driven.hears(request=7)
    driven.hears(subtask=0)
    assert not answer.done(), "of another request, or of another subtask"
    driven.hears()
    assert answer.result(0).folded() == "a 1\na;b 2\n"
    assert driven.service.next_deadline_ms() is None


def test_a_second_profile_is_refused_while_one_runs() -> None:
    driven = Driven()
    driven.service.request(0, 500)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="a subtask of the job is already being"):
            driven.service.request(0, 500).result(0)
        driven.step()


@pytest.mark.parametrize("for_ms", [0, -1, 601_000])
def test_an_invalid_duration_is_refused(for_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="a subtask cannot be profiled for"):
        ProfileService().request(0, for_ms).result(0)


@pytest.mark.parametrize(("subtask", "parallelism"), [(2, 2), (0, 0), (-1, 2)])
def test_an_unknown_subtask_is_refused(subtask: int, parallelism: int) -> None:
    driven = Driven()
    answer = driven.service.request(subtask, 500)
    driven.step(parallelism=parallelism)
    with pytest.raises(ConfigurationError, match="has no subtask"):
        answer.result(0)
    assert driven.sent == []


@pytest.mark.parametrize(
    ("now_ms", "attempt", "says"), [(10_500, ONE, "did not respond"), (20, TWO, "attempt has ended")]
)
def test_a_request_to_a_lost_worker_fails(now_ms: int, attempt: Attempt, says: str) -> None:
    driven = Driven()
    answer = driven.service.request(0, 500)
    driven.step()
    assert driven.service.next_deadline_ms() == 10_500
    driven.step(now_ms, attempt)
    with pytest.raises(TransportError, match=says):
        answer.result(0)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 4},
        {"stacks": {"a": -1}, "samples": -1},
        {"stacks": {"": 3}},
        {"stacks": {"a" * 40_000: 3}},
        {"stacks": {str(n): 1 for n in range(MOST_STACKS + 2)}, "samples": MOST_STACKS + 2},
    ],
)
def test_an_invalid_profile_is_refused(changes: dict[str, Any]) -> None:
    assert profile_problem(profile(**changes)) is not None
    driven = Driven()
    answer = driven.service.request(1, 500)
    driven.step()
    driven.hears(**changes)
    with pytest.raises(TransportError, match="the profile of subtask"):
        answer.result(0)


def test_the_end_of_the_job_fails_all_requests() -> None:
    driven = Driven()
    waits = driven.service.request(1, 500)
    driven.service.close(TransportError("it has ended"))
    for answer in (waits, driven.service.request(1, 500)):
        with pytest.raises(TransportError, match="it has ended"):
            answer.result(0)
