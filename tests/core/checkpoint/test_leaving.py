"""A driver whose process must end: it leaves a checkpoint, or ends at once (CP46)."""

from __future__ import annotations

import pytest

from rheos.core.checkpoint.events import (
    Action,
    AttemptEnded,
    AttemptRunning,
    EndJob,
    LeaveRequested,
    LogRead,
    Outcome,
    Recovered,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    Tick,
)
from rheos.core.errors import TransportError
from rheos.core.protocol.control import Cancel, Decline, TriggerCheckpoint
from rheos.core.protocol.ids import Attempt, CheckpointId
from tests.core.checkpoint.timelines import Timeline

STOPPED = EndJob(Outcome.STOPPED)
FAILED = SubtaskFailed(Attempt(1), 0, TransportError("lost"))


def triggers(actions: list[Action]) -> list[CheckpointId]:
    sent = (action.message for action in actions if isinstance(action, SendToAll))
    return [message.checkpoint for message in sent if isinstance(message, TriggerCheckpoint)]


def test_a_running_job_ends_with_a_checkpoint_from_which_the_next_driver_resumes() -> None:
    time = Timeline().runs()
    assert triggers(time.at(10, LeaveRequested())) == [CheckpointId(1)]
    time.completes(20, 1)
    assert time.at(5000, Tick()) == [], "no other checkpoint is opened"
    assert time.commits(5010, 1) == [
        SendToAll(Cancel(attempt=Attempt(1))),
        StopAttempt(Attempt(1)),
    ]
    assert time.at(5020, AttemptEnded(Attempt(1)))[-1] == STOPPED
    [start] = Timeline(log=time.log).starts()
    assert isinstance(start, StartAttempt)
    assert start.restore is not None
    assert start.restore.entry.checkpoint == 1


def test_a_checkpoint_that_fails_is_taken_again() -> None:
    time = Timeline().runs()
    time.at(10, LeaveRequested())
    declined = Decline(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1), reason="full")
    assert triggers(time.at(20, declined)) == [CheckpointId(2)]


def test_a_checkpoint_that_is_open_already_is_followed_by_the_last() -> None:
    time = Timeline().runs()
    assert triggers(time.at(1000, Tick())) == [CheckpointId(1)]
    assert triggers(time.at(1010, LeaveRequested())) == []
    assert triggers(time.completes(1020, 1)) == [CheckpointId(2)]


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_job_whose_attempt_fails_ends_without_a_restart(asked_first: bool) -> None:
    time = Timeline().runs()
    events = [LeaveRequested(), FAILED] if asked_first else [FAILED, LeaveRequested()]
    assert STOPPED not in time.at(10, *events)
    assert time.at(20, AttemptEnded(Attempt(1)))[-1] == STOPPED


@pytest.mark.parametrize("steps", range(4))
def test_a_job_that_does_not_run_yet_ends_at_once(steps: int) -> None:
    time = Timeline()
    if steps > 0:
        time.at(0, Start())
    if steps > 1:
        time.at(0, LogRead(time.view()))
    if steps > 2:
        time = Timeline()
        time.starts()
        time.at(10, LeaveRequested())
        time.at(11, AttemptRunning(Attempt(1)))
        assert time.at(12, AttemptEnded(Attempt(1))) == [STOPPED]
        return
    actions = time.at(10, LeaveRequested())
    assert actions[-1:] == [STOPPED]
    assert time.at(20, Recovered(Attempt(1)), AttemptRunning(Attempt(1))) == []
