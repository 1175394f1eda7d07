"""A run up to what exists now: when it stops, with which checkpoint, and how it resumes after a failure
(CP39)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.available_now import AvailableNow
from rheos.core.checkpoint.events import (
    Action,
    AttemptEnded,
    AttemptRunning,
    EndJob,
    Outcome,
    ReadLog,
    Recovered,
    SendToAll,
    StopAttempt,
    SubtaskFailed,
    Tick,
)
from rheos.core.errors import TransportError
from rheos.core.protocol.control import (
    Cancel,
    CaughtUp,
    Committed,
    Decline,
    StopNeeded,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from tests.core.checkpoint.timelines import COUNT, SHAPE, Timeline

ONE, OTHER = OperatorId("source-1"), OperatorId("source-2")
SHAPE_NOW = replace(SHAPE, until_now=frozenset({COUNT}))


def caught_up(subtask: int, source: OperatorId = COUNT, attempt: int = 1) -> CaughtUp:
    return CaughtUp(attempt=Attempt(attempt), subtask=subtask, operator=source)


@given(said=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([ONE, OTHER])), max_size=12))
def test_all_is_read_when_every_subtask_reports_every_source(
    said: list[tuple[int, OperatorId]],
) -> None:
    now = AvailableNow(frozenset({ONE, OTHER}))
    now.begin(3)
    for subtask, source in said:
        now.reported(caught_up(subtask, source))
    assert now.all_read == (len(set(said)) == 6)
    now.begin(3)
    assert not now.all_read


def test_a_job_that_does_not_stop_never_has_read_all() -> None:
    now = AvailableNow(frozenset())
    now.begin(1)
    now.reported(caught_up(0, ONE))
    assert not now.all_read


def triggers(actions: list[Action]) -> list[CheckpointId]:
    sent = (action.message for action in actions if isinstance(action, SendToAll))
    return [message.checkpoint for message in sent if isinstance(message, TriggerCheckpoint)]


def committed(subtask: int, checkpoint: int, attempt: int = 1) -> Committed:
    return Committed(attempt=Attempt(attempt), subtask=subtask, checkpoint=CheckpointId(checkpoint))


def test_the_run_stops_once_its_checkpoint_is_committed_everywhere() -> None:
    time = Timeline(shape=SHAPE_NOW).runs()
    assert triggers(time.at(10, caught_up(0))) == []
    assert triggers(time.at(20, caught_up(1))) == [CheckpointId(1)]
    time.completes(30, 1)
    assert triggers(time.at(5000, Tick())) == []  # Nothing after the last word.
    time.at(5010, committed(0, 1))
    assert time.at(5020, committed(1, 1)) == [
        SendToAll(Cancel(attempt=Attempt(1))),
        StopAttempt(Attempt(1)),
    ]
    assert time.at(5030, AttemptEnded(Attempt(1)))[-1] == EndJob(Outcome.STOPPED)


def test_a_checkpoint_that_fails_is_taken_again() -> None:
    time = Timeline(shape=SHAPE_NOW).runs()
    time.at(10, caught_up(0), caught_up(1))
    declined = Decline(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1), reason="full")
    assert triggers(time.at(20, declined)) == [CheckpointId(2)]


def test_an_attempt_that_fails_before_is_followed_by_one_that_reads_again() -> None:
    time = Timeline(shape=SHAPE_NOW).runs()
    time.at(10, caught_up(0), caught_up(1))
    time.at(20, SubtaskFailed(Attempt(1), 0, TransportError("lost")), AttemptEnded(Attempt(1)))
    time.at(600, Tick())
    time.claims(600)
    time.at(600, Recovered(Attempt(2)), AttemptRunning(Attempt(2)))
    assert triggers(time.at(700, caught_up(0, attempt=2))) == []
    assert len(triggers(time.at(710, caught_up(1, attempt=2)))) == 1


def test_a_checkpoint_in_the_log_outlives_its_attempt_and_no_other_is_started() -> None:
    time = Timeline(shape=SHAPE_NOW).runs()
    time.at(10, caught_up(0), caught_up(1))
    time.completes(20, 1)
    time.at(30, SubtaskFailed(Attempt(1), 0, TransportError("lost")), AttemptEnded(Attempt(1)))
    assert time.at(600, Tick()) == [ReadLog()]
    time.claims(600)
    assert time.at(610, Recovered(Attempt(2))) == [EndJob(Outcome.STOPPED)]


def stop_needed(attempt: int = 1) -> StopNeeded:
    return StopNeeded(attempt=Attempt(attempt), subtask=1, operator=COUNT, reason="a new column")


def test_a_source_that_cannot_continue_stops_any_job_with_a_checkpoint() -> None:
    """CP47. A report of an attempt that fails does not count for the next one."""
    time = Timeline().runs()
    assert triggers(time.at(10, stop_needed())) == [CheckpointId(1)]
    time.at(20, SubtaskFailed(Attempt(1), 0, TransportError("lost")), AttemptEnded(Attempt(1)))
    time.at(600, Tick())
    time.claims(600)
    assert triggers(time.at(600, Recovered(Attempt(2)), AttemptRunning(Attempt(2)))) == []
    assert triggers(time.at(700, stop_needed(attempt=1))) == []
    [checkpoint] = triggers(time.at(710, stop_needed(attempt=2)))
    time.completes(720, checkpoint)
    time.at(730, committed(0, checkpoint, 2), committed(1, checkpoint, 2))
    assert time.at(740, AttemptEnded(Attempt(2)))[-1] == EndJob(Outcome.STOPPED)
