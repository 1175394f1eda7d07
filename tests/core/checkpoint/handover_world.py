"""A world in which a job is handed over between drivers, and sometimes back (UP1 to UP11).

The coordinators and the log are the real ones. The world schedules their actions, the processes of
their attempts, and faults: drivers and workers die, the store loses writes or their answers, writes
arrive late, and supervisors restart killed drivers. The same seed yields the same run.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from random import Random

from rheos.core.checkpoint.config import CheckpointConfig, ExponentialDelay
from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    EndJob,
    Event,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    OtherGone,
    Outcome,
    PrepareState,
    ReadLog,
    Recover,
    Recovered,
    SavepointEnded,
    SavepointRequested,
    SendToAll,
    SlotsLeft,
    Start,
    StartAttempt,
    StopAttempt,
    Tick,
    WaitWithdrawn,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    LogEntry,
    decode_entry,
)
from rheos.core.checkpoint.succession import SuccessionLimits
from rheos.core.errors import CheckpointError, TransportError
from rheos.core.protocol.control import (
    Acknowledge,
    CheckpointComplete,
    CommittableHandle,
    Committed,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import CheckpointId, JobId
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import SHAPE, SINK

CONFIG = CheckpointConfig(interval_ms=50, timeout_ms=400, restart=ExponentialDelay(10, max_ms=40))
LIMITS = SuccessionLimits(
    release_ms=200, take_ms=500, confirm_ms=1_500, keep_ms=0, look_ms=5, idle_ms=20
)
NOTICED_MS = 60
"""Time until a process notices that the driver of the other program has died."""
AWAY = CheckpointError("the store is away")
LOST = TransportError("lost")


class BrokenRuleError(AssertionError):
    """A rule of the protocol does not hold."""


@dataclass(frozen=True)
class Faults:
    """Probabilities of faults, in each turn of the world."""

    driver_dies: float = 0.0
    worker_dies: float = 0.0
    store_fails: float = 0.0
    write_is_late: float = 0.0


@dataclass
class Process:
    """The subtasks of an attempt. They outlive their driver for a while."""

    driver: Driver
    attempt: int
    offsets: list[int]
    begun: list[int]
    """Offset of each subtask at its last barrier."""
    uncommitted: list[list[str]]
    inbox: deque[TriggerCheckpoint | CheckpointComplete] = field(default_factory=deque)
    is_connected: bool = False
    is_stopping: bool = False
    has_left: bool = False
    """Whether its operators are closed."""
    ends_ms: int | None = None


@dataclass
class Driver:
    """A driver of one program."""

    program: str
    owner: str
    coordinator: Coordinator
    log: JobLog
    pending: deque[Action] = field(default_factory=deque)
    process: Process | None = None
    is_alive: bool = True
    gone_ms: int = 0
    """Time at which it died or ended."""
    end: EndJob | None = None

    @property
    def waits(self) -> bool:
        return self.is_alive and self.coordinator.state is LifecycleState.AWAITING


class HandoverWorld:
    """One job, with a driver of program v1, and a driver of program v2 that takes it over."""

    def __init__(self, seed: int, faults: Faults, *, keep_ms: int = 0) -> None:
        self.rng = Random(seed)
        self.faults = faults
        self.keep_ms = keep_ms
        self.now_ms = 0
        self.store = MemoryStore()
        self.drivers: list[Driver] = []
        self.processes: list[Process] = []
        self.late: list[tuple[int, int, LogEntry, Driver]] = []
        """Writes that the store carries out later: time, number, entry and writer."""
        self.ranges: dict[str, tuple[int, int, int]] = {}
        """Subtask, first and last offset of each committable."""
        self.offsets: dict[int, list[int]] = {}
        """Offsets of the subtasks at each barrier, by checkpoint."""
        self.published = dict.fromkeys(range(SHAPE.parallelism), 0)
        self.done: set[str] = set()
        self.entries: list[LogEntry] = []
        self.asked: dict[int, tuple[Driver, Driver]] = {}
        """Requests to hand over: the driver that runs the job, and its successor."""
        self.requests = 0
        self.named_ms = -LIMITS.release_ms
        """Time at which an entry named a successor."""
        self.handovers = 0
        self.rollbacks = 0
        self.begin("v1")

    # --- drivers ------------------------------------------------------------------------------------

    def begin(self, program: str, *, waits: bool = False) -> Driver:
        owner = f"{program}-{len(self.drivers)}"
        coordinator = Coordinator(
            JobId("job"), owner, CONFIG, SHAPE, "DIR", handover=LIMITS, waits=waits
        )
        driver = Driver(program, owner, coordinator, JobLog(self.store, JobId("job")))
        self.drivers.append(driver)
        self.give(driver, Start())
        return driver

    def give(self, driver: Driver, event: Event) -> None:
        if driver.is_alive:
            driver.pending.extend(driver.coordinator.handle(event, self.now_ms))

    def dies(self, driver: Driver) -> None:
        driver.is_alive, driver.gone_ms = False, self.now_ms
        driver.pending.clear()
        if driver.process is not None:
            driver.process.ends_ms = self.now_ms + self.rng.choice([5, 50, 150])

    def alive(self) -> list[Driver]:
        return [driver for driver in self.drivers if driver.is_alive]

    # --- one turn -----------------------------------------------------------------------------------

    def turn(self, faults: Faults) -> None:
        self.now_ms += self.rng.choice([0, 1, 1, 2, 5])
        for write in [write for write in self.late if write[0] <= self.now_ms]:
            self.late.remove(write)
            with contextlib.suppress(CheckpointError):  # Its driver has written the number again.
                self._write(write[3], write[1], write[2])
        for driver in self.alive():
            if self.rng.random() < faults.driver_dies:
                self.dies(driver)
            elif driver.pending and self.rng.random() < 0.6:
                self._carry_out(driver, driver.pending.popleft(), faults)
            elif not driver.pending:
                self.give(driver, Tick())
        for process in list(self.processes):
            self._work(process, faults)
        self._note_the_dead()
        self.check()

    def _carry_out(self, driver: Driver, action: Action, faults: Faults) -> None:
        # Before its first claim, a driver that does not wait ends at the first error.
        has_claimed = any(entry.owner == driver.owner for entry in self.entries)
        steady = has_claimed or driver.coordinator.situation is not None
        if not steady:
            faults = Faults()
        fails = self.rng.random() < faults.store_fails
        match action:
            case ReadLog():
                self.give(driver, LogUnreadable(AWAY) if fails else LogRead(driver.log.read()))
            case AppendLog(number, entry):
                self._append(driver, number, entry, fails, faults)
            case Recover(attempt, checkpoint):
                if checkpoint is not None:
                    self._publish([handle.payload.decode() for handle in checkpoint.committables])
                self.give(driver, Recovered(attempt))
            case PrepareState(restore):
                self._check_prepared(driver, restore.entry)
            case StartAttempt():
                self._start(driver, action)
            case StopAttempt():
                if driver.process is not None and driver.process.ends_ms is None:
                    driver.process.is_stopping = True
                    driver.process.ends_ms = self.now_ms + self.rng.choice([0, 3, 30])
            case SendToAll(message):
                if driver.process is not None and isinstance(
                    message, TriggerCheckpoint | CheckpointComplete
                ):
                    driver.process.inbox.append(message)
            case SavepointEnded(request, error):
                self._answered(request, error is None)
            case EndJob():
                self._ends(driver, action)
            case _:
                pass

    def _ends(self, driver: Driver, end: EndJob) -> None:
        driver.end = end
        self.dies(driver)
        newest = self.newest_checkpoint()
        if end.outcome is Outcome.STOPPED and newest is not None and newest.owner == driver.owner:
            raise BrokenRuleError(
                f"UP8: {driver.owner} ends before its successor has completed a checkpoint"
            )

    def _append(
        self, driver: Driver, number: int, entry: LogEntry, fails: bool, faults: Faults
    ) -> None:
        if self.rng.random() < faults.write_is_late:
            self.late.append((self.now_ms + self.rng.choice([1, 40, 300]), number, entry, driver))
            self.give(driver, LogFailed(number, AWAY))
            return
        if fails and self.rng.random() < 0.5:
            self.give(driver, LogFailed(number, AWAY))
            return
        try:
            written = self._write(driver, number, entry)
        except CheckpointError as error:
            self.give(driver, LogFailed(number, error))
            return
        if not written:
            self.give(driver, LogLost(number))
        else:
            self.give(driver, LogFailed(number, AWAY) if fails else LogAppended(number))

    def _write(self, driver: Driver, number: int, entry: LogEntry) -> bool:
        if number > 1 and number > len(self.entries) + 1:
            raise BrokenRuleError(f"entry {number} leaves a gap")
        return driver.log.append(number, entry)

    def _start(self, driver: Driver, action: StartAttempt) -> None:
        in_time = self.now_ms < self.named_ms + LIMITS.release_ms
        for other in self.processes:
            if other.has_left:
                continue
            if in_time and other.driver.is_alive and other.driver is not driver:
                raise BrokenRuleError(
                    f"UP6: {driver.owner} starts next to the attempt of {other.driver.owner}"
                )
        restored = action.restore.entry.checkpoint if action.restore else 0
        offsets = self.offsets.get(restored, [0] * SHAPE.parallelism)
        pending = action.restore.entry.committables if action.restore else []
        missing = {handle.payload.decode() for handle in pending} - self.done
        if missing:
            raise BrokenRuleError(f"CP7: {driver.owner} starts before {missing} are committed")
        driver.process = Process(
            driver,
            action.attempt,
            list(offsets),
            list(offsets),
            [[] for _ in range(SHAPE.parallelism)],
        )
        self.processes.append(driver.process)

    def _check_prepared(self, driver: Driver, entry: CheckpointCompleted) -> None:
        """Check that slots restore ahead only what is in the log, and next to no attempt."""
        stored = [each for each in self.entries if isinstance(each, CheckpointCompleted)]
        if entry.checkpoint not in {each.checkpoint for each in stored}:
            raise BrokenRuleError(f"UP10: {driver.owner} restores {entry.checkpoint} ahead of the log")
        if driver.process is not None:
            raise BrokenRuleError(f"UP10: {driver.owner} restores state ahead, next to its attempt")

    def is_replaced(self, driver: Driver) -> bool:
        """Return whether the log has continued without the driver's attempt."""
        newest = self.entries[-1]
        return newest.owner != driver.owner

    # --- attempts -----------------------------------------------------------------------------------

    def _work(self, process: Process, faults: Faults) -> None:
        driver = process.driver
        if process.ends_ms is not None and self.now_ms >= process.ends_ms:
            self.processes.remove(process)
            if driver.process is process:
                driver.process = None
            self.give(driver, AttemptEnded(process.attempt))  # type: ignore[arg-type]
            return
        if process.has_left:
            return
        if process.is_stopping and self.rng.random() < 0.3:
            process.has_left = True
            self.give(driver, SlotsLeft(process.attempt))  # type: ignore[arg-type]
            return
        if self.rng.random() < faults.worker_dies and process.ends_ms is None:
            process.ends_ms = self.now_ms
            self.give(driver, AttemptLost(process.attempt, LOST))  # type: ignore[arg-type]
            return
        if not process.is_connected:
            if self.rng.random() < 0.2:
                process.is_connected = True
                self.give(driver, AttemptRunning(process.attempt))  # type: ignore[arg-type]
            return
        for subtask in range(SHAPE.parallelism):
            process.offsets[subtask] += self.rng.choice([0, 1, 3])
        if process.inbox and self.rng.random() < 0.5:
            match process.inbox.popleft():
                case TriggerCheckpoint(checkpoint=checkpoint):
                    if not process.is_stopping:
                        self._barrier(process, checkpoint)
                case CheckpointComplete(checkpoint=checkpoint):
                    self._commit(process, checkpoint)

    def _barrier(self, process: Process, checkpoint: CheckpointId) -> None:
        self.offsets[checkpoint] = list(process.offsets)
        for subtask in range(SHAPE.parallelism):
            first, last = process.begun[subtask], process.offsets[subtask]
            name = f"{process.attempt}/{checkpoint}/{subtask}"
            self.ranges[name] = (subtask, first, last)
            process.begun[subtask] = last
            process.uncommitted[subtask].append(name)
            listed = [CommittableHandle(SINK, each.encode()) for each in process.uncommitted[subtask]]
            self.give(
                process.driver,
                Acknowledge(
                    attempt=process.attempt,  # type: ignore[arg-type]
                    subtask=subtask,
                    checkpoint=checkpoint,
                    handles=[],
                    committables=listed,
                ),
            )

    def _commit(self, process: Process, checkpoint: CheckpointId) -> None:
        for subtask, names in enumerate(process.uncommitted):
            ready = [name for name in names if int(name.split("/")[1]) <= checkpoint]
            self._publish(ready)
            process.uncommitted[subtask] = [name for name in names if name not in ready]
            self.give(
                process.driver,
                Committed(
                    attempt=process.attempt,  # type: ignore[arg-type]
                    subtask=subtask,
                    checkpoint=checkpoint,
                ),
            )

    def _publish(self, names: list[str]) -> None:
        for name in names:
            if name in self.done:
                continue
            self.done.add(name)
            subtask, first, last = self.ranges[name]
            if first != self.published[subtask]:
                raise BrokenRuleError(
                    f"UP7: {name} publishes {first} to {last} after {self.published[subtask]}"
                )
            self.published[subtask] = last

    # --- the two programs ---------------------------------------------------------------------------

    def ask(self, running: Driver, successor: Driver) -> None:
        """Request that one driver hands the job over to the other."""
        self.requests += 1
        self.asked[self.requests] = (running, successor)
        self.give(
            running,
            SavepointRequested(
                self.requests,
                None,
                AfterSavepoint.HAND_OVER,
                successor=successor.owner,
                keep_ms=self.keep_ms,
            ),
        )

    def _answered(self, request: int, well: bool) -> None:
        running, successor = self.asked.pop(request)
        if well and running.process is not None and not running.process.has_left:
            raise BrokenRuleError("UP6: the request is answered before all slots have left")
        if well:
            self.give(successor, OtherGone())
        elif successor.coordinator.situation is not Situation.CONFIRMED:
            self.give(successor, WaitWithdrawn())

    def _note_the_dead(self) -> None:
        """Notify waiting drivers of the death of the others, as they learn it from the note."""
        for request, (running, _) in list(self.asked.items()):
            if not running.is_alive:
                del self.asked[request]
        runs = [driver for driver in self.alive() if not driver.waits]
        if runs or not self.entries:
            return
        dead = [driver for driver in self.drivers if not driver.is_alive]
        gone_ms = max((driver.gone_ms for driver in dead), default=None)
        if gone_ms is None or self.now_ms < gone_ms + NOTICED_MS:
            return
        for driver in self.alive():
            owner = self.entries[-1].owner
            if owner != driver.owner and any(each.owner == owner for each in dead):
                self.give(driver, OtherGone())

    # --- rules --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the rules that hold in the log."""
        while (entry := self._stored(len(self.entries) + 1)) is not None:
            self._check_next(entry)
        for number in range(max(len(self.entries) - 3, 1), len(self.entries) + 1):
            entry = self._stored(number)
            if entry is None or entry.owner != self.entries[number - 1].owner:
                raise BrokenRuleError(f"CP2: entry {number} was overwritten")
        running = [
            driver
            for driver in self.alive()
            if driver.coordinator.state is LifecycleState.RUNNING and not self.is_replaced(driver)
        ]
        if len(running) > 1:
            raise BrokenRuleError(f"UP8: {[driver.owner for driver in running]} both run the job")

    def _check_next(self, entry: LogEntry) -> None:
        before = self.entries[-1] if self.entries else None
        self.entries.append(entry)
        if isinstance(entry, CheckpointCompleted) and entry.successor is not None:
            self.named_ms = self.now_ms
        offered = isinstance(before, CheckpointCompleted) and before.successor is not None
        if offered and not isinstance(entry, AttemptStarted):
            raise BrokenRuleError("UP1: the incumbent writes after it has named its successor")
        if before is None or before.owner == entry.owner:
            return
        writer = next(driver for driver in self.drivers if driver.owner == entry.owner)
        other = next(driver for driver in self.drivers if driver.owner == before.owner)
        named = isinstance(before, CheckpointCompleted) and before.successor == entry.owner
        if named:
            self.handovers += 1
            self.rollbacks += writer.program == "v1"
        elif other.is_alive and writer.program == "v2" and other.program == "v1":
            raise BrokenRuleError("UP4: the successor claims a job that its incumbent still runs")

    def _stored(self, number: int) -> LogEntry | None:
        path = f"job/log/{number:010d}.json"
        data = self.store.files.get(path)
        return None if data is None else decode_entry(data, path).entry

    def newest(self) -> LogEntry | None:
        return self.entries[-1] if self.entries else None

    def newest_checkpoint(self) -> CheckpointCompleted | None:
        completed = (entry for entry in reversed(self.entries))
        return next((entry for entry in completed if isinstance(entry, CheckpointCompleted)), None)


def run(seed: int, faults: Faults, *, keep_ms: int = 0, turns: int = 1_500) -> HandoverWorld:
    """Run an upgrade, and perhaps a rollback, under faults; then without them until the job runs.

    Raises:
        BrokenRuleError: a rule does not hold.
    """
    world = HandoverWorld(seed, faults, keep_ms=keep_ms)
    rng = Random(seed + 1)
    begins_at, asks_at = rng.randrange(100, 400), rng.randrange(400, 700)
    rolls_back_at = rng.randrange(800, 1_200) if keep_ms else turns
    second: Driver | None = None
    for turn in range(turns):
        if turn == begins_at:
            second = world.begin("v2", waits=True)
        runs = [driver for driver in world.alive() if not driver.waits]
        if turn >= asks_at and second is not None and second.waits and runs and not world.asked:
            fits = second.coordinator.situation is Situation.OTHER_RUNS
            if fits and runs[-1].program == "v1":
                world.ask(runs[-1], second)
        if turn >= rolls_back_at and runs and not world.asked:
            kept = [driver for driver in world.alive() if driver.waits and driver.program == "v1"]
            if kept and kept[0].coordinator.situation is Situation.CONFIRMED:
                world.ask(runs[-1], kept[0])
                rolls_back_at = turns
        if not runs and rng.random() < (0.01 if world.alive() else 0.05):
            last = next(driver for driver in world.drivers if driver.owner == _last_owner(world))
            if not last.is_alive and last.end is None:
                world.begin(last.program)  # Its supervisor restarts it.
        world.turn(faults)
    _settle(world)
    return world


def _last_owner(world: HandoverWorld) -> str:
    newest = world.newest()
    return world.drivers[0].owner if newest is None else newest.owner


def _settle(world: HandoverWorld) -> None:
    """Let the world run without faults: exactly one driver must go on with the job (UP8)."""
    before = sum(world.published.values())
    for turn in range(6_000):
        if not world.alive():
            ended = [driver.end.outcome for driver in world.drivers if driver.end is not None]
            killed = any(driver.end is None for driver in world.drivers)
            if not killed:
                raise BrokenRuleError(f"UP8: no driver is left, and none was killed: {ended}")
            world.begin("v1" if _last_owner(world).startswith("v1") else "v2")
        world.turn(Faults())
        if turn > 2_500 and sum(world.published.values()) > before + 100:
            break
    else:
        states = [(driver.owner, driver.coordinator.state) for driver in world.alive()]
        raise BrokenRuleError(f"UP8: the job does not continue: {states}")
    for driver in world.drivers:
        if driver.end is not None and driver.end.outcome not in (Outcome.STOPPED, Outcome.FAILED):
            raise BrokenRuleError(f"{driver.owner} has ended as {driver.end.outcome}")
