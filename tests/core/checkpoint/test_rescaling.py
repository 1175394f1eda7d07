"""A running job continues at another parallelism: on timelines (CP40)."""

from __future__ import annotations

import pytest

from rheos.core.checkpoint.events import (
    AfterSavepoint,
    AppendLog,
    AttemptEnded,
    CancelRequested,
    EndJob,
    Outcome,
    ReadLog,
    SavepointEnded,
    SavepointRequested,
    StopAttempt,
    SubtaskFailed,
    Tick,
)
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import Rescaled
from rheos.core.errors import TransportError
from rheos.core.protocol.ids import Attempt
from tests.core.checkpoint.test_coordinator_savepoints import Savepoints, asked, decline, trigger
from tests.core.checkpoint.timelines import acknowledge

WIDER = Rescaled(parallelism=4, instead_of=2)


def rescale(to: int = 4, *, request: int = 1, slots: int | None = 4) -> SavepointRequested:
    return SavepointRequested(request, None, AfterSavepoint.RESCALE, to, slots)


class Rescales(Savepoints):
    def enters_the_width(self) -> Rescales:
        """Play until its checkpoint, 1, is in the log."""
        self.runs()
        assert self.at(10, rescale()) == [trigger(1)]
        [append] = self.at(20, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        assert append.entry.rescaled == WIDER
        self.log_takes(20, append)
        return self


def refused(time: Rescales, request: SavepointRequested, now_ms: int = 10) -> str:
    [answer] = time.at(now_ms, request)
    assert isinstance(answer, SavepointEnded)
    assert answer.error is not None
    return str(answer.error)


class TestIsRefused:
    """Requests that are refused at once, without any effect."""

    @pytest.mark.parametrize(
        ("to", "words"),
        [
            (0, "parallelism 0"),
            (-1, "parallelism -1"),
            (9, "max_parallelism, which is 8"),
            (5, "4 slots"),
        ],
    )
    def test_an_impossible_parallelism(self, to: int, words: str) -> None:
        time = Rescales()
        time.runs()
        assert words in refused(time, rescale(to))
        assert time.coordinator.state is LifecycleState.RUNNING

    def test_during_a_savepoint_or_another_rescale(self) -> None:
        time = Rescales()
        time.runs()
        time.at(10, asked(1))
        assert "in progress" in refused(time, rescale(request=2))
        time = Rescales()
        time.runs()
        time.at(10, rescale())
        assert "the job was not rescaled: a savepoint, a stop" in refused(time, rescale(3, request=2))

    def test_before_the_job_runs(self) -> None:
        assert "it is not running" in refused(Rescales(), rescale())


def test_the_current_parallelism() -> None:
    time = Rescales()
    time.runs()
    assert time.at(10, rescale(2)) == [SavepointEnded(1)]
    assert time.coordinator.state is LifecycleState.RUNNING


def test_the_attempt_ends_when_all_is_committed() -> None:
    time = Rescales().enters_the_width()
    assert time.commits(30, 1) == [StopAttempt(Attempt(1))]
    assert time.coordinator.state is LifecycleState.RESCALING
    assert time.at(40, SubtaskFailed(Attempt(1), 0, TransportError("it leaves"))) == []
    assert time.at(50, AttemptEnded(Attempt(1))) == [ReadLog()]
    assert time.coordinator.restarts == 0
    assert time.coordinator.last_error is None


def test_a_failure_before_the_entry() -> None:
    """Check that nothing has changed."""
    time = Rescales()
    time.runs()
    time.at(10, rescale())
    answers = [a for a in time.at(20, decline(1)) if isinstance(a, SavepointEnded)]
    assert answers[0].error is not None
    assert time.coordinator.state is LifecycleState.RUNNING


def test_a_cancel_while_the_attempt_ends() -> None:
    time = Rescales().enters_the_width()
    time.commits(30, 1)
    assert time.at(40, CancelRequested()) == []
    *_, end = time.at(50, AttemptEnded(Attempt(1)), Tick())
    assert isinstance(end, EndJob)
    assert end.outcome is Outcome.CANCELLED
