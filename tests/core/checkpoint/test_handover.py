"""A job is handed over to a driver with another program: on timelines (UP1 to UP11)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    AppendLog,
    AttemptEnded,
    AttemptRunning,
    CancelRequested,
    EndJob,
    JobShape,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    OtherGone,
    Outcome,
    PrepareState,
    ReadLog,
    Recovered,
    SavepointEnded,
    SavepointRequested,
    SendToAll,
    SlotsLeft,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    Tick,
    WaitWithdrawn,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, LogEntry
from rheos.core.checkpoint.open_checkpoints import SOON_MS
from rheos.core.checkpoint.succession import SuccessionLimits
from rheos.core.errors import CheckpointError, FencedError, TransportError
from rheos.core.protocol.control import TriggerCheckpoint
from rheos.core.protocol.ids import Attempt, JobId
from tests.core.checkpoint.test_coordinator_savepoints import asked, decline, trigger
from tests.core.checkpoint.timelines import CONFIG, SHAPE, Timeline, acknowledge, completed, view_of

LIMITS = SuccessionLimits(release_ms=1_000, take_ms=3_000, confirm_ms=6_000)
OTHER_SHAPE = replace(SHAPE, max_parallelism=16)


def request(to: str = "v2", keep_ms: int = 0) -> SavepointRequested:
    return SavepointRequested(1, None, AfterSavepoint.HAND_OVER, successor=to, keep_ms=keep_ms)


class Incumbent(Timeline):
    """The driver `me`, which runs the job."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(JobId("job"), "me", CONFIG, SHAPE, "DIR", handover=LIMITS)

    def names(self, keep_ms: int = 0) -> Incumbent:
        """Play until its checkpoint 1, which names v2, is in the log."""
        self.runs()
        assert self.at(10, request(keep_ms=keep_ms)) == [trigger(1)]
        [append] = self.at(20, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, CheckpointCompleted)
        assert append.entry.successor == "v2"
        self.log_takes(20, append)
        return self

    def offers(self, keep_ms: int = 0) -> Incumbent:
        """Play until its attempt has ended, and the request is answered."""
        self.names(keep_ms)
        assert self.commits(30, 1) == [StopAttempt(Attempt(1))]
        assert self.at(40, AttemptEnded(Attempt(1))) == [SavepointEnded(1), ReadLog()]
        return self

    def reads(self, now_ms: int, *later: LogEntry) -> list[Action]:
        return self.at(now_ms, LogRead(view_of(*self.log, *later)))


def claim(owner: str = "v2", attempt: int = 2) -> AttemptStarted:
    return AttemptStarted(
        attempt=Attempt(attempt),
        owner=owner,
        reserved_to=completed(1).reserved_to,
        from_checkpoint=completed(1).checkpoint,
        parallelism=2,
        completed=[2],
    )


class TestTheIncumbent:
    def test_opens_no_checkpoint_after_the_one_that_names_its_successor(self) -> None:
        time = Incumbent().names()
        assert time.at(3_000, Tick()) == []

    def test_ends_when_the_successor_has_completed_a_checkpoint(self) -> None:
        time = Incumbent().offers()
        assert time.reads(50) == []
        assert time.reads(60, claim()) == []
        assert time.coordinator.situation is Situation.TAKEN
        done = completed(5, 2, owner="v2")
        assert time.reads(70, claim(), done) == [EndJob(Outcome.STOPPED)]

    def test_answers_when_all_slots_have_left(self) -> None:
        time = Incumbent().names()
        assert time.at(30, SlotsLeft(Attempt(1))) == []
        assert time.commits(30, 1) == [StopAttempt(Attempt(1))]
        assert time.at(40, SlotsLeft(Attempt(1))) == [SavepointEnded(1)]
        assert time.coordinator.situation is Situation.OFFERED
        assert time.at(50, OtherGone()) == []
        assert time.at(60, AttemptEnded(Attempt(1))) == [ReadLog()]
        [append] = time.reads(70)
        assert isinstance(append, AppendLog), "the successor was lost before the attempt had ended"

    def test_takes_the_job_back_if_nobody_claims_it(self) -> None:
        time = Incumbent().offers()
        assert time.reads(50) == []
        assert time.reads(3_049) == []
        [append] = time.reads(3_050)
        assert isinstance(append, AppendLog)
        assert append.entry.attempt == 2
        time.log_takes(3_050, append)
        [start] = time.at(3_060, Recovered(Attempt(2)))
        assert isinstance(start, StartAttempt)
        assert start.restore is not None
        assert start.restore.entry.checkpoint == 1

    def test_takes_the_job_back_at_once_if_the_successor_is_gone(self) -> None:
        time = Incumbent().offers()
        assert time.reads(50, claim()) == []
        assert time.at(60, OtherGone()) == [ReadLog()]
        [append] = time.reads(60, claim())
        assert isinstance(append, AppendLog)
        assert append.entry.attempt == 3

    def test_looks_again_if_the_successor_was_faster(self) -> None:
        time = Incumbent().offers()
        time.reads(50, claim())
        time.at(60, OtherGone())
        [append] = time.reads(60, claim())
        assert isinstance(append, AppendLog)
        assert time.at(70, LogLost(append.number)) == []
        assert time.at(170, Tick()) == [ReadLog()]
        done = completed(5, 2, owner="v2")
        assert time.reads(180, claim(), done) == [EndJob(Outcome.STOPPED)]

    def test_offers_the_job_though_its_attempt_fails_after_the_entry(self) -> None:
        time = Incumbent().names()
        failed = SubtaskFailed(Attempt(1), 0, TransportError("lost"))
        assert time.at(30, failed) == [StopAttempt(Attempt(1))]
        assert time.at(40, AttemptEnded(Attempt(1))) == [SavepointEnded(1), ReadLog()]

    @pytest.mark.parametrize("written", [True, False])
    def test_learns_from_the_log_whether_a_failed_write_has_named_the_successor(
        self, written: bool
    ) -> None:
        time = Incumbent()
        time.runs()
        time.at(10, request())
        [append] = time.at(20, acknowledge(0, 1), acknowledge(1, 1))
        assert isinstance(append, AppendLog)
        time.at(30, LogFailed(append.number, CheckpointError("the store is away")))
        time.at(40, AttemptEnded(Attempt(1)))
        assert time.at(600, Tick()) == [ReadLog()]
        actions = time.reads(600, append.entry) if written else time.reads(600)
        assert (actions == []) is written
        wanted = LifecycleState.AWAITING if written else LifecycleState.CLAIMING
        assert time.coordinator.state is wanted

    def test_continues_if_the_checkpoint_fails(self) -> None:
        time = Incumbent()
        time.runs()
        time.at(10, request())
        actions = time.at(20, decline(1))
        [answer] = [action for action in actions if isinstance(action, SavepointEnded)]
        assert answer.error is not None
        assert time.coordinator.state is LifecycleState.RUNNING

    def test_refuses_during_a_savepoint(self) -> None:
        time = Incumbent()
        time.runs()
        time.at(10, asked(1))
        [answer] = time.at(10, replace(request(), request=2))
        assert isinstance(answer, SavepointEnded)
        assert answer.error is not None
        assert "the job was not handed over: a savepoint" in str(answer.error)

    def test_refuses_before_it_runs(self) -> None:
        [answer] = Incumbent().at(10, request())
        assert isinstance(answer, SavepointEnded)
        assert "it is not running" in str(answer.error)

    def test_takes_no_savepoint_after_the_handover(self) -> None:
        [answer] = Incumbent().offers().at(50, asked(2))
        assert isinstance(answer, SavepointEnded)
        assert "this driver does not run the job" in str(answer.error)

    def test_is_kept_for_a_rollback(self) -> None:
        time = Incumbent().offers(keep_ms=10_000)
        done = completed(5, 2, owner="v2")
        assert prepared(time.reads(50, claim(), done)) == [5]
        back = replace_successor(completed(6, 2, owner="v2"), "me")
        assert prepared(time.reads(1_000, claim(), done, back)) == [6]
        time.at(1_010, OtherGone())
        [append] = time.reads(1_010, claim(), done, back)
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, AttemptStarted)
        assert append.entry.from_checkpoint == 6

    def test_ends_after_the_time_for_a_rollback(self) -> None:
        time = Incumbent().offers(keep_ms=10_000)
        done = completed(5, 2, owner="v2")
        assert prepared(time.reads(50, claim(), done)) == [5]
        assert time.reads(10_050, claim(), done) == [EndJob(Outcome.STOPPED)]


def replace_successor(entry: LogEntry, successor: str) -> LogEntry:
    return msgspec.structs.replace(entry, successor=successor)


class Successor(Timeline):
    """The driver `v2`, which waits for the job of the driver `v1`."""

    def __init__(self, shape: JobShape = SHAPE) -> None:
        first = AttemptStarted(
            attempt=Attempt(1),
            owner="v1",
            reserved_to=completed(1).checkpoint,
            from_checkpoint=None,
            parallelism=2,
            completed=[],
        )
        super().__init__(log=[first, completed(1, owner="v1")])
        self.coordinator = Coordinator(
            JobId("job"), "v2", CONFIG, shape, "DIR", handover=LIMITS, waits=True
        )

    def waits(self) -> Successor:
        assert self.at(0, Start()) == [ReadLog()]
        assert prepared(self.at(0, LogRead(self.view()))) == [1]
        return self

    def is_named(self, now_ms: int = 1_000) -> Successor:
        self.waits()
        self.log.append(replace_successor(completed(2, owner="v1"), "v2"))
        assert self.at(now_ms, Tick()) == [ReadLog()]
        assert prepared(self.at(now_ms, LogRead(self.view()))) == [2]
        return self


def prepared(actions: list[Action]) -> list[int]:
    """Return the checkpoints that slots restore ahead. There are no other actions."""
    assert all(isinstance(action, PrepareState) for action in actions), actions
    return [a.restore.entry.checkpoint for a in actions if isinstance(a, PrepareState)]


class TestTheSuccessor:
    def test_restores_each_checkpoint_ahead_while_it_waits(self) -> None:
        time = Successor().waits()
        assert time.at(1_000, Tick()) == [ReadLog()]
        assert time.at(1_000, LogRead(time.view())) == [], "there is no later checkpoint"
        time.log.append(completed(2, owner="v1"))
        assert time.at(2_000, Tick()) == [ReadLog()]
        [action] = time.at(2_000, LogRead(time.view()))
        assert isinstance(action, PrepareState)
        assert (action.restore.entry.checkpoint, action.parallelism) == (2, 2)

    def test_restores_nothing_ahead_before_the_first_checkpoint(self) -> None:
        time = Successor()
        del time.log[1:]
        time.at(0, Start())
        assert time.at(0, LogRead(time.view())) == []

    def test_opens_its_first_checkpoint_without_waiting_for_the_interval(self) -> None:
        time = Successor().is_named()
        time.at(1_010, OtherGone())
        time.claims(1_010)
        time.at(1_020, Recovered(Attempt(2)))
        assert time.at(1_030, AttemptRunning(Attempt(2))) == []
        assert time.at(1_030 + SOON_MS - 1, Tick()) == []
        [first] = time.at(1_030 + SOON_MS, Tick())
        assert isinstance(first, SendToAll)
        assert isinstance(first.message, TriggerCheckpoint)
        assert time.at(1_030 + SOON_MS + 1, Tick()) == [], "the next one waits for the interval"

    def test_claims_when_the_attempt_of_the_incumbent_has_ended(self) -> None:
        time = Successor().is_named()
        assert time.at(1_010, OtherGone()) == [ReadLog()]
        time.claims(1_010)
        [start] = time.at(1_020, Recovered(Attempt(2)))
        assert isinstance(start, StartAttempt)
        assert start.restore is not None
        assert start.restore.entry.checkpoint == 2
        assert time.at(1_030, AttemptRunning(Attempt(2))) == []
        assert time.coordinator.state is LifecycleState.RUNNING

    def test_claims_without_an_answer_after_a_while(self) -> None:
        time = Successor().is_named()
        assert time.at(1_999, LogRead(time.view())) == []
        [append] = time.at(2_000, LogRead(time.view()))
        assert isinstance(append, AppendLog)

    def test_claims_though_it_is_withdrawn_because_the_log_names_it(self) -> None:
        time = Successor().is_named()
        time.at(1_010, WaitWithdrawn())
        assert time.at(1_010, LogRead(time.view())) == []
        [append] = time.at(2_000, LogRead(time.view()))
        assert isinstance(append, AppendLog)

    def test_ends_if_it_is_withdrawn_before(self) -> None:
        time = Successor().waits()
        assert time.at(10, WaitWithdrawn()) == [ReadLog()]
        assert time.at(10, LogRead(time.view())) == [EndJob(Outcome.STOPPED)]

    def test_takes_over_if_the_incumbent_is_lost_before_it_has_named_it(self) -> None:
        time = Successor().waits()
        time.at(10, OtherGone())
        [append] = time.at(10, LogRead(time.view()))
        assert isinstance(append, AppendLog)
        assert append.entry.attempt == 2

    def test_does_not_claim_from_a_driver_that_followed_the_lost_one(self) -> None:
        time = Successor().waits()
        time.at(10, OtherGone())
        restarted = claim(owner="v1 again")
        assert time.at(10, LogRead(view_of(*time.log, restarted))) == []

    def test_ends_if_the_job_was_taken_back(self) -> None:
        time = Successor().is_named()
        [end] = time.at(1_100, LogRead(view_of(*time.log, claim(owner="v1"))))
        assert isinstance(end, EndJob)
        assert isinstance(end.error, FencedError)

    def test_repeats_a_claim_whose_write_failed(self) -> None:
        time = Successor().is_named()
        time.at(1_010, OtherGone())
        [append] = time.at(1_010, LogRead(time.view()))
        assert isinstance(append, AppendLog)
        assert time.at(1_020, LogFailed(append.number, CheckpointError("away"))) == []
        assert time.at(1_200, Tick()) == [ReadLog()]
        [again] = time.at(1_200, LogRead(view_of(*time.log, append.entry)))
        assert isinstance(again, AppendLog)
        assert again.number == append.number + 1
        assert time.at(1_210, LogAppended(again.number)) != []

    def test_ends_with_the_reason_if_the_state_does_not_fit(self) -> None:
        time = Successor(OTHER_SHAPE)
        time.at(0, Start())
        [end] = time.at(0, LogRead(time.view()))
        assert isinstance(end, EndJob)
        assert end.outcome is Outcome.FAILED
        assert "max_parallelism" in str(end.error)

    def test_can_be_cancelled(self) -> None:
        assert Successor().waits().at(10, CancelRequested()) == [EndJob(Outcome.CANCELLED)]
