"""The start of a job: savepoints, lineages, parallelism, and missing slots (CP17, CP18)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rheos.core.checkpoint.config import ExponentialDelay, NoRestart
from rheos.core.checkpoint.events import (
    Action,
    AppendLog,
    AttemptEnded,
    AttemptRunning,
    DropEntries,
    EndJob,
    JobShape,
    LogRead,
    Outcome,
    ReadLog,
    ReadSavepoint,
    Recover,
    Recovered,
    SavepointRead,
    SavepointUnreadable,
    SendToAll,
    Start,
    StartAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
)
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobFinished,
    LogEntry,
    Origin,
)
from rheos.core.checkpoint.placement import Placement, ReportShortage, StartDecision, WaitForSlots
from rheos.core.checkpoint.savepoint import Restore, Savepoint
from rheos.core.errors import CheckpointError, FencedError, RheosError, TransportError
from rheos.core.protocol.control import Totals, TriggerCheckpoint
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.protocol.snapshots import StateKind
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import (
    CONFIG,
    COUNT,
    SHAPE,
    SINK,
    Timeline,
    acknowledge,
    completed,
    file,
    saved,
    view_of,
)

FROM = Origin("job-5-other", "S")
LOST = TransportError("a worker is lost")


def savepoint(
    id: str = FROM.id, *, checkpoint: int = 5, attempt: int = 3, final: bool = False
) -> Savepoint:
    entry = completed(checkpoint, attempt, owner="other", final=final)
    own = msgspec.structs.replace(entry, handles=[saved(0), saved(1)], committables=[])
    return Savepoint(id=id, job=JobId("job"), name="a job", version="1", taken_ms=0, entry=own)


def claim(
    attempt: int,
    *,
    origin: Origin | None = None,
    kept: list[int] | None = None,
    from_checkpoint: int | None = None,
    reserved_to: int = 2,
) -> AttemptStarted:
    return AttemptStarted(
        attempt=Attempt(attempt),
        owner="other",
        reserved_to=CheckpointId(reserved_to),
        origin=origin,
        from_checkpoint=None if from_checkpoint is None else CheckpointId(from_checkpoint),
        parallelism=2,
        completed=kept or [],
    )


def finished(attempt: int, checkpoint: int, origin: Origin | None = None) -> JobFinished:
    return JobFinished(
        attempt=Attempt(attempt),
        owner="other",
        reserved_to=CheckpointId(checkpoint + 2),
        origin=origin,
        checkpoint=CheckpointId(checkpoint),
    )


def claim_of(actions: list[Action]) -> AttemptStarted:
    [append] = actions
    assert isinstance(append, AppendLog)
    assert isinstance(append.entry, AttemptStarted)
    return append.entry


def error_of(actions: list[Action]) -> RheosError:
    [end] = actions
    assert isinstance(end, EndJob)
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    return end.error


class Starts(Timeline):
    """Start of a job whose `log` was written by another driver."""

    def reads(self, now_ms: int = 0) -> list[Action]:
        assert self.at(now_ms, Start()) == [ReadLog()]
        return self.at(now_ms, LogRead(view_of_lineage(self.log)))

    def claims_and_recovers(self, now_ms: int, actions: list[Action]) -> list[Action]:
        self.log_takes(now_ms, actions[0])
        return self.at(now_ms, Recovered(self.coordinator.attempt))


def view_of_lineage(log: list[LogEntry]) -> object:
    """Return the view that JobLog reads."""
    written = JobLog(MemoryStore(), JobId("job"))
    for number, entry in enumerate(log, 1):
        assert written.append(number, entry)
    return written.read()


class TestFromSavepoint:
    def test_a_new_job_reads_the_savepoint_and_starts_from_it(self) -> None:
        time = Starts(from_savepoint="S")
        assert time.reads() == [ReadSavepoint("S")]
        entry = savepoint().entry
        actions = time.at(0, SavepointRead("S", savepoint()))
        claimed = claim_of(actions)
        # CP4: sinks may know the attempts and checkpoints of the job that the savepoint is of.
        assert (claimed.attempt, claimed.reserved_to) == (4, entry.reserved_to + 2)
        assert (claimed.origin, claimed.from_checkpoint, claimed.completed) == (FROM, None, [])
        assert time.log_takes(0, actions[0]) == [
            SweepFiles(Attempt(4), frozenset()),
            Recover(Attempt(4), None, False),
        ], "CP13: a savepoint has nothing to commit"
        restore = Restore(entry=entry, origin=FROM)
        assert time.at(0, Recovered(Attempt(4))) == [StartAttempt(Attempt(4), restore, 2)]

    def test_checkpoints_record_their_savepoint(self) -> None:
        time = Starts(from_savepoint="S")
        time.reads()
        time.claims_and_recovers(0, time.at(0, SavepointRead("S", savepoint())))
        time.at(0, AttemptRunning(Attempt(4)))
        assert time.at(1000, Tick()) == [
            SendToAll(TriggerCheckpoint(attempt=Attempt(4), checkpoint=CheckpointId(8)))
        ]
        [append] = time.at(1001, acknowledge(0, 8, 4), acknowledge(1, 8, 4))
        assert isinstance(append, AppendLog)
        assert append.entry.origin == FROM

    def test_a_savepoint_of_a_drained_job_can_be_started_from(self) -> None:
        time = Starts(from_savepoint="S")
        time.reads()
        read = savepoint(final=True)
        actions = time.claims_and_recovers(0, time.at(0, SavepointRead("S", read)))
        assert actions == [StartAttempt(Attempt(4), Restore(entry=read.entry, origin=FROM), 2)]

    def test_an_unreadable_savepoint_is_reported_at_once(self) -> None:
        time = Starts(from_savepoint="S")
        time.reads()
        error = CheckpointError("there is no savepoint in 'S'")
        assert error_of(time.at(0, SavepointUnreadable("S", error))) is error

    def test_an_unavailable_savepoint_is_waited_for_when_restarting(self) -> None:
        log: list[LogEntry] = [claim(1)]
        time = Starts(replace(CONFIG, restart=ExponentialDelay()), log)
        time.runs()
        time.at(0, SubtaskFailed(Attempt(2), 0, LOST), AttemptEnded(Attempt(2)))
        time.at(100, Tick())
        # Its own claim said so: a driver that finds the folder in the log reads it there.
        assert isinstance(time.log[-1], AttemptStarted)
        time.log[-1] = msgspec.structs.replace(time.log[-1], origin=FROM)
        assert time.at(100, LogRead(view_of_lineage(time.log))) == [ReadSavepoint("S")]
        assert time.at(100, SavepointUnreadable("S", CheckpointError("away"))) == []
        assert time.at(300, Tick()) == [ReadLog()]


class TestLineage:
    """Tests of lineages (CP17)."""

    def test_before_the_first_checkpoint_the_savepoint_is_read_again(self) -> None:
        """Check this whether the command repeats the savepoint or not: the log remembers the folder."""
        for asked in (None, "S"):
            time = Starts(log=[claim(4, origin=FROM, reserved_to=9)], from_savepoint=asked)
            assert time.reads() == [ReadSavepoint("S")]
            claimed = claim_of(time.at(0, SavepointRead("S", savepoint())))
            assert (claimed.attempt, claimed.origin, claimed.from_checkpoint) == (5, FROM, None)
            assert claimed.reserved_to == 9 + 2

    def test_after_that_the_same_command_resumes_from_the_newest_checkpoint(self) -> None:
        """Check that the savepoint is not read, because it may have been deleted by now."""
        for asked in (None, "S"):
            newest = completed(8, 4, owner="other", origin=FROM)
            time = Starts(log=[claim(4, origin=FROM), newest], from_savepoint=asked)
            claimed = claim_of(time.reads())
            assert (claimed.attempt, claimed.origin, claimed.from_checkpoint) == (5, FROM, 8)

    def test_a_savepoint_that_was_moved_is_known_by_its_id(self) -> None:
        newest = completed(8, 4, owner="other", origin=FROM)
        time = Starts(log=[claim(4, origin=FROM), newest], from_savepoint="MOVED")
        assert time.reads() == [ReadSavepoint("MOVED", thorough=True)]
        claimed = claim_of(time.at(0, SavepointRead("MOVED", savepoint())))
        assert (claimed.origin, claimed.from_checkpoint) == (FROM, 8)

    def test_a_savepoint_that_was_moved_before_the_first_checkpoint(self) -> None:
        time = Starts(log=[claim(4, origin=FROM)], from_savepoint="MOVED")
        time.reads()
        claimed = claim_of(time.at(0, SavepointRead("MOVED", savepoint())))
        assert claimed.origin == Origin(FROM.id, "MOVED")

    @pytest.mark.parametrize("ended", [False, True])
    def test_another_savepoint_begins_a_new_lineage(self, ended: bool) -> None:
        """Check this for a job that does not run any more or has finished; its earlier checkpoints do
        not count."""
        log: list[LogEntry] = [claim(1), completed(6, owner="other"), completed(7, owner="other")]
        time = Starts(log=log + [finished(1, 7)] * ended, from_savepoint="S")
        assert time.reads() == [ReadSavepoint("S", thorough=True)]
        actions = time.at(0, SavepointRead("S", savepoint()))
        claimed = claim_of(actions)
        assert (claimed.attempt, claimed.origin, claimed.completed) == (4, FROM, [])
        assert claimed.reserved_to == 9 + 2
        assert time.log_takes(0, actions[0]) == [
            DropEntries((2, 3)),
            SweepFiles(Attempt(4), frozenset()),
            Recover(Attempt(4), None, False),
        ]

    def test_checkpoints_of_an_older_lineage_are_ignored(self) -> None:
        log: list[LogEntry] = [
            claim(1),
            completed(6, owner="other"),
            claim(4, origin=FROM, reserved_to=9),
            completed(8, 4, owner="other", origin=FROM),
            claim(5, origin=FROM, kept=[4], from_checkpoint=8, reserved_to=11),
        ]
        claimed = claim_of(Starts(log=log).reads())
        assert (claimed.from_checkpoint, claimed.completed) == (8, [4])

    def test_the_lineage_is_known_when_retention_has_cut_the_log(self) -> None:
        dropped = completed(7, 4, owner="other", origin=FROM).tombstone()
        newest = completed(8, 4, owner="other", origin=FROM)
        time = Starts(log=[claim(4, origin=FROM), dropped, newest], from_savepoint="S")
        assert claim_of(time.reads()).origin == FROM

    def test_a_job_that_has_finished_since_is_not_run_again(self) -> None:
        final = completed(8, 4, owner="other", final=True, origin=FROM)
        log: list[LogEntry] = [claim(4, origin=FROM), final, finished(4, 8, FROM)]
        ended = Starts(log=log, from_savepoint="S").reads()
        assert ended == [EndJob(Outcome.FINISHED, finished_before=Totals())]

    def test_another_savepoint_in_the_same_folder_begins_a_new_lineage(self) -> None:
        time = Starts(log=[claim(4, origin=FROM)])
        time.reads()
        error = error_of(time.at(0, SavepointRead("S", savepoint("stranger"))))
        assert "started from the savepoint job-5-other in 'S', but that folder now" in str(error)

    def test_a_rival_that_claims_while_the_savepoint_is_read(self) -> None:
        time = Starts(from_savepoint="S")
        time.reads()
        [append] = time.at(0, SavepointRead("S", savepoint()))
        assert isinstance(append, AppendLog)
        assert append.number == 1, "CP2: it is claimed at the number that was read"


class TestFit:
    def test_a_savepoint_of_another_program_is_refused(self) -> None:
        shape = JobShape({OperatorId("other"): "another"}, 2, 8)
        for allowed in (False, True):
            time = Starts(shape=shape, from_savepoint="S", allow_dropped=allowed)
            time.reads()
            error = error_of(time.at(0, SavepointRead("S", savepoint())))
            assert isinstance(error, CheckpointError)
            assert "'S' belongs to another program, which shares no operator with" in str(error)

    def test_state_of_a_removed_operator_is_dropped_if_allowed(self) -> None:
        shape = JobShape({SINK: "files"}, 2, 8)
        time = Starts(shape=shape, from_savepoint="S")
        time.reads()
        error = error_of(time.at(0, SavepointRead("S", savepoint())))
        assert "'S' holds state of operators that the program no longer has: " in str(error)
        assert "'count per user' (count)" in str(error)
        assert "--allow-dropped" in str(error)

        time = Starts(shape=shape, from_savepoint="S", allow_dropped=True)
        time.reads()
        [start] = time.claims_and_recovers(0, time.at(0, SavepointRead("S", savepoint())))
        assert isinstance(start, StartAttempt)
        assert start.restore is not None
        assert start.restore.entry.handles == []

    def test_uncommitted_output_is_not_dropped(self) -> None:
        shape = JobShape({COUNT: "count"}, 2, 8)
        time = Starts(log=[claim(1), completed(1, owner="other")], shape=shape, allow_dropped=True)
        error = error_of(time.reads())
        assert (
            "lists uncommitted output of sinks that the program no longer has: 'files' (sink)"
            in str(error)
        )

    def test_removed_state_is_dropped_if_allowed(self) -> None:
        counts = StateShape(kind=StateKind.KEYED, holds="value", value=TypeShape(name="int"))
        shape = JobShape(SHAPE.operators, 2, 8, {COUNT: {"others": counts}})
        read = savepoint()
        read = msgspec.structs.replace(
            read, entry=msgspec.structs.replace(read.entry, states={COUNT: {"counts": counts}})
        )
        time = Starts(shape=shape, from_savepoint="S")
        time.reads()
        error = error_of(time.at(0, SavepointRead("S", read)))
        assert "the savepoint 'S': " in str(error)
        assert "'counts'" in str(error)

        time = Starts(shape=shape, from_savepoint="S", allow_dropped=True)
        time.reads()
        [start] = time.claims_and_recovers(0, time.at(0, SavepointRead("S", read)))
        assert isinstance(start, StartAttempt)
        assert start.restore is not None
        assert start.restore.entry.handles == []

    def test_declarations_of_the_program_are_stored(self) -> None:
        counts = StateShape(kind=StateKind.KEYED, holds="value", value=TypeShape(name="int"))
        time = Timeline(shape=JobShape(SHAPE.operators, 2, 8, {COUNT: {"counts": counts}})).runs()
        time.at(1000, Tick())
        time.completes(1001, 1)
        assert isinstance(time.log[-1], CheckpointCompleted)
        assert time.log[-1].states == {COUNT: {"counts": counts}}


class TestPlacement:
    def test_all_requested_slots_are_used(self) -> None:
        assert Placement(4, None, 1000).choose(9, 0) == StartDecision(4)

    def test_missing_slots_are_waited_for_before_fewer_are_used(self) -> None:
        placement = Placement(4, 2, 1000)
        placement.lost(100)
        placement.lost(900)
        wait = placement.choose(3, 200)
        assert isinstance(wait, WaitForSlots)
        assert wait.until_ms == 700
        assert "the job needs 4 slots, or at least 2, but only 3 are free" in str(wait.shortage)
        late = placement.choose(3, 800)
        assert isinstance(late, WaitForSlots)
        assert late.until_ms == 1100
        assert placement.choose(3, 1100) == StartDecision(3)

    def test_slots_that_return_in_time_are_used(self) -> None:
        placement = Placement(4, 2, 1000)
        assert isinstance(placement.choose(3, 0), WaitForSlots)
        assert placement.choose(4, 999) == StartDecision(4)
        assert isinstance(placement.choose(3, 5000), WaitForSlots), "the next shortage has its own time"

    def test_fewer_slots_than_the_minimum_are_refused(self) -> None:
        placement = Placement(4, 2, 1000)
        placement.lost(0)
        assert isinstance(placement.choose(1, 1000), ReportShortage)
        assert placement.choose(2, 1001) == StartDecision(2)

    def test_without_a_minimum_all_slots_are_waited_for(self) -> None:
        placement = Placement(4, None, 1000)
        placement.lost(0)
        short = placement.choose(3, 1000)
        assert isinstance(short, ReportShortage)
        assert "needs 4 slots, but only 3 are free" in str(short.shortage)
        assert "min_parallelism" in str(short.shortage)

    def test_no_slot_is_never_enough(self) -> None:
        placement = Placement(4, 0, 0)
        assert isinstance(placement.choose(0, 0), ReportShortage)
        assert placement.choose(1, 0) == StartDecision(1)


class TestSlots:
    """Tests of missing slots (CP18)."""

    def restarts(self, time: Timeline, slots: int, now_ms: int) -> list[Action]:
        assert time.at(now_ms, Tick()) == [ReadLog()]
        return time.at(now_ms, LogRead(time.view(), slots))

    def test_after_lost_slots_the_next_attempt_has_a_lower_parallelism(self) -> None:
        config = replace(CONFIG, slots_within_ms=1000)
        time = Timeline(config, min_parallelism=1).runs()
        time.at(1000, Tick())
        time.completes(1100, 1)
        time.at(2000, SubtaskFailed(Attempt(1), 1, LOST), AttemptEnded(Attempt(1)))
        assert self.restarts(time, 1, 2500) == []
        assert time.coordinator.next_deadline_ms() == 3000
        assert "1 are free" in str(time.coordinator.shortage)
        assert time.at(2999, Tick()) == []
        [append] = self.restarts(time, 1, 3000)
        claimed = claim_of([append])
        assert (claimed.parallelism, claimed.from_checkpoint) == (1, 1)
        time.log_takes(3000, append)
        restore = Restore(entry=completed(1))
        assert time.at(3000, Recovered(Attempt(2))) == [StartAttempt(Attempt(2), restore, 1)]
        assert time.coordinator.shortage is None
        assert time.coordinator.last_error is LOST
        assert time.coordinator.restarts == 1

        # One subtask is all there is: its word alone completes a checkpoint.
        time.at(3000, AttemptRunning(Attempt(2)))
        time.at(4000, Tick())
        checkpoint = time.coordinator.stats.completed + 3
        assert time.at(4001, acknowledge(1, checkpoint, 2)) == [], "there is no such subtask"
        [append] = time.at(4001, acknowledge(0, checkpoint, 2))
        assert isinstance(append, AppendLog)
        assert isinstance(append.entry, CheckpointCompleted)
        assert append.entry.parallelism == 1

        # When the slots are back, the next attempt takes them all.
        time.log_takes(4002, append)
        time.at(5000, SubtaskFailed(Attempt(2), 0, LOST), AttemptEnded(Attempt(2)))
        assert claim_of(self.restarts(time, 2, 5500)).parallelism == 2

    def test_without_a_minimum_the_restart_strategy_waits(self) -> None:
        time = Timeline(replace(CONFIG, slots_within_ms=0)).runs()
        time.at(0, SubtaskFailed(Attempt(1), 1, LOST), AttemptEnded(Attempt(1)))
        assert self.restarts(time, 1, 500) == []
        assert time.coordinator.next_deadline_ms() == 1000
        assert self.restarts(time, 1, 1000) == []
        [end] = self.restarts(time, 1, 1500)
        assert isinstance(end, EndJob)
        assert "the job needs 2 slots, but only 1 are free" in str(end.error)

    def test_missing_slots_at_the_first_start_are_handled_alike(self) -> None:
        time = Timeline(replace(CONFIG, slots_within_ms=300, restart=NoRestart()), min_parallelism=1)
        time.at(0, Start())
        assert time.at(0, LogRead(view_of(), 1)) == []
        assert time.at(299, Tick()) == []
        assert time.at(300, Tick()) == [ReadLog()]
        assert claim_of(time.at(300, LogRead(view_of(), 1))).parallelism == 1
        assert time.coordinator.restarts == 0

    def test_a_rival_that_claims_while_slots_are_waited_for(self) -> None:
        """Check CP2."""
        time = Timeline(replace(CONFIG, slots_within_ms=300)).runs()
        time.at(0, SubtaskFailed(Attempt(1), 1, LOST), AttemptEnded(Attempt(1)))
        assert self.restarts(time, 1, 500) == []
        time.log.append(completed(9, attempt=2, owner="rival"))
        assert isinstance(error_of(self.restarts(time, 2, 1000)), FencedError)


def test_files_of_the_old_lineage_are_not_needed() -> None:
    """Check CP10 and CP17: no kept checkpoint refers to them, so the sweep removes them."""
    log: list[LogEntry] = [claim(1), completed(6, owner="other")]
    time = Starts(log=log, from_savepoint="S")
    time.reads()
    actions = time.log_takes(0, time.at(0, SavepointRead("S", savepoint()))[0])
    [sweep] = [action for action in actions if isinstance(action, SweepFiles)]
    assert file(1, 6, 0) not in sweep.keep
