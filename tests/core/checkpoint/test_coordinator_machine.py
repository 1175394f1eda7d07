"""The coordinator in an adverse world: answers are late or lost, drivers and attempts die, replaced
processes continue, rivals write, slots are lost, savepoints are requested and started from. The
invariants of the protocol always hold. Once the faults stop, the job ends and every request is
answered."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rheos.core.checkpoint.config import CheckpointConfig, ExponentialDelay
from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    DeleteFiles,
    DiscardSavepoint,
    DropEntries,
    EndJob,
    Event,
    LeaveRequested,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
    ReadLog,
    ReadSavepoint,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRead,
    SavepointRequested,
    SavepointUnreadable,
    SavepointWritten,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
    WriteSavepoint,
)
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, JobFinished
from rheos.core.checkpoint.retention import referred, stale
from rheos.core.checkpoint.savepoint import Savepoint
from rheos.core.errors import CheckpointError, ConfigurationError, FencedError, TransportError
from rheos.core.protocol.control import (
    Acknowledge,
    CheckpointAborted,
    CheckpointComplete,
    Committed,
    Decline,
    Drain,
    Drained,
    Finish,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import SHAPE, handle

PARALLELISM = SHAPE.parallelism
CONFIG = CheckpointConfig(
    interval_ms=100,
    timeout_ms=250,
    retain=2,
    tolerable_failures=2,
    slots_within_ms=60,
    restart=ExponentialDelay(initial_ms=10, max_ms=80),
)
AWAY = CheckpointError("the store is away")
LOST = TransportError("lost")


@dataclass
class Taken:
    """Snapshot that a subtask has taken at a barrier, and not yet reported."""

    checkpoint: int
    chain: list[str]
    savepoint: str | None
    spoiled: bool = False
    """A part that it builds on could not be written."""


@dataclass
class Subtask:
    """State of a subtask in the model."""

    chain: list[str] = field(default_factory=list)
    """What its next snapshot builds on."""
    taken: list[Taken] = field(default_factory=list)
    to_commit: int = 0
    drained: bool = False


@dataclass
class World:
    attempt: int
    subtasks: list[Subtask]
    open: dict[int, str | None] = field(default_factory=dict)
    """The open checkpoints, with the savepoint that each carries."""
    draining: bool = False
    stopping: bool = False
    running: bool = False


class Coordination(RuleBasedStateMachine):
    @initialize(most=st.integers(1, 3), pause=st.sampled_from([0, 0, 30]))
    def begin(self, most: int, pause: int) -> None:
        self.config = replace(CONFIG, max_concurrent=most, min_pause_ms=pause)
        self.slots = PARALLELISM
        self.savepoints: dict[str, Savepoint] = {}
        """Those that exist, by folder."""
        self.answered_well: set[str] = set()
        self.requests = 0
        self.recovered_to = 0
        self.store = MemoryStore()
        self.log = JobLog(self.store, JobId("job"), block=3)
        self.now_ms = 0
        self.drivers = 0
        self.opened: list[int] = []
        self.acknowledged: set[tuple[int, int, int]] = set()
        self.committed: set[tuple[int, int]] = set()
        self.told_complete: set[tuple[int, int]] = set()
        self.deleted: set[str] = set()
        self.started: list[int] = []
        self.cancelled = False
        self.rivalled = False
        self.new_driver()

    def new_driver(self, from_savepoint: str | None = None) -> None:
        self.drivers += 1
        self.asked: dict[int, SavepointRequested] = {}
        """The requests that wait for their answer."""
        self.writing: deque[WriteSavepoint] = deque()
        self.from_savepoint = from_savepoint
        self.owner = f"driver {self.drivers}"
        self.coordinator = Coordinator(
            JobId("job"),
            self.owner,
            self.config,
            SHAPE,
            from_savepoint=from_savepoint,
            min_parallelism=1,
        )
        self.pending: deque[Action] = deque()
        self.world: World | None = None
        self.end: EndJob | None = None
        self.has_claimed = self.leaves = False
        self.give(Start())

    # --- the world carries out, and checks ------------------------------------------------------

    def give(self, event: Event) -> None:
        for action in self.coordinator.handle(event, self.now_ms):
            assert self.end is None, "nothing follows the end"
            self.carry_out(action)

    def carry_out(self, action: Action) -> None:
        match action:
            case ReadLog() | ReadSavepoint() | AppendLog() | Recover():
                assert not self.pending, "one answer is awaited at a time"
                self.pending.append(action)
                if isinstance(action, AppendLog):
                    self.check_entry(action)
            case StartAttempt():
                self.check_start(action)
                self.world = World(action.attempt, [Subtask() for _ in range(action.parallelism)])
            case StopAttempt():
                assert self.world is not None
                assert self.world.attempt == action.attempt
                self.world.stopping = True
            case SendToAll():
                self.deliver(action)
            case DeleteFiles():
                self.delete(action.paths)
            case SweepFiles():
                files = self.store.list("job/state")
                self.delete(tuple(stale(files, action.attempt, action.keep)))
            case DropEntries():
                for number in action.numbers:
                    self.log.drop(number)
            case Announce():
                assert action.checkpoint in self.completed()
            case WriteSavepoint():
                self.check_savepoint(action)
                self.writing.append(action)
            case SavepointEnded():
                request = self.asked.pop(action.request)
                if request.after is AfterSavepoint.RESCALE:
                    if action.error is None:
                        assert self.coordinator.state is LifecycleState.RUNNING, "CP40"
                    return
                assert (action.error is None) == (request.directory in self.savepoints)
                if action.error is None:
                    self.answered_well.add(request.directory)
            case DiscardSavepoint():
                assert action.directory not in self.answered_well, "CP13"
                self.savepoints.pop(action.directory, None)
            case EndJob():
                assert not self.asked, "every request is answered"
                self.end = action

    def completed(self) -> list[CheckpointCompleted]:
        return [kept.entry for kept in self.log.read().completed]

    def delete(self, paths: tuple[str, ...]) -> None:
        kept = {
            path for entry in self.completed()[-CONFIG.retain :] for path in referred(entry.handles)
        }
        assert not kept & set(paths), "CP10"
        for subtask in self.world.subtasks if self.world else ():
            assert not set(subtask.chain) & set(paths), "CP10: the next snapshot may build on it"
            for taken in subtask.taken:
                is_open = self.world is not None and taken.checkpoint in self.world.open
                assert not (is_open and set(taken.chain) & set(paths)), "CP10"
        self.deleted |= set(paths)
        for path in paths:
            self.store.delete(path)

    def check_entry(self, action: AppendLog) -> None:
        match action.entry:
            case CheckpointCompleted(attempt=attempt, checkpoint=checkpoint) as entry:
                assert self.world is not None
                assert attempt == self.world.attempt
                assert entry.parallelism == len(self.world.subtasks), "CP18"
                for subtask in range(entry.parallelism):
                    assert (attempt, subtask, checkpoint) in self.acknowledged, "CP5"
                assert entry.origin == self.log.read().origin or self.rivalled, "CP17"
                assert not referred(entry.handles) & self.deleted, "CP10"
                assert len(entry.handles) == len(referred(entry.handles))
                if entry.final:
                    assert all(subtask.drained for subtask in self.world.subtasks), "CP9"
            case JobFinished(checkpoint=checkpoint):
                newest = self.completed()[-1]
                assert newest.final
                assert newest.checkpoint == checkpoint, "CP9"
                if self.world is not None and self.world.attempt == newest.attempt:
                    for subtask in range(newest.parallelism):
                        assert (subtask, checkpoint) in self.committed, "CP9"
            case AttemptStarted() as claim:
                assert claim.parallelism <= max(self.slots, 1), "CP18"
                newest = self.log.read().newest
                if newest is not None and newest.origin == claim.origin:
                    assert claim.rescaled == newest.rescaled, "CP40"
                wanted = claim.rescaled.parallelism if claim.rescaled else PARALLELISM
                assert claim.parallelism <= wanted, "CP40"
                if self.from_savepoint is not None:
                    assert claim.origin is not None
                    assert claim.origin.id == self.savepoints[self.from_savepoint].id, "CP17"

    def check_start(self, action: StartAttempt) -> None:
        assert self.world is None, "CP6"
        assert not self.started or action.attempt > self.started[-1]
        self.started.append(action.attempt)
        view = self.log.read()
        if not self.rivalled:
            assert view.attempt == action.attempt, "CP6: its claim is in the log"
            assert not self.waits_to_stop(), "CP16"
            entry = action.restore.entry if action.restore else None
            if self.completed():
                assert entry == self.completed()[-1], "CP7"
            elif view.origin is not None:
                assert action.restore is not None
                assert action.restore.origin == view.origin, "CP17"
                assert entry == self.savepoints[view.origin.directory].entry
            else:
                assert entry is None

    def deliver(self, action: SendToAll) -> None:
        world = self.world
        assert world is not None
        assert action.message.attempt == world.attempt
        match action.message:
            case TriggerCheckpoint(checkpoint=checkpoint):
                assert not self.opened or checkpoint > self.opened[-1], "CP4"
                assert not any(
                    entry.final and entry.attempt == world.attempt for entry in self.completed()
                ), "CP9"
                assert not self.waits_to_stop(), "CP16"
                savepoint = action.message.savepoint
                drained = all(subtask.drained for subtask in world.subtasks)
                assert drained or not world.draining, "CP16"
                assert not any(world.open.values()), "CP15"
                assert not (world.open and (drained or savepoint)), "CP15"
                assert len(world.open) < self.config.max_concurrent
                world.open[checkpoint] = savepoint
                self.opened.append(checkpoint)
                for index, subtask in enumerate(world.subtasks):
                    self.takes(world, index, subtask, checkpoint, savepoint)
            case CheckpointComplete(checkpoint=checkpoint):
                entries = [entry.checkpoint for entry in self.completed() if entry.owner == self.owner]
                assert checkpoint in entries, "CP3"
                self.told_complete.add((world.attempt, checkpoint))
                del world.open[checkpoint]
                for subtask in world.subtasks:
                    subtask.to_commit = checkpoint
            case CheckpointAborted(checkpoint=checkpoint):
                assert (world.attempt, checkpoint) not in self.told_complete, "CP8"
                del world.open[checkpoint]
            case Drain():
                assert not world.open, "CP16"
                world.draining = True
            case Finish():
                assert isinstance(self.log.read().newest, JobFinished), "CP9"
                world.stopping = True
            case _:
                world.stopping = True

    def takes(
        self, world: World, index: int, subtask: Subtask, checkpoint: int, savepoint: str | None
    ) -> None:
        path = f"job/state/{world.attempt}/{checkpoint}/count/{index}-counts.arrow"
        self.store.put(path, b"state")
        subtask.chain = [path] if (checkpoint + index) % 3 == 0 else [*subtask.chain, path]
        subtask.taken.append(Taken(checkpoint, list(subtask.chain), savepoint))

    def waits_to_stop(self) -> bool:
        """Return whether the job only waits for a savepoint to stop with, whose checkpoint is in the
        log."""
        for request in self.asked.values():
            if request.after is AfterSavepoint.STOP:
                for entry in self.completed():
                    if entry.savepoint == request.directory:
                        return not entry.final
        return False

    def check_savepoint(self, action: WriteSavepoint) -> None:
        entry = action.entry
        assert entry.committables == []
        assert {handle.path for handle in entry.handles} == {
            f"{action.directory}/{subtask}" for subtask in range(entry.parallelism)
        }
        own = [kept for kept in self.completed() if kept.checkpoint == entry.checkpoint]
        assert all(kept.savepoint == action.directory for kept in own)
        assert own or self.completed()[-1].checkpoint > entry.checkpoint, "CP13: it is in the log"
        everywhere = all(
            any(
                (subtask, later) in self.committed for later in self.opened if later >= entry.checkpoint
            )
            for subtask in range(entry.parallelism)
        )
        assert everywhere or self.recovered_to >= entry.checkpoint, "CP13: it is committed"

    # --- answers --------------------------------------------------------------------------------

    def answer(self, how: str) -> None:
        action = self.pending.popleft()
        match action:
            case ReadLog():
                view = self.log.read()
                self.give(LogRead(view, self.slots) if how == "well" else LogUnreadable(AWAY))
            case ReadSavepoint(directory=directory):
                there = how == "well"
                read = SavepointRead(directory, self.savepoints[directory]) if there else None
                self.give(read or SavepointUnreadable(directory, AWAY))
            case AppendLog(number=number, entry=entry):
                if how == "lost":
                    self.give(LogFailed(number, AWAY))
                elif not self.log.append(number, entry):
                    self.give(LogLost(number))
                elif how == "written, and lost":
                    self.give(LogFailed(number, AWAY))
                else:
                    self.has_claimed = True
                    self.give(LogAppended(number))
                    if (work := self.log.compaction()) is not None:
                        self.log.compacted(work())
            case Recover(attempt=attempt):
                well = how == "well"
                if well and action.checkpoint is not None:
                    self.recovered_to = action.checkpoint.checkpoint
                self.give(Recovered(attempt) if well else RecoveryFailed(attempt, AWAY))

    @precondition(lambda self: self.end is None and self.pending)
    @rule(how=st.sampled_from(["well", "well", "well", "well", "lost", "written, and lost"]))
    def io_answers(self, how: str) -> None:
        self.answer(how if self.has_claimed else "well")

    @precondition(lambda self: self.end is None and self.writing)
    @rule(how=st.sampled_from(["well", "well", "lost", "written, and lost"]))
    def a_manifest_is_written(self, how: str) -> None:
        action = self.writing.popleft()
        if action.request not in self.asked:
            return  # It was given up meanwhile.
        if how != "lost":
            self.savepoints[action.directory] = Savepoint(
                id=f"id of {action.directory}",
                job=JobId("job"),
                name="job",
                version="1",
                taken_ms=0,
                entry=action.entry,
            )
        if how == "well":
            self.give(SavepointWritten(action.request))
        else:
            self.savepoints.pop(action.directory, None)
            self.give(SavepointNotWritten(action.request, AWAY))

    @precondition(lambda self: self.end is None and self.started and self.requests < 6)
    @rule(
        after=st.sampled_from(
            [AfterSavepoint.GO_ON, AfterSavepoint.GO_ON, AfterSavepoint.STOP, AfterSavepoint.DRAIN]
        )
    )
    def a_savepoint_is_asked_for(self, after: AfterSavepoint) -> None:
        self.requests += 1
        request = SavepointRequested(self.requests, f"S{self.requests}", after)
        self.asked[request.request] = request
        self.give(request)

    @precondition(lambda self: self.end is None and self.started and self.requests < 6)
    @rule(parallelism=st.integers(0, PARALLELISM + 1))
    def a_rescale_is_asked_for(self, parallelism: int) -> None:
        self.requests += 1
        request = SavepointRequested(
            self.requests, None, AfterSavepoint.RESCALE, parallelism, self.slots
        )
        self.asked[request.request] = request
        self.give(request)

    @rule(slots=st.sampled_from([0, 1, PARALLELISM, PARALLELISM]))
    def slots_come_and_go(self, slots: int) -> None:
        self.slots = slots

    @precondition(lambda self: self.end is None)
    @rule(answers=st.integers(0, 1), acknowledgements=st.integers(0, PARALLELISM))
    def all_goes_well(self, answers: int, acknowledgements: int) -> None:
        """As far as to a running attempt with a checkpoint open, or nearly entered, or entered."""
        for _ in range(6):
            while self.pending:
                self.answer("well")
            if self.end is not None:
                return
            if self.world is not None and not self.world.running:
                self.all_connect()
            if self.world is not None and any(task.taken for task in self.world.subtasks):
                break
            self.sleeps_until_the_deadline()
            if self.world is not None and self.world.stopping:
                self.the_attempt_ends(error=False)
        for subtask in range(acknowledgements):
            if self.world is not None:
                self.a_subtask_acknowledges(subtask, nth=0, twice=False, saved=True)
        while answers and self.pending:
            self.answer("well")

    # --- time, and the attempt ------------------------------------------------------------------

    @rule(by=st.sampled_from([1, 10, 50, 100, 300]))
    def time_passes(self, by: int) -> None:
        self.now_ms += by
        self.give(Tick())

    @precondition(lambda self: self.end is None)
    @rule()
    def sleeps_until_the_deadline(self) -> None:
        """The deadline that is given is enough: nothing is due before it."""
        deadline = self.coordinator.next_deadline_ms()
        if deadline is not None and deadline > self.now_ms:
            assert self.coordinator.handle(Tick(), deadline - 1) == []
            self.now_ms = deadline
            self.give(Tick())

    @precondition(lambda self: self.end is None and self.world and not self.world.running)
    @rule()
    def all_connect(self) -> None:
        assert self.world is not None
        self.world.running = True
        self.give(AttemptRunning(Attempt(self.world.attempt)))

    @precondition(lambda self: self.end is None and self.world)
    @rule(
        subtask=st.integers(0, PARALLELISM - 1),
        nth=st.integers(0, 2),
        twice=st.booleans(),
        saved=st.sampled_from([True, True, True, False]),
    )
    def a_subtask_acknowledges(self, subtask: int, nth: int, twice: bool, saved: bool) -> None:
        """In any order: a later snapshot may be written first, where it does not wait for another."""
        assert self.world is not None
        if subtask >= len(self.world.subtasks):
            return
        task, attempt = self.world.subtasks[subtask], self.world.attempt
        if not task.taken:
            return
        taken = task.taken[nth % len(task.taken)]
        if taken.spoiled:
            self.a_subtask_declines(subtask, nth)
            return
        task.taken.remove(taken)
        self.acknowledged.add((attempt, subtask, taken.checkpoint))
        own = [handle(f"{taken.savepoint}/{subtask}", subtask=subtask)] if taken.savepoint else []
        for _ in range(2 if twice else 1):
            self.give(
                Acknowledge(
                    attempt=Attempt(attempt),
                    subtask=subtask,
                    checkpoint=CheckpointId(taken.checkpoint),
                    handles=[handle(link, subtask=subtask) for link in taken.chain],
                    committables=[],
                    savepoint_handles=own if saved else [],
                    savepoint_error="" if saved or not own else "the disk is full",
                )
            )

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1), nth=st.integers(0, 2))
    def a_subtask_declines(self, subtask: int, nth: int) -> None:
        assert self.world is not None
        if subtask >= len(self.world.subtasks):
            return
        task = self.world.subtasks[subtask]
        if not task.taken:
            return
        taken = task.taken.pop(nth % len(task.taken))
        for other in task.taken:
            other.spoiled |= taken.chain[-1] in other.chain  # CP11
        if taken.chain[-1] in task.chain:
            task.chain = []
        self.give(
            Decline(
                attempt=Attempt(self.world.attempt),
                subtask=subtask,
                checkpoint=CheckpointId(taken.checkpoint),
                reason="full",
            )
        )

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_drains(self, subtask: int) -> None:
        assert self.world is not None
        if subtask >= len(self.world.subtasks):
            return
        task = self.world.subtasks[subtask]
        if not task.drained:
            task.drained = True
            self.give(Drained(attempt=Attempt(self.world.attempt), subtask=subtask))

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_commits(self, subtask: int) -> None:
        assert self.world is not None
        if subtask >= len(self.world.subtasks):
            return
        checkpoint = self.world.subtasks[subtask].to_commit
        if checkpoint:
            self.committed.add((subtask, checkpoint))
            self.give(
                Committed(
                    attempt=Attempt(self.world.attempt),
                    subtask=subtask,
                    checkpoint=CheckpointId(checkpoint),
                )
            )

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_fails(self, subtask: int) -> None:
        assert self.world is not None
        self.give(SubtaskFailed(Attempt(self.world.attempt), subtask, LOST))

    @precondition(lambda self: self.end is None and self.world)
    @rule(error=st.booleans())
    def the_attempt_ends(self, error: bool) -> None:
        assert self.world is not None
        attempt = Attempt(self.world.attempt)
        if error:
            self.give(AttemptLost(attempt, LOST))
        self.world = None
        self.give(AttemptEnded(attempt))

    @precondition(lambda self: self.end is None and self.opened)
    @rule(data=st.data(), subtask=st.integers(0, PARALLELISM - 1))
    def a_zombie_speaks(self, data: st.DataObject, subtask: int) -> None:
        current = self.world.attempt if self.world else self.coordinator.attempt + 1
        if current <= 1:
            return
        attempt = Attempt(data.draw(st.integers(1, current - 1)))
        if attempt == self.coordinator.attempt:
            return
        checkpoint = CheckpointId(data.draw(st.sampled_from(self.opened)))
        before = self.coordinator.state
        for event in (
            Acknowledge(
                attempt=attempt, subtask=subtask, checkpoint=checkpoint, handles=[], committables=[]
            ),
            Decline(attempt=attempt, subtask=subtask, checkpoint=checkpoint, reason="zombie"),
            Committed(attempt=attempt, subtask=subtask, checkpoint=checkpoint),
            Drained(attempt=attempt, subtask=subtask),
            SubtaskFailed(attempt, subtask, LOST),
            AttemptEnded(attempt),
        ):
            self.give(event)
        assert self.coordinator.state is before

    # --- drivers --------------------------------------------------------------------------------

    @precondition(lambda self: self.started and self.drivers < 4 and not self.cancelled)
    @rule(data=st.data(), from_savepoint=st.booleans())
    def the_driver_dies_and_another_comes(self, data: st.DataObject, from_savepoint: bool) -> None:
        """At any moment; or it has ended, and the job goes on from where it was or from a savepoint."""
        chosen = None
        if from_savepoint and self.answered_well:
            chosen = data.draw(st.sampled_from(sorted(self.answered_well)))
        goes_on = self.end is None or isinstance(self.end.error, FencedError)
        if goes_on or self.end.outcome is Outcome.STOPPED or chosen is not None:
            self.rivalled = False
            self.new_driver(chosen)

    @precondition(lambda self: self.end is None and self.started and self.drivers < 4)
    @rule()
    def a_rival_claims(self) -> None:
        """Another driver takes the job over, and dies; this one has yet to find out."""
        view = self.log.read()
        if view.newest is None or isinstance(view.newest, JobFinished):
            return
        rival = Coordinator(JobId("job"), f"rival {view.next_number}", self.config, SHAPE)
        rival.handle(Start(), 0)
        [claim] = rival.handle(LogRead(view), 0)
        if isinstance(claim, ReadSavepoint):
            read = SavepointRead(claim.directory, self.savepoints[claim.directory])
            [claim] = rival.handle(read, 0)
        assert isinstance(claim, AppendLog)
        assert self.log.append(claim.number, claim.entry)
        self.rivalled = True

    @precondition(lambda self: self.end is None and len(self.opened) > 3)
    @rule()
    def the_user_cancels(self) -> None:
        self.cancelled = True
        self.give(CancelRequested())

    @precondition(lambda self: self.end is None and len(self.opened) > 1)
    @rule()
    def the_process_must_end(self) -> None:
        self.leaves = True
        self.give(LeaveRequested())

    def teardown(self) -> None:
        """Stop all faults; the job must end within a bounded time."""
        if not hasattr(self, "coordinator"):
            return
        self.slots = max(self.slots, 1)
        for _ in range(200):
            if self.end is not None:
                break
            self.now_ms += 40
            if self.pending:
                self.answer("well")
            elif self.writing:
                self.a_manifest_is_written("well")
            elif self.world is not None:
                self.runs_on()
            self.give(Tick())
        assert self.end is not None, f"stuck in {self.coordinator.state}"
        match self.end.outcome:
            case Outcome.FINISHED:
                assert isinstance(self.log.read().newest, JobFinished)
            case Outcome.CANCELLED:
                assert self.cancelled
            case Outcome.STOPPED if self.leaves:
                pass
            case Outcome.STOPPED:
                assert self.completed()[-1].savepoint in self.answered_well, "CP16: nothing after it"
            case Outcome.FAILED:
                done = isinstance(self.end.error, ConfigurationError)
                assert done or (self.rivalled and isinstance(self.end.error, FencedError))
        assert self.coordinator.state is LifecycleState.ENDED

    def runs_on(self) -> None:
        assert self.world is not None
        if self.world.stopping:
            self.the_attempt_ends(error=False)
            return
        if not self.world.running:
            self.all_connect()
        for subtask in range(PARALLELISM):
            if self.end is None and self.world is not None:
                self.a_subtask_drains(subtask)
                while self.world is not None and self.has_taken(subtask):
                    self.a_subtask_acknowledges(subtask, nth=0, twice=False, saved=True)
                if self.world is not None:
                    self.a_subtask_commits(subtask)

    def has_taken(self, subtask: int) -> bool:
        assert self.world is not None
        return subtask < len(self.world.subtasks) and bool(self.world.subtasks[subtask].taken)


Coordination.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestCoordination = Coordination.TestCase
