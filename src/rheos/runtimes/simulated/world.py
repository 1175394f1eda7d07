"""A simulated world: one job, its drivers and workers, virtual time, a seeded scheduler, faults.

The plan, engine, operators, state, checkpoints and master are the real ones. The world only schedules
them. The same seed yields the same trace, of which `trace` is a running hash.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random

from rheos.core.checkpoint.events import AfterSavepoint
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import JobFinished
from rheos.core.checkpoint.savepoint import read_savepoint
from rheos.core.errors import CheckpointError, ConfigurationError, FencedError, JobFailedError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.runtimes.driver.master import Master
from rheos.runtimes.driver.sources_and_sinks import as_of_now, enumerate_splits, prepared_sinks
from rheos.runtimes.host import pickling
from rheos.runtimes.job import JobConfig, JobResult, JobState, JobStatus
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.driver import SimDriver
from rheos.runtimes.simulated.faults import Faults, Requests, SimulatedError
from rheos.runtimes.simulated.invariants import SAVEPOINTS, InvariantError, WatchedStore
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.launcher import SimLauncher
from rheos.runtimes.simulated.slot import Slot
from rheos.runtimes.simulated.staging import with_staging_folders
from rheos.runtimes.simulated.store import Moment, Operation, Storage, StoreFolder
from rheos.runtimes.simulated.waiting_slots import WaitingSlot

_TURN_US = 200
_HEARD_EVERY_US = 1_000_000
MAX_TURNS = 400_000


class ProcessDeath(BaseException):
    """The death of a process during an operation. No code of that process sees this exception."""


@dataclass(frozen=True)
class SimulatedRequest:
    """A request for a savepoint or for another parallelism, and its answer."""

    after: AfterSavepoint
    answer: Future[str]


@dataclass(frozen=True)
class TakenSavepoint:
    """A savepoint that was reported to its requester."""

    directory: str
    checkpoint: CheckpointId
    final: bool
    """Whether all input had ended."""
    files: Mapping[str, bytes]
    """Files of its folder, by their paths in the store."""
    published: frozenset[tuple[OperatorId, bytes]]
    """Committables that sinks had published up to it, over the life of the job."""


class World:
    """A simulated run of one plan to its end.

    Its drivers use `parallelisms` in turn, by default the plan's own. `files` are in the store from the
    start. A drain ends the input after `until_ms` of virtual time, or as soon as `until_read` returns
    true for the number of splits that a checkpoint has finished and the virtual time in ms. If
    `max_turns` is None, the plan may never end. The job has `slots` slots, by default as many as the
    largest of its parallelisms.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        seed: int,
        faults: Faults | None = None,
        parallelisms: Sequence[int] = (),
        requests: Requests | None = None,
        files: Mapping[str, bytes] | None = None,
        until_ms: int | None = None,
        max_turns: int | None = MAX_TURNS,
        until_read: Callable[[int, int], bool] | None = None,
        slots: int | None = None,
    ) -> None:
        plan = with_staging_folders(self, prepared_sinks(plan))
        # Nothing is sent here. But what cannot be pickled is an error, as in the other runtimes.
        pickling.check(plan.operators())
        self._plan = plan
        self._config = config
        self._seed = seed
        self._rng = Random(seed)
        self._parallelisms = tuple(parallelisms) or (plan.parallelism,)
        self.faults = faults or Faults(until_us=0)
        self.requests = requests or Requests()
        self.clock = SimClock()
        self.store = WatchedStore(
            config.job, config.checkpoint.retain, self.clock, config.checkpoint.log_block
        )
        self.store.files.update(files or {})
        self.watch = self.store.watch
        self.savepoints: list[TakenSavepoint] = []
        self._until_us = None if until_ms is None else until_ms * 1000
        self._until_read = until_read
        self._end_of_input: tuple[Master, Future[str]] | None = None
        """The master that was requested to end the input, and its answer."""
        self._max_turns = max_turns
        self.drained = False
        """Whether the end of the input was requested."""
        self.rescaled = 0
        """Number of successful requests for another parallelism."""
        self.trace = 0
        self.crashes = 0
        self.drivers = 0
        self._storage = Storage(self.faults, self.clock, self._rng)
        self._orphans: list[Slot] = []
        self._rivals: list[SimDriver] = []
        """Drivers that were given up, and have not noticed."""
        self._acting: SimDriver | Slot | WaitingSlot | None = None
        self._struck_us = 0
        self._doomed_us: int | None = None
        """Time at which a process dies after a completed checkpoint."""
        self._seen_checkpoints = 0
        self._asked: list[SimulatedRequest] = []
        """Requests without an answer so far."""
        self._stopped = False
        """Whether the job was stopped to be started again."""
        self._most_slots = slots or max(self._parallelisms)
        self._lost_slots = 0
        self._start_us: int | None = None
        """Time at which the next driver starts, if no driver runs."""
        self._driver = self._start_driver()
        self.store.on_access = self._on_access

    @property
    def master(self) -> Master:
        """Master of the driver that was started last."""
        return self._driver.master

    def status(self) -> JobStatus:
        return self.master.status()

    def _start_driver(self) -> SimDriver:
        self.drivers += 1
        parallelism = self._parallelisms[(self.drivers - 1) % len(self._parallelisms)]
        plan = replace(self._plan, parallelism=parallelism)
        if self._config.until_now:
            plan = as_of_now(plan)
        splits = enumerate_splits(plan)
        launcher = SimLauncher(
            plan,
            self._config,
            splits,
            store=self.store,
            clock=self.clock,
            rng=self._rng,
            faults=self.faults,
            watch=self.watch,
            slots=self._free_slots,
            io_latency_us=self._storage.latency_us,
        )
        io = SimIo(self.clock.monotonic_us, self._publishing_us)
        master = Master(
            plan,
            self._config,
            store=self.store,
            clock=self.clock,
            launcher=launcher,
            io=io,
            listing=io,
            splits=splits,
            owner=f"driver-{self._seed}-{self.drivers}",
            open_store=partial(StoreFolder, self.store),
        )
        return SimDriver(master, launcher, io, self.clock)

    def _publishing_us(self) -> int:
        """Return the time in us of a publication on the driver. It is often longer than the interval
        until the next checkpoint."""
        return self._rng.choice([1_000, 10_000, 10_000, 80_000, 300_000]) + self._storage.latency_us()

    # --- running ----------------------------------------------------------------------------------

    def run(self, heard: Callable[[JobStatus], None] | None = None) -> JobResult:
        """Run to the end of the job. Call `heard` with its status once per second of virtual time.
        Raise the error that ended the job, JobFailedError if it does not end after the faults have
        stopped, or InvariantError."""
        hear_at_us = self.clock.monotonic_us()
        for _ in count() if self._max_turns is None else range(self._max_turns):
            if heard is not None and self.clock.monotonic_us() >= hear_at_us + _HEARD_EVERY_US:
                hear_at_us = self.clock.monotonic_us()
                heard(self.status())
            if self._until_us is not None and self.clock.monotonic_us() >= self._until_us:
                self._until_us = None
                self._end_input()
            if self._is_read():
                self._end_input()
            if self._start_us is None and self.master.done:
                result = self._ended()
                if result is not None:
                    self._hear_answers()
                    self.watch.ended(self.faults.until_us)
                    self._hold()
                    return result
            self._turn()
            self._hold()
        raise JobFailedError(
            f"the job has not ended after {self._max_turns} turns",
            hint="bound the source, with count=, end= or until_read=",
            detail=str(self.master.status()),
        )

    def _is_read(self) -> bool:
        """Return whether all input is read, and its end was not requested yet."""
        if self._until_read is None:
            return False
        now_ms = self.clock.monotonic_us() // 1000
        if not self._until_read(self.watch.finished_splits(), now_ms):
            return False
        asked, answer = self._end_of_input or (None, None)
        failed = answer is not None and answer.done() and answer.exception() is not None
        return asked is not self.master or failed

    def _end_input(self) -> None:
        self.drained = True
        answer = self.master.request_savepoint(SAVEPOINTS, AfterSavepoint.DRAIN)
        self._end_of_input = self.master, answer

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Run until `reached` returns true, or to the end of the job. Raise InvariantError."""
        for _ in range(MAX_TURNS):
            if reached() or (self._start_us is None and self.master.done):
                return
            self._turn()
            self._hold()

    def _hold(self) -> None:
        if self.watch.violations:
            raise InvariantError("; ".join(self.watch.violations))

    def _ended(self) -> JobResult | None:
        """Return the job's result, or None if the job continues with another driver."""
        try:
            result = self.master.result()
        except CheckpointError as error:
            # The store, or a driver that was given up, has stopped it, so another driver is started.
            # The effect of a fault may become visible after the faults have stopped.
            struck = self.faulty or isinstance(error.__cause__, SimulatedError)
            if not struck and not (isinstance(error, FencedError) and self.drivers > 1):
                raise
            self._give_up_driver()
            return None
        except ConfigurationError:
            # A driver that died between the last entry and its own end has left a finished job, which
            # the next driver refuses to run again.
            if self.drivers == 1 or not self._finished():
                raise
            return JobResult(self.master.status())
        # With `until_now`, another run follows, as with cron.
        again = self._stopped or self._config.until_now
        if result.status.state in (JobState.CANCELLED, JobState.STOPPED) and again:
            self._hear_answers()
            self._stopped = False
            if result.status.state is JobState.STOPPED:
                if self._rng.random() < self.requests.leave:
                    return result
                if self._rng.random() < self.requests.resume_from_savepoint:
                    newest = max(self.savepoints, key=lambda taken: taken.checkpoint)
                    self._config = replace(self._config, from_savepoint=newest.directory)
            self._give_up_driver()
            return None
        return result

    def _finished(self) -> bool:
        self.store.on_access = None
        finished = isinstance(JobLog(self.store, self._config.job).read().newest, JobFinished)
        self.store.on_access = self._on_access
        return finished

    def _turn(self) -> None:
        self._strike()
        if self._asked:
            self._hear_answers()
        if self._start_us is not None and self.clock.monotonic_us() >= self._start_us:
            self._try_driver()
        # A process without work gets no turn, which would do nothing. Drivers always may: their
        # turns cost little, and they check more than what is due.
        now_us = self.clock.monotonic_us()
        ready = [slot for slot in self._slots() if slot.next_us() <= now_us]
        ahead = [slot for slot in self._waiting_slots() if slot.is_due()]
        drivers = [*([] if self._start_us is not None else [self._driver]), *self._rivals]
        actors: list[SimDriver | Slot | WaitingSlot] = [*ready, *drivers, *ahead]
        if actors:
            self._act(self._rng.choice(actors))
        self._orphans = [slot for slot in self._orphans if slot.alive]
        self.clock.advance(self._rng.randrange(1, _TURN_US))
        if not ready and not ahead:
            self._skip_to_next()

    def _act(self, actor: SimDriver | Slot | WaitingSlot) -> None:
        self._acting = actor
        try:
            worked = actor.turn()
        except ProcessDeath:
            self._acting = None
            self._dies(actor)
            worked = True
        finally:
            self._acting = None
        if isinstance(actor, SimDriver):
            self._note(b"m%d" % worked)
        else:
            self._note(b"%d/%d/%d" % (actor.attempt, actor.subtask, worked))

    def _skip_to_next(self) -> None:
        """Advance the time to the next action of any process."""
        times: list[int | None] = [slot.next_us() for slot in self._slots()]
        times += [slot.next_us() for slot in self._waiting_slots()]
        times += [rival.next_us() for rival in self._rivals]
        times.append(self._driver.next_us() if self._start_us is None else self._start_us)
        known = [time for time in times if time is not None]
        if known:
            self.clock.advance(max(0, min(known) - self.clock.monotonic_us()))

    def _slots(self) -> list[Slot]:
        own = [] if self._start_us is not None else self._driver.slots()
        slots = [*own, *(slot for rival in self._rivals for slot in rival.slots())]
        return [*slots, *(slot for slot in self._orphans if slot.alive)]

    def _waiting_slots(self) -> list[WaitingSlot]:
        """Return the living slots that restore checkpoints ahead. They end with their driver."""
        drivers = [*([] if self._start_us is not None else [self._driver]), *self._rivals]
        return [slot for driver in drivers for slot in driver.launcher.ahead if slot.alive]

    def _note(self, what: bytes) -> None:
        self.trace = zlib.crc32(what + b"@%d" % self.clock.monotonic_us(), self.trace)

    # --- drivers ----------------------------------------------------------------------------------

    def _try_driver(self) -> None:
        try:
            self._driver = self._start_driver()
        except ConfigurationError:
            # The store cannot be written.
            if not self.faulty:
                raise
            self._start_us = self._soon_us()
        else:
            self._start_us = None

    def _soon_us(self) -> int:
        return self.clock.monotonic_us() + self._rng.randrange(1_000, 60_000)

    def _give_up_driver(self) -> None:
        """Give the driver up: it is dead, or ends now. Its workers live on for a while."""
        self._leave_behind(self._driver)
        self._start_us = self._soon_us()

    def _leave_behind(self, driver: SimDriver) -> None:
        driver.io.perish(lambda: self._rng.random() < 0.5)
        for slot in driver.slots():
            if slot.dies_at_us is None:
                driver.launcher.orphan(slot)
            self._orphans.append(slot)

    def _dies(self, actor: SimDriver | Slot | WaitingSlot) -> None:
        self.crashes += 1
        self._note(b"died")
        if isinstance(actor, WaitingSlot):
            actor.die()
        elif isinstance(actor, Slot):
            for driver in (self._driver, *self._rivals):
                if actor in driver.launcher.slots:
                    driver.launcher.crash(actor)
                    return
            actor.die(lambda: self._rng.random() < 0.5)
        elif actor in self._rivals:
            self._rivals.remove(actor)
            self._leave_behind(actor)
        else:
            self._give_up_driver()

    # --- requests ---------------------------------------------------------------------------------

    def _ask(self, happens: Callable[[float], bool]) -> None:
        if happens(self.requests.cancel):
            self._note(b"cancel")
            self._stopped = True
            self.master.cancel()
        for rate, after in (
            (self.requests.savepoint, AfterSavepoint.GO_ON),
            (self.requests.stop, AfterSavepoint.STOP),
            (self.requests.drain, AfterSavepoint.DRAIN),
        ):
            if happens(rate):
                self._note(after.name.encode())
                self._stopped |= after is AfterSavepoint.STOP
                self.drained |= after is AfterSavepoint.DRAIN
                self._asked.append(
                    SimulatedRequest(after, self.master.request_savepoint(SAVEPOINTS, after))
                )
        if happens(self.requests.rescale):
            self._note(b"rescale")
            width = self._rng.randrange(1, self._most_slots + 2)
            self._asked.append(
                SimulatedRequest(AfterSavepoint.RESCALE, self.master.request_rescale(width))
            )

    def _hear_answers(self) -> None:
        """Record savepoints that were answered: the requester relies on them."""
        answered = [asked for asked in self._asked if asked.answer.done()]
        self._asked = [asked for asked in self._asked if not asked.answer.done()]
        for asked in answered:
            if asked.answer.exception() is not None:
                continue
            if asked.after is AfterSavepoint.RESCALE:
                self.rescaled += 1
                continue
            directory = asked.answer.result()
            self.watch.promised.append(directory)
            store = StoreFolder(self.store, directory)
            self.store.on_access = None
            found = read_savepoint(store, directory)
            self.store.on_access = self._on_access
            self.savepoints.append(
                TakenSavepoint(
                    directory,
                    found.entry.checkpoint,
                    found.entry.final,
                    {
                        path: data
                        for path, data in self.store.files.items()
                        if path.startswith(f"{directory}/")
                    },
                    frozenset(self.watch.published(found.entry.checkpoint)),
                )
            )

    # --- faults -----------------------------------------------------------------------------------

    @property
    def faulty(self) -> bool:
        return self.clock.monotonic_us() < self.faults.until_us

    def lose_slots(self, lost: int) -> None:
        """Remove this number of slots from now on, and end what ran in them. 0 restores all slots."""
        self._lost_slots = lost
        launcher = self._driver.launcher
        for slot in [slot for slot in launcher.slots if slot.alive][self._most_slots - lost :]:
            launcher.crash(slot)

    def _free_slots(self) -> int:
        """Return the number of free slots. A driver that needs all slots gets them once faults stop."""
        waits = self._config.min_parallelism is None and not self.faulty
        return self._most_slots - (0 if waits else self._lost_slots)

    def _strike(self) -> None:
        now_us = self.clock.monotonic_us()
        for rival in list(self._rivals):
            if rival.master.done or (rival.dies_at_us is not None and now_us >= rival.dies_at_us):
                self._rivals.remove(rival)
                self._leave_behind(rival)
        # Time may have skipped ahead: the elapsed time counts, not the number of turns.
        passed_s = (now_us - self._struck_us) / 1e6
        self._struck_us = now_us

        def happens(per_second: float) -> bool:
            return per_second > 0 and self._rng.random() < per_second * passed_s

        if now_us < self.requests.until_us and self._start_us is None:
            self._ask(happens)
        if not self.faulty:
            return
        self._storage.strike(happens)
        if happens(self.faults.clock_jump):
            self.clock.jump(self._rng.randrange(-3_600_000, 3_600_000))
        if self._start_us is not None:
            return
        if self._strikes_driver_after_checkpoint():
            self._lose_driver()
            return
        launcher = self._driver.launcher
        alive = [slot for slot in launcher.slots if slot.alive]
        doomed = self._doomed_us is not None and now_us >= self._doomed_us
        if alive and (doomed or happens(self.faults.crash_slot)):
            self._doomed_us = None
            self.crashes += 1
            self._note(b"crash")
            launcher.crash(self._rng.choice(alive))
        ahead = [slot for slot in launcher.ahead if slot.alive]
        if ahead and happens(self.faults.crash_slot):
            self.crashes += 1
            self._note(b"crash ahead")
            self._rng.choice(ahead).die()
        network = launcher.network
        if network is not None and network.channels() and happens(self.faults.clog):
            channel = self._rng.choice(network.channels())
            network.clog(channel, now_us + self._rng.randrange(1, 300_000))
        if alive and happens(self.faults.freeze):
            self._rng.choice(alive).frozen_until_us = now_us + self._rng.randrange(1, 300_000)
        if happens(self.faults.slow_network):
            launcher.slow_until_us = now_us + self._rng.randrange(1, 400_000)
        if happens(self.faults.lose_slot) and self._lost_slots < self._most_slots - 1:
            self._lost_slots += 1
            if alive:
                launcher.crash(self._rng.choice(alive))
        if happens(self.faults.crash_driver):
            self._lose_driver()

    def _strikes_driver_after_checkpoint(self) -> bool:
        """Return whether the driver dies now, after a completed checkpoint. A worker may die later."""
        completed = len(self.watch.completed)
        if completed == self._seen_checkpoints:
            return False
        self._seen_checkpoints = completed
        if self._rng.random() >= self.faults.crash_after_checkpoint:
            return False
        if self._rng.random() < 0.2:
            return True
        self._doomed_us = self.clock.monotonic_us() + self._rng.randrange(1, 30_000)
        return False

    def _lose_driver(self) -> None:
        """End the driver, or cut it off for a while without waiting for it."""
        self.crashes += 1
        self._note(b"driver")
        if self._rng.random() >= self.faults.sleeping_driver:
            self._give_up_driver()
            return
        asleep_us, awake_us = self._rng.randrange(1, 200_000), self._rng.randrange(1, 300_000)
        self._driver.busy(asleep_us)
        self._driver.dies_at_us = self.clock.monotonic_us() + asleep_us + awake_us
        self._rivals.append(self._driver)
        self._start_us = self._soon_us()

    def _on_access(self, moment: Moment, operation: Operation, path: str) -> None:
        self._perhaps_die()
        if moment == "before" and isinstance(self._acting, SimDriver):
            self._acting.busy(self._storage.latency_us())
        if self._storage.strikes(moment, operation):
            if operation == "put":
                self.watch.write_failed(path)
            raise SimulatedError(f"simulated failure {moment} {operation} of {path}")

    def on_commit(self, moment: str, operator: OperatorId, payload: bytes) -> None:
        """Raise an OSError by chance. A test's sink calls this before and after it commits."""
        if moment == "before":
            self.watch.committing(operator, payload)
        else:
            self.watch.committed(operator, payload, by_slot=isinstance(self._acting, Slot))
        self._perhaps_die()
        if self.faulty and self._rng.random() < self.faults.commit_error / 2:
            raise SimulatedError(f"simulated failure {moment} a commit")

    def _perhaps_die(self) -> None:
        if self._acting is None or not self.faulty:
            return
        within_driver = isinstance(self._acting, SimDriver)
        rate = self.faults.die_in_driver_io if within_driver else self.faults.die_in_slot_io
        if rate and self._rng.random() < rate:
            raise ProcessDeath
