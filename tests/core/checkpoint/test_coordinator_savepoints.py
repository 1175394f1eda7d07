"""Savepoints on timelines: when one is taken, when its manifest is written, and how each request ends
(CP13, CP15, CP16)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rheos.core.checkpoint.config import NoRestart
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptRunning,
    CancelRequested,
    DiscardSavepoint,
    EndJob,
    LogFailed,
    LogLost,
    Outcome,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRequested,
    SavepointWritten,
    SendToAll,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    Tick,
    WriteSavepoint,
)
from rheos.core.checkpoint.log_entries import JobFinished
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import CheckpointError, TransportError
from rheos.core.protocol.control import (
    Cancel,
    CheckpointAborted,
    CheckpointComplete,
    Committed,
    Decline,
    Drain,
    Finish,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId
from tests.core.checkpoint.timelines import CONFIG, Timeline, acknowledge, completed, saved

AWAY = CheckpointError("the store is away")


def asked(request: int = 1, after: AfterSavepoint = AfterSavepoint.GO_ON) -> SavepointRequested:
    return SavepointRequested(request, f"S{request}", after)


def trigger(checkpoint: int, savepoint: str | None = None, attempt: int = 1) -> SendToAll:
    return SendToAll(
        TriggerCheckpoint(
            attempt=Attempt(attempt), checkpoint=CheckpointId(checkpoint), savepoint=savepoint
        )
    )


def complete(checkpoint: int) -> SendToAll:
    return SendToAll(CheckpointComplete(attempt=Attempt(1), checkpoint=CheckpointId(checkpoint)))


def aborted(checkpoint: int) -> SendToAll:
    return SendToAll(CheckpointAborted(attempt=Attempt(1), checkpoint=CheckpointId(checkpoint)))


def decline(checkpoint: int, subtask: int = 0) -> Decline:
    return Decline(
        attempt=Attempt(1), subtask=subtask, checkpoint=CheckpointId(checkpoint), reason="full"
    )


def failed(attempt: int = 1) -> SubtaskFailed:
    return SubtaskFailed(Attempt(attempt), 0, TransportError("a worker is lost"))


def write(checkpoint: int, request: int = 1, *, final: bool = False) -> WriteSavepoint:
    entry = completed(checkpoint, final=final, savepoint=f"S{request}")
    own = msgspec.structs.replace(entry, handles=[saved(0), saved(1)], committables=[])
    return WriteSavepoint(request, f"S{request}", own)


def ended_badly(action: Action, request: int, *words: str) -> None:
    assert isinstance(action, SavepointEnded)
    assert action.request == request
    assert isinstance(action.error, CheckpointError)
    for word in words:
        assert word in str(action.error)


class Savepoints(Timeline):
    def enters(self, now_ms: int, checkpoint: int, attempt: int = 1) -> list[Action]:
        """Let all subtasks acknowledge the savepoint's checkpoint and the log accept it; return the
        actions."""
        shares = [acknowledge(i, checkpoint, attempt, savepoint=True) for i in (0, 1)]
        [append] = self.at(now_ms, *shares)
        return self.log_takes(now_ms, append)

    def waits_for_commits(self, after: AfterSavepoint = AfterSavepoint.GO_ON) -> Savepoints:
        """Play until checkpoint 1, that of the first savepoint, is in the log."""
        self.runs()
        assert self.at(10, asked(after=after)) == [trigger(1, "S1")]
        entry = completed(1, savepoint="S1")
        assert self.enters(20, 1) == [Announce(entry), complete(1)]
        return self

    def restarts(self, now_ms: int, attempt: int = 2) -> list[Action]:
        """Play from a failed attempt that has ended to the recovery of the next."""
        assert self.at(now_ms, AttemptEnded(Attempt(attempt - 1))) == []
        self.at(now_ms + 500, Tick())
        return self.claims(now_ms + 500)


class TestGoOn:
    def test_the_manifest_is_written_when_all_have_committed(self) -> None:
        """Check CP13."""
        time = Savepoints().waits_for_commits()
        told = Committed(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1))
        assert time.at(30, told, told) == []
        assert time.commits(40, 1) == [write(1)]
        assert time.at(50, SavepointWritten(1)) == [SavepointEnded(1)]
        assert time.at(1009, Tick()) == []
        assert time.at(1010, Tick()) == [trigger(2)]

    def test_later_commits_count_too(self) -> None:
        time = Savepoints().waits_for_commits()
        assert time.at(1010, Tick()) == [trigger(2)]
        time.completes(1020, 2)
        assert time.commits(1030, 2) == [write(1)]

    def test_the_next_request_waits_its_turn(self) -> None:
        time = Savepoints().waits_for_commits()
        assert time.at(25, asked(2), asked(3)) == []
        time.commits(30, 1)
        assert time.at(40, SavepointWritten(1)) == [SavepointEnded(1), trigger(2, "S2")]

    def test_a_request_before_the_job_runs_waits(self) -> None:
        time = Savepoints()
        assert time.at(0, asked()) == []
        time.starts()
        assert time.at(5, AttemptRunning(Attempt(1))) == [trigger(1, "S1")]

    def test_a_savepoint_needs_no_checkpoint_interval(self) -> None:
        time = Savepoints(replace(CONFIG, interval_ms=None, min_pause_ms=5000)).runs()
        assert time.at(10, asked()) == [trigger(1, "S1")]

    def test_a_savepoint_waits_for_an_open_checkpoint_and_is_alone(self) -> None:
        """Check CP15."""
        time = Savepoints(replace(CONFIG, max_concurrent=3)).runs()
        assert time.at(1000, Tick()) == [trigger(1)]
        assert time.at(1500, asked()) == []
        assert time.at(2000, Tick()) == [], "the request goes before the interval"
        assert time.completes(2100, 1)[2:] == [trigger(2, "S1")]
        assert time.at(3200, Tick()) == []
        assert time.enters(3300, 2)[-1] == trigger(3)

    def test_an_abort_lets_a_waiting_savepoint_start(self) -> None:
        time = Savepoints().runs()
        time.at(1000, Tick())
        time.at(1100, asked())
        assert time.at(1200, decline(1)) == [aborted(1), trigger(2, "S1")]


class TestFailure:
    def test_a_decline_fails_the_request_and_the_job_continues(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked())
        actions = time.at(20, decline(1))
        assert actions[0] == aborted(1)
        ended_badly(actions[1], 1, "subtask 0: full")
        assert actions[2:] == [DiscardSavepoint("S1")]
        assert time.at(1010, Tick()) == [trigger(2)]

    def test_the_timeout_fails_the_request(self) -> None:
        time = Savepoints(replace(CONFIG, interval_ms=None)).runs()
        time.at(10, asked(), asked(2))
        actions = time.at(5010, Tick())
        ended_badly(actions[1], 1, "subtasks [0, 1] did not acknowledge in 5000 ms")
        assert actions[-1] == trigger(2, "S2")

    def test_a_savepoint_that_cannot_be_written_leaves_the_checkpoint_whole(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked())
        bad = acknowledge(1, 1, savepoint_error="the disk is full")
        [append] = time.at(20, acknowledge(0, 1, savepoint=True), bad)
        actions = time.log_takes(30, append)
        assert actions[:2] == [Announce(completed(1, savepoint="S1")), complete(1)]
        ended_badly(actions[2], 1, "subtask 1: the disk is full", "the job goes on")
        assert actions[3:] == [DiscardSavepoint("S1")]
        assert time.commits(40, 1) == []

    def test_a_manifest_that_cannot_be_written(self) -> None:
        time = Savepoints().waits_for_commits()
        time.commits(30, 1)
        actions = time.at(40, SavepointNotWritten(1, AWAY))
        assert actions == [SavepointEnded(1, AWAY), DiscardSavepoint("S1")]
        assert time.at(1010, Tick()) == [trigger(2)]

    def test_an_attempt_that_fails_before_the_checkpoint_is_complete_fails_the_request(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked(), acknowledge(0, 1, savepoint=True), asked(2))
        actions = time.at(20, failed())
        assert actions[0] == StopAttempt(Attempt(1))
        ended_badly(actions[1], 1, "a worker is lost", "the job restarts from its last checkpoint")
        assert actions[2:] == [DiscardSavepoint("S1")]
        time.restarts(30)
        time.at(600, Recovered(Attempt(2)))
        assert time.at(610, AttemptRunning(Attempt(2))) == [trigger(3, "S2", attempt=2)]

    def test_the_entry_is_written_while_the_attempt_fails(self) -> None:
        """Check CP13: recovery commits what is in the log, and then the manifest is written."""
        time = Savepoints().runs()
        time.at(10, asked())
        [append] = time.at(20, *(acknowledge(i, 1, savepoint=True) for i in (0, 1)))
        assert time.at(30, failed()) == [StopAttempt(Attempt(1))]
        assert time.log_takes(40, append) == [Announce(completed(1, savepoint="S1"))]
        entry = completed(1, savepoint="S1")
        assert time.restarts(50)[-1] == Recover(Attempt(2), entry, False)
        assert time.at(600, Recovered(Attempt(2))) == [
            write(1),
            StartAttempt(Attempt(2), Restore(entry=entry), 2),
        ]
        assert time.at(610, SavepointWritten(1)) == [SavepointEnded(1)]

    @pytest.mark.parametrize("answer", [LogFailed(2, AWAY), LogLost(2)])
    @pytest.mark.parametrize("failing", [False, True])
    def test_the_entry_is_not_written(self, answer: LogFailed | LogLost, failing: bool) -> None:
        time = Savepoints().runs()
        time.at(10, asked(), *(acknowledge(i, 1, savepoint=True) for i in (0, 1)))
        if failing:
            time.at(20, failed())
        actions = time.at(30, answer)
        ended_badly(actions[-2], 1, "the job failed while the savepoint was taken")
        assert actions[-1] == DiscardSavepoint("S1")

    def test_a_job_that_fails_for_good_before_the_commit_fails_the_request(self) -> None:
        time = Savepoints(replace(CONFIG, restart=NoRestart())).waits_for_commits()
        time.at(25, asked(2))
        assert time.at(30, failed()) == [StopAttempt(Attempt(1))]
        one, discard, two, end = time.at(40, AttemptEnded(Attempt(1)))
        ended_badly(one, 1, "the job failed: a worker is lost")
        assert discard == DiscardSavepoint("S1")
        ended_badly(two, 2, "the job failed")
        assert isinstance(end, EndJob)

    def test_a_recovery_that_fails_is_tried_again_before_the_manifest(self) -> None:
        time = Savepoints().waits_for_commits()
        time.at(30, failed())
        time.restarts(40)
        assert time.at(600, RecoveryFailed(Attempt(2), AWAY)) == []
        time.at(1100, Tick())
        time.claims(1100)
        assert time.at(1200, Recovered(Attempt(3)))[0] == write(1)

    def test_requests_after_the_end_are_answered(self) -> None:
        time = Savepoints()
        time.at(0, CancelRequested())
        [answer] = time.at(1, asked(7))
        ended_badly(answer, 7, "the job has ended")


class TestCancel:
    @pytest.mark.parametrize("committing", [False, True])
    def test_cancelling_fails_running_and_waiting_requests(self, committing: bool) -> None:
        time = Savepoints()
        if committing:
            time.waits_for_commits(AfterSavepoint.STOP)
        else:
            time.runs().at(10, asked(after=AfterSavepoint.STOP))
        time.at(30, asked(2))
        assert time.at(40, CancelRequested()) == [
            SendToAll(Cancel(attempt=Attempt(1))),
            StopAttempt(Attempt(1)),
        ]
        one, discard, two, end = time.at(50, AttemptEnded(Attempt(1)))
        ended_badly(one, 1, "the job was cancelled")
        assert discard == DiscardSavepoint("S1")
        ended_badly(two, 2, "no savepoint was taken")
        assert end == EndJob(Outcome.CANCELLED)


class TestStop:
    def test_after_a_savepoint_to_stop_with_the_job_ends_without_error(self) -> None:
        """Check CP16."""
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        assert time.at(5000, Tick()) == []
        assert time.drains(5001) == []
        assert time.commits(5002, 1) == [write(1)]
        assert time.at(5003, Tick(), asked(2)) == []
        assert time.at(5004, SavepointWritten(1)) == [
            SavepointEnded(1),
            SendToAll(Cancel(attempt=Attempt(1))),
            StopAttempt(Attempt(1)),
        ]
        assert time.at(5005, failed(), CancelRequested()) == []
        late, end = time.at(5006, AttemptEnded(Attempt(1)))
        ended_badly(late, 2, "the job was stopped")
        assert end == EndJob(Outcome.STOPPED)

    def test_if_a_savepoint_to_stop_with_fails_the_job_continues(self) -> None:
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.commits(2000, 1)
        actions = time.at(2001, SavepointNotWritten(1, AWAY))
        assert actions == [SavepointEnded(1, AWAY), DiscardSavepoint("S1"), trigger(2)]

    def test_a_final_checkpoint_follows_a_failed_one_after_a_drain(self) -> None:
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.drains(25)
        time.commits(30, 1)
        assert time.at(31, SavepointNotWritten(1, AWAY))[-1] == trigger(2)
        assert isinstance(time.completes(40, 2)[0], Announce)

    def test_the_attempt_fails_before_the_commit(self) -> None:
        """Check CP16: recovery commits, the manifest is written, and no further attempt starts."""
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.at(30, failed())
        time.restarts(40)
        assert time.at(600, Recovered(Attempt(2))) == [write(1)]
        assert time.at(610, Tick()) == []
        assert time.at(620, SavepointWritten(1)) == [SavepointEnded(1), EndJob(Outcome.STOPPED)]

    def test_the_attempt_fails_before_the_commit_and_the_manifest_cannot_be_written(self) -> None:
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.at(30, failed())
        time.restarts(40)
        time.at(600, Recovered(Attempt(2)))
        actions = time.at(620, SavepointNotWritten(1, AWAY))
        entry = completed(1, savepoint="S1")
        assert actions[-1] == StartAttempt(Attempt(2), Restore(entry=entry), 2)

    def test_the_attempt_fails_while_the_manifest_is_written(self) -> None:
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.commits(30, 1)
        assert time.at(40, failed()) == [StopAttempt(Attempt(1))]
        assert time.at(50, SavepointWritten(1)) == [SavepointEnded(1)]
        assert time.at(60, AttemptEnded(Attempt(1))) == [EndJob(Outcome.STOPPED)]

    def test_the_manifest_is_written_while_the_job_waits_to_restart(self) -> None:
        time = Savepoints().waits_for_commits(AfterSavepoint.STOP)
        time.commits(30, 1)
        time.at(40, failed(), AttemptEnded(Attempt(1)))
        assert time.at(50, SavepointWritten(1)) == [SavepointEnded(1), EndJob(Outcome.STOPPED)]


class TestDrain:
    def finishes(self, time: Savepoints, checkpoint: int) -> None:
        """Play from the open final checkpoint, which includes the savepoint, to the end."""
        actions = time.enters(100, checkpoint)
        entry = completed(checkpoint, final=True, savepoint="S1")
        assert actions[:2] == [Announce(entry), complete(checkpoint)]
        assert time.commits(110, checkpoint) == [write(checkpoint, final=True)]
        ended, append = time.at(120, SavepointWritten(1))
        assert ended == SavepointEnded(1)
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, JobFinished)
        assert time.log_takes(130, append) == [SendToAll(Finish(attempt=Attempt(1)))]
        assert time.at(140, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FINISHED)]

    def test_a_drain_ends_the_input_and_the_final_checkpoint_is_the_savepoint(self) -> None:
        time = Savepoints().runs()
        assert time.at(10, asked(after=AfterSavepoint.DRAIN)) == [SendToAll(Drain(attempt=Attempt(1)))]
        assert time.at(5000, Tick()) == [], "CP16: none until the final one"
        assert time.drains(5001) == [trigger(1, "S1")]
        self.finishes(time, 1)

    def test_a_drain_waits_for_an_open_checkpoint(self) -> None:
        time = Savepoints().runs()
        time.at(1000, Tick())
        assert time.at(1010, asked(after=AfterSavepoint.DRAIN)) == []
        drain = SendToAll(Drain(attempt=Attempt(1)))
        assert time.completes(1020, 1)[-1] == drain

    @pytest.mark.parametrize("after", [AfterSavepoint.GO_ON, AfterSavepoint.STOP, AfterSavepoint.DRAIN])
    def test_the_final_checkpoint_of_an_ended_input_is_the_savepoint(
        self, after: AfterSavepoint
    ) -> None:
        """Check that the final checkpoint includes the savepoint, whatever was requested, and the job
        finishes."""
        time = Savepoints().runs()
        time.at(10, asked(2), acknowledge(0, 1, savepoint=True), asked(after=after))
        time.drains(20)
        [append] = time.at(30, acknowledge(1, 1, savepoint=True))
        time.log_takes(30, append)
        time.commits(40, 1)
        assert time.at(50, SavepointWritten(2)) == [SavepointEnded(2), trigger(2, "S1")]
        self.finishes(time, 2)

    def test_an_attempt_that_fails_during_a_drain_continues_with_its_input(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked(after=AfterSavepoint.DRAIN))
        actions = time.at(20, failed())
        ended_badly(actions[1], 1, "a worker is lost")
        time.restarts(30)
        time.at(600, Recovered(Attempt(2)))
        assert time.at(610, AttemptRunning(Attempt(2))) == []
        assert time.at(1610, Tick()) == [trigger(3, attempt=2)]

    def test_a_failed_final_checkpoint_is_retried_without_the_savepoint(self) -> None:
        """Check this because files of the first try may still be written, and could overwrite those of
        another."""
        time = Savepoints().runs()
        time.at(10, asked(after=AfterSavepoint.DRAIN))
        time.drains(20)
        actions = time.at(30, decline(1))
        ended_badly(actions[1], 1, "full", "the job finishes without it")
        assert actions[-1] == trigger(2)

    def test_the_final_checkpoint_is_complete_without_the_savepoint(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked(after=AfterSavepoint.DRAIN))
        time.drains(20)
        bad = acknowledge(1, 1, savepoint_error="the disk is full")
        [append] = time.at(30, acknowledge(0, 1, savepoint=True), bad)
        actions = time.log_takes(40, append)
        ended_badly(actions[2], 1, "subtask 1: the disk is full", "and the job finishes")

    def test_a_driver_that_recovers_only_the_commit_writes_the_manifest_first(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked(after=AfterSavepoint.DRAIN))
        time.drains(20)
        time.enters(30, 1)
        time.at(40, failed())
        time.restarts(50)
        assert time.at(600, Recovered(Attempt(2))) == [write(1, final=True)]
        _, append = time.at(610, SavepointWritten(1))
        assert isinstance(append, AppendLog)
        assert time.log_takes(620, append) == [EndJob(Outcome.FINISHED)]

    def test_a_manifest_that_fails_does_not_prevent_the_end(self) -> None:
        time = Savepoints().runs()
        time.at(10, asked(after=AfterSavepoint.DRAIN), asked(2))
        time.drains(20)
        time.enters(30, 1)
        time.commits(40, 1)
        actions = time.at(50, SavepointNotWritten(1, AWAY))
        assert actions[:2] == [SavepointEnded(1, AWAY), DiscardSavepoint("S1")]
        assert isinstance(actions[2], AppendLog)
        time.log_takes(60, actions[2])
        late, end = time.at(70, AttemptEnded(Attempt(1)))
        ended_badly(late, 2, "the job has finished")
        assert end == EndJob(Outcome.FINISHED)
