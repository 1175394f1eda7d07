"""The coordinator on timelines: its decisions, event by event. CP numbers refer to the protocol."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rheos.core.checkpoint.config import ExponentialDelay, NoRestart
from rheos.core.checkpoint.events import (
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    DeleteFiles,
    DropEntries,
    EndJob,
    JobShape,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
    PrepareState,
    ReadLog,
    Recover,
    Recovered,
    RecoveryFailed,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
)
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, JobFinished
from rheos.core.checkpoint.open_checkpoints import SOON_MS
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import (
    CheckpointError,
    FencedError,
    RheosError,
    TransportError,
    UserFunctionError,
)
from rheos.core.protocol.control import (
    Cancel,
    CheckpointAborted,
    CheckpointComplete,
    Committed,
    Decline,
    Drained,
    Finish,
    Totals,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId
from tests.core.checkpoint.timelines import (
    CONFIG,
    COUNT,
    Timeline,
    acknowledge,
    completed,
    file,
    view_of,
)

LOST = TransportError("a peer is lost")


def trigger(checkpoint: int, attempt: int = 1) -> SendToAll:
    return SendToAll(TriggerCheckpoint(attempt=Attempt(attempt), checkpoint=CheckpointId(checkpoint)))


def complete(checkpoint: int, attempt: int = 1) -> SendToAll:
    return SendToAll(CheckpointComplete(attempt=Attempt(attempt), checkpoint=CheckpointId(checkpoint)))


def aborted(checkpoint: int, attempt: int = 1) -> SendToAll:
    return SendToAll(CheckpointAborted(attempt=Attempt(attempt), checkpoint=CheckpointId(checkpoint)))


def decline(checkpoint: int, subtask: int = 0) -> Decline:
    return Decline(
        attempt=Attempt(1),
        subtask=subtask,
        checkpoint=CheckpointId(checkpoint),
        reason="disk full",
    )


def failed(error: RheosError = LOST, attempt: int = 1) -> SubtaskFailed:
    return SubtaskFailed(Attempt(attempt), 0, error)


def claim(
    attempt: int, first: int, completed: list[int], from_checkpoint: int | None
) -> AttemptStarted:
    return AttemptStarted(
        attempt=Attempt(attempt),
        owner="me",
        reserved_to=CheckpointId(first + 1),
        from_checkpoint=None if from_checkpoint is None else CheckpointId(from_checkpoint),
        parallelism=2,
        completed=completed,
    )


class TestPreparedSlots:
    """Slots that restore checkpoints next to the attempt (UP12)."""

    def test_they_restore_each_checkpoint_that_is_in_the_log(self) -> None:
        time = Timeline(replace(CONFIG, restore_ahead=True)).runs()
        time.at(1000, Tick())
        actions = time.completes(1010, 1)
        [prepare] = [action for action in actions if isinstance(action, PrepareState)]
        assert time.coordinator.kept == (prepare.restore.entry,)
        assert prepare.parallelism == 2

    def test_none_restore_anything_unless_it_is_configured(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        assert not any(isinstance(each, PrepareState) for each in time.completes(1010, 1))

    def test_an_attempt_on_them_opens_its_first_checkpoint_soon(self) -> None:
        time = Timeline()
        time.at(0, Start(), LogRead(view_of()), LogAppended(1), Recovered(Attempt(1)))
        time.at(0, AttemptRunning(Attempt(1), prepared=True))
        assert time.at(SOON_MS - 1, Tick()) == []
        assert time.at(SOON_MS, Tick()) == [trigger(1)]


class TestStart:
    def test_a_fresh_job_reads_claims_recovers_and_starts(self) -> None:
        time = Timeline()
        assert time.at(0, Start()) == [ReadLog()]
        assert time.at(0, LogRead(view_of())) == [AppendLog(1, claim(1, 1, [], None))]
        assert time.at(0, LogAppended(1)) == [
            SweepFiles(Attempt(1), frozenset()),
            Recover(Attempt(1), None, True),
        ]
        assert time.at(0, Recovered(Attempt(1))) == [StartAttempt(Attempt(1), None, 2)]
        assert time.at(0, AttemptRunning(Attempt(1))) == []
        assert time.coordinator.state is LifecycleState.RUNNING

    def test_a_new_driver_starts_from_the_newest_checkpoint(self) -> None:
        log = [claim(1, 1, [], None), completed(1, owner="other"), completed(2, owner="other")]
        time = Timeline(log=log)
        time.at(0, Start())
        # CP4: checkpoints 3 and 4 may have been open when the other driver was lost.
        assert time.at(0, LogRead(time.view())) == [AppendLog(4, claim(2, 5, [2, 3], 2))]
        keep = frozenset(file(1, n, i) for n in (1, 2) for i in (0, 1))
        assert time.at(0, LogAppended(4)) == [
            SweepFiles(Attempt(2), keep),
            Recover(Attempt(2), log[2], False),
        ]
        assert time.at(0, Recovered(Attempt(2))) == [StartAttempt(Attempt(2), Restore(entry=log[2]), 2)]
        time.at(0, AttemptRunning(Attempt(2)))
        assert time.at(1000, Tick()) == [trigger(5, attempt=2)]

    def test_checkpoints_beyond_retention_go_with_the_claim(self) -> None:
        time = Timeline(replace(CONFIG, retain=1), [claim(1, 1, [], None), completed(1), completed(2)])
        time.at(0, Start())
        actions = time.claims(0)
        assert actions[:2] == [DropEntries((2,)), DeleteFiles((file(1, 1, 0), file(1, 1, 1)))]

    def test_losing_the_claim_ends_the_driver(self) -> None:
        time = Timeline()
        time.at(0, Start(), LogRead(view_of()))
        [end] = time.at(0, LogLost(1))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, FencedError)
        assert "'job' in DIR" in str(end.error)
        assert time.at(9, Tick(), CancelRequested(), LogAppended(1)) == []

    def test_an_unreadable_log_at_the_start_is_reported_at_once(self) -> None:
        time = Timeline()
        time.at(0, Start())
        error = CheckpointError("torn")
        assert time.at(0, LogUnreadable(error)) == [EndJob(Outcome.FAILED, error)]

    def test_an_unwritable_log_at_the_start_is_reported_at_once(self) -> None:
        time = Timeline()
        time.at(0, Start(), LogRead(view_of()))
        error = CheckpointError("read-only")
        assert time.at(0, LogFailed(1, error)) == [EndJob(Outcome.FAILED, error)]

    def test_a_finished_job_is_not_run_again(self) -> None:
        done = JobFinished(
            attempt=Attempt(1), owner="other", reserved_to=CheckpointId(3), checkpoint=CheckpointId(1)
        )
        time = Timeline()
        time.at(0, Start())
        final = msgspec.structs.replace(completed(1, final=True), totals=Totals({"count": 7}))
        log = view_of(claim(1, 1, [], None), final, done)
        ended = EndJob(Outcome.FINISHED, finished_before=Totals({"count": 7}))
        assert time.at(0, LogRead(log)) == [ended], "a supervisor must not start it for ever"

    def test_a_checkpoint_that_does_not_fit_the_program_is_refused(self) -> None:
        time = Timeline(shape=JobShape({COUNT: "count"}, 2, 8))
        time.at(0, Start())
        [end] = time.at(0, LogRead(view_of(completed(1))))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, CheckpointError)
        assert "'files' (sink)" in str(end.error)

    def test_if_only_commits_are_missing_no_attempt_is_started(self) -> None:
        final = completed(1, owner="other", final=True)
        time = Timeline(log=[claim(1, 1, [], None), final])
        time.at(0, Start())
        assert time.claims(0)[-1] == Recover(Attempt(2), final, False)
        [append] = time.at(0, Recovered(Attempt(2)))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, JobFinished)
        assert time.log_takes(0, append) == [EndJob(Outcome.FINISHED)]

    def test_a_failed_recovery_is_retried_with_a_new_claim(self) -> None:
        time = Timeline()
        time.at(0, Start())
        time.claims(0)
        assert time.at(10, RecoveryFailed(Attempt(1), CheckpointError("target away"))) == []
        assert time.at(509, Tick()) == []
        assert time.at(510, Tick()) == [ReadLog()]
        [append] = time.at(510, LogRead(time.view()))
        assert isinstance(append, AppendLog)
        assert append.entry.attempt == 2


class TestCheckpoint:
    def test_checkpoints_start_one_interval_after_the_start_and_repeat(self) -> None:
        time = Timeline().runs()
        assert time.coordinator.next_deadline_ms() == 1000
        assert time.at(999, Tick()) == []
        assert time.at(1000, Tick()) == [trigger(1)]
        assert time.coordinator.next_deadline_ms() == 6000
        assert time.at(1100, acknowledge(0, 1)) == []
        assert time.at(1200, acknowledge(1, 1)) == [AppendLog(2, completed(1))]
        assert time.at(1210, LogAppended(2)) == [Announce(completed(1)), complete(1)]
        assert time.coordinator.next_deadline_ms() == 2000
        assert time.at(2000, Tick()) == [trigger(2)]
        stats = time.coordinator.stats
        assert (stats.completed, stats.failed, stats.last_duration_ms) == (1, 0, 210)

    def test_nobody_is_notified_before_the_entry_is_in_the_log(self) -> None:
        """Check CP3."""
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1), acknowledge(1, 1))
        assert time.at(9000, Tick(), acknowledge(1, 1), decline(1)) == []
        assert time.at(9001, LogAppended(2))[:2] == [Announce(completed(1)), complete(1)]

    def test_an_acknowledgement_counts_once_per_subtask(self) -> None:
        """Check CP5."""
        time = Timeline().runs()
        assert time.at(1000, Tick(), acknowledge(0, 1), acknowledge(0, 1)) == [trigger(1)]
        assert time.at(1000, acknowledge(1, 1)) == [AppendLog(2, completed(1))]

    def test_messages_of_other_attempts_subtasks_and_checkpoints_are_ignored(self) -> None:
        """Check CP5."""
        time = Timeline(log=[claim(1, 1, [], None)]).runs()
        time.at(1000, Tick())
        for zombie in (
            acknowledge(0, 3, attempt=1),
            acknowledge(2, 3, attempt=2),
            acknowledge(0, 2, attempt=2),
            acknowledge(0, 4, attempt=2),
            decline(3),
            failed(attempt=1),
            AttemptEnded(Attempt(1)),
            AttemptLost(Attempt(1), LOST),
            AttemptRunning(Attempt(1)),
            Drained(attempt=Attempt(1), subtask=0),
            Drained(attempt=Attempt(1), subtask=1),
        ):
            assert time.at(1001, zombie) == []
        [append] = time.at(1002, acknowledge(0, 3, 2), acknowledge(1, 3, 2))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, CheckpointCompleted)
        assert append.entry.checkpoint == 3

    def test_a_slow_checkpoint_is_followed_at_once_by_the_next(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        assert time.at(2500, Tick()) == []
        assert time.completes(3200, 1) == [Announce(completed(1)), complete(1), trigger(2)]

    def test_the_pause_between_checkpoints_is_kept(self) -> None:
        time = Timeline(replace(CONFIG, min_pause_ms=900)).runs()
        time.at(1000, Tick())
        assert time.completes(1500, 1) == [Announce(completed(1)), complete(1)]
        assert time.at(2399, Tick()) == []
        assert time.at(2400, Tick()) == [trigger(2)]

    def test_the_deadline_passes_and_the_next_gets_a_new_id(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1))
        assert time.at(5999, Tick()) == []
        assert time.at(6000, Tick()) == [aborted(1), trigger(2)]
        assert time.at(6001, acknowledge(1, 1)) == []
        assert time.completes(6002, 2)[1] == complete(2)

    def test_a_decline_aborts(self) -> None:
        time = Timeline().runs()
        assert time.at(1000, Tick(), decline(1)) == [trigger(1), aborted(1)]
        assert time.at(1001, decline(1), decline(2), acknowledge(0, 1)) == []
        assert time.coordinator.stats.failed == 1

    def test_a_decline_after_its_own_acknowledgement_is_ignored(self) -> None:
        time = Timeline().runs()
        assert time.at(1000, Tick(), acknowledge(0, 1), decline(1)) == [trigger(1)]

    def test_too_many_failures_in_a_row_fail_the_attempt(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), decline(1))
        assert time.at(2000, Tick(), decline(2)) == [trigger(2), aborted(2), StopAttempt(Attempt(1))]
        error = time.coordinator.last_error
        assert isinstance(error, CheckpointError)
        assert "2 checkpoints in a row failed; the last one, 2: subtask 0: disk full" in str(error)

    def test_a_completed_checkpoint_resets_the_count_of_failures(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), decline(1))
        time.at(2000, Tick())
        time.completes(2100, 2)
        assert time.at(3000, Tick(), decline(3)) == [trigger(3), aborted(3)]

    def test_without_an_interval_no_checkpoint_is_taken(self) -> None:
        time = Timeline(replace(CONFIG, interval_ms=None)).runs()
        assert time.coordinator.next_deadline_ms() is None
        assert time.at(10**9, Tick()) == []

    def test_totals_continue_from_the_restored_checkpoint(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        [append] = time.at(1001, acknowledge(0, 1, late=2), acknowledge(1, 1, late=3))
        time.log_takes(1001, append)
        time.at(1500, failed(), AttemptEnded(Attempt(1)))
        time.at(2000, Tick())
        time.claims(2000)
        time.at(2000, Recovered(Attempt(2)), AttemptRunning(Attempt(2)))
        time.at(3000, Tick())
        [append] = time.at(3001, acknowledge(0, 4, 2, late=1), acknowledge(1, 4, 2))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, CheckpointCompleted)
        assert append.entry.totals.counters == {"count/late": 6}


class TestRetention:
    def test_files_are_removed_when_no_kept_checkpoint_refers_to_them(self) -> None:
        """Check CP10."""
        time = Timeline().runs()
        for checkpoint in (1, 2):
            time.at(checkpoint * 1000, Tick())
            assert len(time.completes(checkpoint * 1000, checkpoint)) == 2
        time.at(3000, Tick())
        assert time.completes(3000, 3)[2:] == [
            DropEntries((2,)),
            DeleteFiles((file(1, 1, 0), file(1, 1, 1))),
        ]

    def test_files_of_an_aborted_checkpoint_stay_while_a_chain_may_need_them(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1), decline(1, subtask=1))
        time.at(2000, Tick())
        chained = (file(1, 1, 0), file(1, 2, 0))
        [append] = time.at(2000, acknowledge(0, 2, paths=chained), acknowledge(1, 2))
        assert not any(isinstance(a, DeleteFiles) for a in time.log_takes(2000, append))
        for checkpoint in (3, 4):
            time.at(checkpoint * 1000, Tick())
            actions = time.completes(checkpoint * 1000, checkpoint)
        assert DeleteFiles((file(1, 1, 0), file(1, 2, 0), file(1, 2, 1))) in actions

    def test_files_of_an_aborted_checkpoint_are_removed_if_the_next_does_not_need_them(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1), decline(1, subtask=1))
        time.at(2000, Tick())
        kept = frozenset([file(1, 2, 0), file(1, 2, 1)])
        assert time.completes(2000, 2)[2:] == [
            DeleteFiles((file(1, 1, 0),)),
            SweepFiles(Attempt(1), kept, through=CheckpointId(2)),
        ]

    def test_unreported_files_are_swept_once_after_an_aborted_checkpoint(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick(), decline(1, subtask=1))
        swept = []
        for checkpoint in (2, 3):
            time.at(checkpoint * 1000, Tick())
            actions = time.completes(checkpoint * 1000, checkpoint)
            swept.append([a.through for a in actions if isinstance(a, SweepFiles)])
        assert swept == [[2], []]


class TestFailure:
    def test_after_a_failed_subtask_the_next_attempt_starts_from_the_newest_checkpoint(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        time.completes(1100, 1)
        assert time.at(1500, failed()) == [StopAttempt(Attempt(1))]
        assert time.at(1600, Tick(), failed(), acknowledge(0, 2)) == []
        assert time.at(1700, AttemptEnded(Attempt(1))) == []
        assert time.coordinator.state is LifecycleState.WAITING
        assert time.coordinator.next_deadline_ms() == 2200
        assert time.at(2199, Tick()) == []
        assert time.at(2200, Tick()) == [ReadLog()]
        assert time.at(2200, LogRead(time.view())) == [AppendLog(3, claim(2, 4, [2], 1))]
        assert time.at(2200, LogAppended(3))[-1] == Recover(Attempt(2), completed(1), False)
        assert time.at(2300, Recovered(Attempt(2))) == [
            StartAttempt(Attempt(2), Restore(entry=completed(1)), 2)
        ]
        assert time.coordinator.restarts == 1

    def test_the_entry_is_written_while_the_attempt_fails(self) -> None:
        """Check a failure between log and commit: the entry counts, and recovery commits it."""
        time = Timeline().runs()
        time.at(1000, Tick())
        [append] = time.at(1100, acknowledge(0, 1), acknowledge(1, 1))
        assert time.at(1200, failed()) == [StopAttempt(Attempt(1))]
        assert time.at(1300, AttemptEnded(Attempt(1))) == []
        assert time.coordinator.state is LifecycleState.STOPPING
        assert time.log_takes(1400, append) == [Announce(completed(1))]
        assert time.coordinator.state is LifecycleState.WAITING
        time.at(1900, Tick())
        assert time.claims(1900)[-1] == Recover(Attempt(2), completed(1), False)

    def test_a_failure_right_after_the_log_has_the_checkpoint(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        assert time.completes(1100, 1)[1] == complete(1)
        time.at(1101, failed(), AttemptEnded(Attempt(1)))
        time.at(1601, Tick())
        assert time.claims(1601)[-1] == Recover(Attempt(2), completed(1), False)

    def test_an_open_checkpoint_ends_with_its_attempt_and_its_id_is_not_used_again(self) -> None:
        """Check CP4."""
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1))
        time.at(1100, failed(), AttemptEnded(Attempt(1)))
        assert time.coordinator.stats.failed == 1
        time.at(1600, Tick())
        time.claims(1600)
        time.at(1600, Recovered(Attempt(2)), AttemptRunning(Attempt(2)))
        assert time.at(1601, acknowledge(1, 1, attempt=1), acknowledge(1, 1, attempt=2)) == []
        [message] = time.at(2600, Tick())
        assert message == trigger(3, attempt=2)

    def test_an_attempt_that_is_lost_while_it_starts(self) -> None:
        time = Timeline()
        time.starts()
        assert time.at(5, AttemptLost(Attempt(1), LOST)) == [StopAttempt(Attempt(1))]
        assert time.at(6, AttemptRunning(Attempt(1)), AttemptEnded(Attempt(1))) == []
        assert time.coordinator.state is LifecycleState.WAITING

    def test_an_attempt_that_ends_without_a_message_has_failed(self) -> None:
        time = Timeline(replace(CONFIG, restart=NoRestart())).runs()
        [end] = time.at(5, AttemptEnded(Attempt(1)))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, TransportError)
        assert "ended before it had finished" in str(end.error)

    def test_the_reported_error_is_the_one_that_explains_the_others(self) -> None:
        time = Timeline(replace(CONFIG, restart=ExponentialDelay())).runs()
        user = UserFunctionError("division by zero")
        time.at(5, failed(LOST), failed(user), failed(LOST))
        assert time.at(6, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FAILED, user)]

    def test_restarts_are_bounded(self) -> None:
        time = Timeline().runs()
        now = 0
        for attempt in (1, 2, 3):
            time.at(now, failed(attempt=attempt), AttemptEnded(Attempt(attempt)))
            now += 500
            assert time.at(now, Tick()) == [ReadLog()]
            time.claims(now)
            time.at(now, Recovered(Attempt(attempt + 1)), AttemptRunning(Attempt(attempt + 1)))
        time.at(now, failed(attempt=4))
        assert time.at(now, AttemptEnded(Attempt(4))) == [EndJob(Outcome.FAILED, LOST)]

    def test_a_log_that_fails_fails_the_attempt_and_is_read_again(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        [append] = time.at(1100, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        error = CheckpointError("the store is away")
        assert time.at(1200, LogFailed(append.number, error)) == [StopAttempt(Attempt(1))]
        time.at(1300, AttemptEnded(Attempt(1)))
        time.at(1800, Tick())
        # The write had gone through after all.
        time.log.append(append.entry)
        assert time.claims(1800)[-1] == Recover(Attempt(2), completed(1), False)

    def test_an_unavailable_log_is_waited_for_when_restarting(self) -> None:
        time = Timeline().runs()
        time.at(0, failed(), AttemptEnded(Attempt(1)))
        time.at(500, Tick())
        assert time.at(500, LogUnreadable(CheckpointError("the store is away"))) == []
        assert time.at(1000, Tick()) == [ReadLog()]
        [append] = time.at(1000, LogRead(time.view()))
        assert isinstance(append, AppendLog)
        assert time.at(1000, LogFailed(append.number, CheckpointError("again"))) == []
        assert time.at(1500, Tick()) == [ReadLog()]


class TestFencing:
    def test_a_number_taken_by_another_driver_ends_this_one(self) -> None:
        """Check CP2."""
        time = Timeline().runs()
        time.at(1000, Tick())
        [append] = time.at(1100, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        assert time.at(1200, LogLost(append.number)) == [
            SendToAll(Cancel(attempt=Attempt(1))),
            StopAttempt(Attempt(1)),
        ]
        assert time.at(1201, failed(UserFunctionError("cut off"))) == []
        [end] = time.at(1300, AttemptEnded(Attempt(1)))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, FencedError)

    def test_another_driver_is_noticed_after_the_attempt_has_failed(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        [append] = time.at(1100, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        time.at(1100, failed(), AttemptEnded(Attempt(1)))
        [end] = time.at(1200, LogLost(append.number))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, FencedError)

    def test_another_driver_is_noticed_when_the_log_is_read_again(self) -> None:
        time = Timeline().runs()
        time.at(1000, failed(), AttemptEnded(Attempt(1)))
        time.at(1500, Tick())
        time.log.append(completed(7, attempt=2, owner="other"))
        [end] = time.at(1500, LogRead(time.view()))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, FencedError)

    def test_a_log_that_shrank_is_an_error(self) -> None:
        time = Timeline().runs()
        time.at(1000, failed(), AttemptEnded(Attempt(1)))
        time.at(1500, Tick())
        [end] = time.at(1500, LogRead(view_of()))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, CheckpointError)
        assert "disappeared" in str(end.error)


class TestEndOfInput:
    def finishes(self, time: Timeline, checkpoint: int, now_ms: int = 2000) -> None:
        """Play from the open final checkpoint to the end."""
        actions = time.completes(now_ms, checkpoint)
        assert actions[:2] == [Announce(completed(checkpoint, final=True)), complete(checkpoint)]
        [append] = time.commits(now_ms, checkpoint)
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, JobFinished)
        assert time.log_takes(now_ms, append) == [SendToAll(Finish(attempt=Attempt(1)))]
        assert time.at(now_ms, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FINISHED)]

    def test_the_final_checkpoint_is_opened_at_once(self) -> None:
        time = Timeline(replace(CONFIG, interval_ms=None)).runs()
        assert time.at(5, Drained(attempt=Attempt(1), subtask=1)) == []
        assert time.at(6, Drained(attempt=Attempt(1), subtask=0)) == [trigger(1)]
        self.finishes(time, 1)

    def test_nothing_finishes_before_everyone_has_committed(self) -> None:
        """Check CP9."""
        time = Timeline().runs()
        time.drains(5)
        time.completes(6, 1)
        assert time.at(9000, Tick()) == []
        told = Committed(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1))
        assert (
            time.at(
                9000, told, told, Committed(attempt=Attempt(2), subtask=1, checkpoint=told.checkpoint)
            )
            == []
        )
        [append] = time.at(9001, Committed(attempt=Attempt(1), subtask=1, checkpoint=CheckpointId(1)))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, JobFinished)

    def test_a_subtask_drains_before_all_are_connected(self) -> None:
        time = Timeline()
        time.starts()
        assert time.drains(1) == []
        assert time.at(2, AttemptRunning(Attempt(1))) == [trigger(1)]
        self.finishes(time, 1)

    def test_checkpoints_continue_while_some_subtasks_are_drained(self) -> None:
        time = Timeline().runs()
        time.at(5, Drained(attempt=Attempt(1), subtask=0))
        assert time.at(1000, Tick()) == [trigger(1)]
        assert time.completes(1001, 1) == [Announce(completed(1)), complete(1)]

    def test_a_checkpoint_in_flight_completes_before_the_final_one(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        assert time.drains(1500) == []
        assert time.completes(1600, 1) == [Announce(completed(1)), complete(1), trigger(2)]
        assert time.commits(1700, 1) == []
        self.finishes(time, 2)

    def test_a_checkpoint_in_flight_is_declined_before_the_final_one(self) -> None:
        time = Timeline().runs()
        time.at(1000, Tick())
        time.drains(1500)
        assert time.at(1600, decline(1)) == [aborted(1), trigger(2)]
        self.finishes(time, 2)

    def test_the_final_checkpoint_is_retried_after_the_pause(self) -> None:
        time = Timeline(replace(CONFIG, min_pause_ms=300)).runs()
        time.drains(100)
        assert time.at(200, decline(1)) == [aborted(1)]
        assert time.coordinator.next_deadline_ms() == 500
        assert time.at(500, Tick()) == [trigger(2)]
        self.finishes(time, 2)

    def test_a_final_checkpoint_that_keeps_failing_fails_the_attempt(self) -> None:
        time = Timeline().runs()
        time.drains(100)
        assert time.at(200, decline(1)) == [aborted(1), trigger(2)]
        assert time.at(200, decline(2)) == [aborted(2), StopAttempt(Attempt(1))]

    def test_a_failure_before_the_final_commit_is_recovered_without_an_attempt(self) -> None:
        time = Timeline().runs()
        time.drains(5)
        time.completes(6, 1)
        time.at(7, failed(), AttemptEnded(Attempt(1)))
        time.at(507, Tick())
        assert time.claims(507)[-1] == Recover(Attempt(2), completed(1, final=True), False)
        [append] = time.at(508, Recovered(Attempt(2)))
        assert time.log_takes(508, append) == [EndJob(Outcome.FINISHED)]

    def test_a_failure_after_the_log_says_finished_does_not_matter(self) -> None:
        time = Timeline(replace(CONFIG, restart=NoRestart())).runs()
        time.drains(5)
        time.completes(6, 1)
        time.log_takes(7, time.commits(7, 1)[0])
        assert time.at(8, failed()) == [StopAttempt(Attempt(1))]
        assert time.at(9, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FINISHED)]

    def test_a_failure_while_the_end_is_written_to_the_log(self) -> None:
        time = Timeline(replace(CONFIG, restart=NoRestart())).runs()
        time.drains(5)
        time.completes(6, 1)
        [append] = time.commits(7, 1)
        assert time.at(8, failed()) == [StopAttempt(Attempt(1))]
        assert time.log_takes(9, append) == []
        assert time.at(10, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FINISHED)]

    def test_the_attempt_ends_while_the_end_is_written_to_the_log(self) -> None:
        time = Timeline().runs()
        time.drains(5)
        time.completes(6, 1)
        [append] = time.commits(7, 1)
        assert time.at(8, AttemptEnded(Attempt(1))) == []
        assert time.log_takes(9, append) == [EndJob(Outcome.FINISHED)]

    def test_the_end_cannot_be_written_to_the_log(self) -> None:
        time = Timeline().runs()
        time.drains(5)
        time.completes(6, 1)
        [append] = time.commits(7, 1)
        assert isinstance(append, AppendLog)
        assert time.at(8, LogFailed(append.number, CheckpointError("away"))) == [
            StopAttempt(Attempt(1))
        ]
        time.at(9, AttemptEnded(Attempt(1)))
        time.at(509, Tick())
        # It had been written: the driver knows its own word.
        time.log.append(append.entry)
        assert time.at(509, LogRead(time.view())) == [EndJob(Outcome.FINISHED)]


class TestCancel:
    """Cancellation in each phase."""

    def test_before_the_start(self) -> None:
        assert Timeline().at(0, CancelRequested()) == [EndJob(Outcome.CANCELLED)]

    def test_while_reading_claiming_and_recovering(self) -> None:
        time = Timeline()
        time.at(0, Start())
        assert time.at(1, CancelRequested(), LogRead(view_of())) == [EndJob(Outcome.CANCELLED)]
        time = Timeline()
        time.at(0, Start(), LogRead(view_of()))
        assert time.at(1, CancelRequested(), LogAppended(1)) == [EndJob(Outcome.CANCELLED)]
        time = Timeline()
        time.at(0, Start())
        time.claims(0)
        assert time.at(1, CancelRequested(), Recovered(Attempt(1))) == [EndJob(Outcome.CANCELLED)]

    @pytest.mark.parametrize("running", [False, True])
    def test_while_an_attempt_starts_or_runs(self, running: bool) -> None:
        time = Timeline()
        time.starts()
        if running:
            time.at(0, AttemptRunning(Attempt(1)))
        assert time.at(1, CancelRequested()) == [
            SendToAll(Cancel(attempt=Attempt(1))),
            StopAttempt(Attempt(1)),
        ]
        assert time.at(2, CancelRequested(), Tick(), failed(), AttemptRunning(Attempt(1))) == []
        assert time.at(3, AttemptEnded(Attempt(1))) == [EndJob(Outcome.CANCELLED)]

    @pytest.mark.parametrize(
        "answer", [LogAppended(2), LogLost(2), LogFailed(2, CheckpointError("away"))]
    )
    def test_while_a_checkpoint_is_written_to_the_log(
        self, answer: LogAppended | LogLost | LogFailed
    ) -> None:
        """Check that nothing is committed any more, and nobody is notified."""
        time = Timeline().runs()
        time.at(1000, Tick(), acknowledge(0, 1), acknowledge(1, 1))
        time.at(1001, CancelRequested())
        assert time.at(1002, AttemptEnded(Attempt(1))) == []
        assert time.at(1003, answer) == [EndJob(Outcome.CANCELLED)]

    def test_while_a_failed_attempt_is_stopped(self) -> None:
        time = Timeline().runs()
        time.at(1, failed())
        assert time.at(2, CancelRequested()) == []
        assert time.at(3, AttemptEnded(Attempt(1))) == [EndJob(Outcome.CANCELLED)]

    def test_while_waiting_to_restart(self) -> None:
        time = Timeline().runs()
        time.at(1, failed(), AttemptEnded(Attempt(1)))
        assert time.at(2, CancelRequested()) == [EndJob(Outcome.CANCELLED)]
        assert time.at(9999, Tick()) == []

    def test_when_all_is_committed_cancelling_only_ends_sooner(self) -> None:
        time = Timeline().runs()
        time.drains(5)
        time.completes(6, 1)
        time.log_takes(7, time.commits(7, 1)[0])
        assert time.at(8, CancelRequested()) == [StopAttempt(Attempt(1))]
        assert time.at(9, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FINISHED)]
