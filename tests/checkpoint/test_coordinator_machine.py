"""The coordinator in an adverse world: answers come late or never, drivers and attempts die, zombies
speak, rivals write. The invariants of the protocol hold throughout, and once the faults stop the job
comes to its end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from timelines import SHAPE, handle

from rheos.checkpoint.config import CheckpointConfig, ExponentialDelay
from rheos.checkpoint.coordinator import Coordinator
from rheos.checkpoint.events import (
    Action,
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    DeleteFiles,
    DropEntries,
    EndJob,
    Event,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
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
from rheos.checkpoint.job_life import Phase
from rheos.checkpoint.log import CheckpointCompleted, JobFinished, JobLog
from rheos.checkpoint.retention import referred, stale
from rheos.errors import CheckpointError, ConfigurationError, FencedError, TransportError
from rheos.protocol.control import (
    Acknowledge,
    CheckpointAborted,
    CheckpointComplete,
    Committed,
    Decline,
    Drained,
    Finish,
    TriggerCheckpoint,
)
from rheos.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.simulated.store import MemoryStore

PARALLELISM = SHAPE.parallelism
CONFIG = CheckpointConfig(
    interval_ms=100,
    timeout_ms=250,
    min_pause_ms=30,
    retain=2,
    tolerable_failures=2,
    restart=ExponentialDelay(initial_ms=10, max_ms=80),
)
AWAY = CheckpointError("the store is away")
LOST = TransportError("lost")


@dataclass
class Subtask:
    """What a subtask of the model knows."""

    chain: list[str] = field(default_factory=list)
    triggered: list[int] = field(default_factory=list)
    to_commit: int = 0
    drained: bool = False


@dataclass
class World:
    attempt: int
    subtasks: list[Subtask]
    stopping: bool = False
    running: bool = False
    drained_at: set[int] = field(default_factory=set)


class Coordination(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.log = JobLog(self.store, JobId("job"))
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

    def new_driver(self) -> None:
        self.drivers += 1
        self.owner = f"driver {self.drivers}"
        self.coordinator = Coordinator(JobId("job"), self.owner, CONFIG, SHAPE)
        self.pending: deque[Action] = deque()
        self.world: World | None = None
        self.end: EndJob | None = None
        self.has_claimed = False
        self.give(Start())

    # --- the world carries out, and checks ------------------------------------------------------

    def give(self, event: Event) -> None:
        for action in self.coordinator.handle(event, self.now_ms):
            assert self.end is None, "nothing follows the end"
            self.carry_out(action)

    def carry_out(self, action: Action) -> None:
        match action:
            case ReadLog() | AppendLog() | Recover():
                assert not self.pending, "one answer is awaited at a time"
                self.pending.append(action)
                if isinstance(action, AppendLog):
                    self.check_entry(action)
            case StartAttempt():
                self.check_start(action)
                self.world = World(action.attempt, [Subtask() for _ in range(PARALLELISM)])
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
            case EndJob():
                self.end = action

    def completed(self) -> list[CheckpointCompleted]:
        return [kept.entry for kept in self.log.read().completed]

    def delete(self, paths: tuple[str, ...]) -> None:
        kept = {
            path for entry in self.completed()[-CONFIG.retain :] for path in referred(entry.handles)
        }
        assert not kept & set(paths), "CP10"
        self.deleted |= set(paths)
        for path in paths:
            self.store.delete(path)

    def check_entry(self, action: AppendLog) -> None:
        match action.entry:
            case CheckpointCompleted(attempt=attempt, checkpoint=checkpoint) as entry:
                assert self.world is not None
                assert attempt == self.world.attempt
                for subtask in range(PARALLELISM):
                    assert (attempt, subtask, checkpoint) in self.acknowledged, "CP5"
                assert not referred(entry.handles) & self.deleted, "CP10"
                assert len(entry.handles) == len(referred(entry.handles))
                if entry.final:
                    assert all(subtask.drained for subtask in self.world.subtasks), "CP9"
            case JobFinished(checkpoint=checkpoint):
                newest = self.completed()[-1]
                assert newest.final
                assert newest.checkpoint == checkpoint, "CP9"
                if self.world is not None and self.world.attempt == newest.attempt:
                    for subtask in range(PARALLELISM):
                        assert (subtask, checkpoint) in self.committed, "CP9"

    def check_start(self, action: StartAttempt) -> None:
        assert self.world is None, "CP6"
        assert not self.started or action.attempt > self.started[-1]
        self.started.append(action.attempt)
        view = self.log.read()
        if not self.rivalled:
            assert view.attempt == action.attempt, "CP6: its claim is in the log"
            newest = self.completed()[-1] if self.completed() else None
            assert (action.restore.entry if action.restore else None) == newest, "CP7"

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
                self.opened.append(checkpoint)
                for subtask in world.subtasks:
                    subtask.triggered.append(checkpoint)
            case CheckpointComplete(checkpoint=checkpoint):
                entries = [entry.checkpoint for entry in self.completed() if entry.owner == self.owner]
                assert checkpoint in entries, "CP3"
                self.told_complete.add((world.attempt, checkpoint))
                for subtask in world.subtasks:
                    subtask.to_commit = checkpoint
            case CheckpointAborted(checkpoint=checkpoint):
                assert (world.attempt, checkpoint) not in self.told_complete, "CP8"
            case Finish():
                assert isinstance(self.log.read().newest, JobFinished), "CP9"
                world.stopping = True
            case _:
                world.stopping = True

    # --- answers --------------------------------------------------------------------------------

    def answer(self, how: str) -> None:
        action = self.pending.popleft()
        match action:
            case ReadLog():
                self.give(LogRead(self.log.read()) if how == "well" else LogUnreadable(AWAY))
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
            case Recover(attempt=attempt):
                well = how == "well"
                self.give(Recovered(attempt) if well else RecoveryFailed(attempt, AWAY))

    @precondition(lambda self: self.end is None and self.pending)
    @rule(how=st.sampled_from(["well", "well", "well", "well", "lost", "written, and lost"]))
    def io_answers(self, how: str) -> None:
        self.answer(how if self.has_claimed else "well")

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
            if self.world is not None and any(task.triggered for task in self.world.subtasks):
                break
            self.sleeps_until_the_deadline()
            if self.world is not None and self.world.stopping:
                self.the_attempt_ends(error=False)
        for subtask in range(acknowledgements):
            if self.world is not None:
                self.a_subtask_acknowledges(subtask, full=False, twice=False)
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
        """The deadline that is told is enough: nothing is due before it."""
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
    @rule(subtask=st.integers(0, PARALLELISM - 1), full=st.booleans(), twice=st.booleans())
    def a_subtask_acknowledges(self, subtask: int, full: bool, twice: bool) -> None:
        assert self.world is not None
        task, attempt = self.world.subtasks[subtask], self.world.attempt
        if not task.triggered:
            return
        checkpoint = task.triggered.pop(0)
        path = f"job/state/{attempt}/{checkpoint}/count/{subtask}-counts.arrow"
        self.store.put(path, b"state")
        task.chain = [path] if full else [*task.chain, path]
        self.acknowledged.add((attempt, subtask, checkpoint))
        for _ in range(2 if twice else 1):
            self.give(
                Acknowledge(
                    attempt=Attempt(attempt),
                    subtask=subtask,
                    checkpoint=CheckpointId(checkpoint),
                    handles=[handle(link, subtask=subtask) for link in task.chain],
                    committables=[],
                )
            )

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_declines(self, subtask: int) -> None:
        assert self.world is not None
        task = self.world.subtasks[subtask]
        if task.triggered:
            checkpoint, task.chain = task.triggered.pop(0), []
            self.give(
                Decline(
                    attempt=Attempt(self.world.attempt),
                    subtask=subtask,
                    checkpoint=CheckpointId(checkpoint),
                    reason="full",
                )
            )

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_drains(self, subtask: int) -> None:
        assert self.world is not None
        task = self.world.subtasks[subtask]
        if not task.drained:
            task.drained = True
            self.give(Drained(attempt=Attempt(self.world.attempt), subtask=subtask))

    @precondition(lambda self: self.end is None and self.world)
    @rule(subtask=st.integers(0, PARALLELISM - 1))
    def a_subtask_commits(self, subtask: int) -> None:
        assert self.world is not None
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
        before = self.coordinator.phase
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
        assert self.coordinator.phase is before

    # --- drivers --------------------------------------------------------------------------------

    @precondition(lambda self: self.started and self.drivers < 4 and not self.cancelled)
    @rule()
    def the_driver_dies_and_another_comes(self) -> None:
        if self.end is None or isinstance(self.end.error, FencedError):
            self.rivalled = False
            self.new_driver()

    @precondition(lambda self: self.end is None and self.started and self.drivers < 4)
    @rule()
    def a_rival_claims(self) -> None:
        """Another driver takes the job over, and dies; this one has yet to find out."""
        view = self.log.read()
        if view.newest is None or isinstance(view.newest, JobFinished):
            return
        rival = Coordinator(JobId("job"), f"rival {view.next_number}", CONFIG, SHAPE)
        rival.handle(Start(), 0)
        [claim] = rival.handle(LogRead(view), 0)
        assert isinstance(claim, AppendLog)
        assert self.log.append(claim.number, claim.entry)
        self.rivalled = True

    @precondition(lambda self: self.end is None and len(self.opened) > 3)
    @rule()
    def the_user_cancels(self) -> None:
        self.cancelled = True
        self.give(CancelRequested())

    def teardown(self) -> None:
        """Faults stop: the job comes to its end within a bounded time."""
        if not hasattr(self, "coordinator"):
            return
        for _ in range(200):
            if self.end is not None:
                break
            self.now_ms += 40
            if self.pending:
                self.answer("well")
            elif self.world is not None:
                self.runs_on()
            self.give(Tick())
        assert self.end is not None, f"stuck in {self.coordinator.phase}"
        match self.end.outcome:
            case Outcome.FINISHED:
                assert isinstance(self.log.read().newest, JobFinished)
            case Outcome.CANCELLED:
                assert self.cancelled
            case Outcome.FAILED:
                done = isinstance(self.end.error, ConfigurationError)
                assert done or (self.rivalled and isinstance(self.end.error, FencedError))
        assert self.coordinator.phase is Phase.ENDED

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
                while self.world.subtasks[subtask].triggered:
                    self.a_subtask_acknowledges(subtask, full=True, twice=False)
                self.a_subtask_commits(subtask)


Coordination.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestCoordination = Coordination.TestCase
