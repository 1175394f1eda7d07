"""A simulated world: one job, its driver and workers, virtual time, a seeded scheduler, faults.

The plan, engine, operators, state, checkpoints and master are the real ones. The world decides only
what happens when. The same seed gives the same trace, of which `trace` is a running hash.
"""

from __future__ import annotations

import zlib
from random import Random

from rheos.checkpoint.log import JobFinished, JobLog
from rheos.errors import CheckpointError, ConfigurationError, JobFailedError
from rheos.plan.physical import PhysicalPlan
from rheos.runtimes.contract import JobConfig, JobResult, JobStatus
from rheos.runtimes.master import Master, enumerate_splits
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.launcher import SimLauncher
from rheos.runtimes.simulated.slot import Slot
from rheos.runtimes.simulated.store import MemoryStore

_TURN_US = 200
_MAX_TURNS = 400_000


class World:
    """Runs one plan to its end."""

    def __init__(
        self, plan: PhysicalPlan, config: JobConfig, seed: int, faults: Faults | None = None
    ) -> None:
        self._plan = plan
        self._config = config
        self._rng = Random(seed)
        self.faults = faults or Faults(until_us=0)
        self.clock = SimClock()
        self.store = MemoryStore(self._on_access)
        self.trace = 0
        self.crashes = 0
        self.drivers = 0
        self._splits = enumerate_splits(plan)
        self._orphans: list[Slot] = []
        self._struck_us = 0
        self._start_driver()

    def _start_driver(self) -> None:
        self.drivers += 1
        self.launcher = SimLauncher(
            self._plan,
            self._config,
            self._splits,
            store=self.store,
            clock=self.clock,
            rng=self._rng,
            faults=self.faults,
        )
        # The check of the store at the start is not a place for faults: it ends the driver for good.
        on_access, self.store.on_access = self.store.on_access, None
        self.master = Master(
            self._plan,
            self._config,
            store=self.store,
            clock=self.clock,
            launcher=self.launcher,
            owner=f"driver-{self.drivers}",
        )
        self.store.on_access = on_access

    # --- running ----------------------------------------------------------------------------------

    def run(self) -> JobResult:
        """To the end of the job. Raises the error that ended it; JobFailedError where, after the faults
        have stopped, it does not end."""
        for _ in range(_MAX_TURNS):
            if self.master.done:
                try:
                    return self.master.result()
                except CheckpointError:
                    # The store would not let the driver go on. Whoever runs drivers starts another.
                    if not self.faulty:
                        raise
                    self._lose_driver()
                except ConfigurationError:
                    # A driver that died between the last entry and its own end has left a job that is
                    # finished, which the next driver refuses to run again.
                    if self.drivers == 1 or not self._finished():
                        raise
                    return JobResult(self.master.status())
            self._turn()
        raise JobFailedError(
            f"the job has not ended after {_MAX_TURNS} turns", detail=str(self.master.status())
        )

    def _finished(self) -> bool:
        return isinstance(JobLog(self.store, self._config.job).read().newest, JobFinished)

    def _turn(self) -> None:
        self._strike()
        actors = [slot for slot in self._all_slots() if slot.alive]
        chosen = self._rng.randrange(len(actors) + 1)
        if chosen == len(actors):
            self._note(b"m")
            self.master.step()
            worked = True
        else:
            slot = actors[chosen]
            worked = slot.turn()
            self._note(b"%d/%d/%d" % (slot.attempt, slot.subtask, worked))
        self._orphans = [slot for slot in self._orphans if slot.alive]
        self.clock.advance(self._rng.randrange(1, _TURN_US))
        if not worked:
            self._skip_to_next()

    def _skip_to_next(self) -> None:
        """Where nobody has anything to do before some moment, time goes there."""
        times = [slot.next_us() for slot in self._all_slots() if slot.alive]
        times += [self.launcher.next_us(), self.master.next_step_us()]
        if self.launcher.network is not None:
            times.append(self.launcher.network.next_us())
        known = [time for time in times if time is not None]
        if known:
            self.clock.advance(max(0, min(known) - self.clock.monotonic_us()))

    def _all_slots(self) -> list[Slot]:
        zombies = [slot for slot in self.launcher.zombies if slot not in self.launcher.slots]
        return [*self.launcher.slots, *zombies, *self._orphans]

    def _note(self, what: bytes) -> None:
        self.trace = zlib.crc32(what + b"@%d" % self.clock.monotonic_us(), self.trace)

    # --- faults -----------------------------------------------------------------------------------

    @property
    def faulty(self) -> bool:
        return self.clock.monotonic_us() < self.faults.until_us

    def _strike(self) -> None:
        if not self.faulty:
            return
        # Time may have skipped ahead: what counts is how much has passed, not how many turns.
        passed_s = (self.clock.monotonic_us() - self._struck_us) / 1e6
        self._struck_us = self.clock.monotonic_us()

        def happens(per_second: float) -> bool:
            return self._rng.random() < per_second * passed_s

        alive = [slot for slot in self.launcher.slots if slot.alive]
        if alive and happens(self.faults.crash_slot):
            self.crashes += 1
            self._note(b"crash")
            self.launcher.crash(self._rng.choice(alive))
        if happens(self.faults.crash_driver):
            self._note(b"driver")
            self._lose_driver()
        network = self.launcher.network
        if network is not None and network.channels() and happens(self.faults.clog):
            channel = self._rng.choice(network.channels())
            network.clog(channel, self.clock.monotonic_us() + self._rng.randrange(1, 300_000))
        if happens(self.faults.clock_jump):
            self.clock.jump(self._rng.randrange(-3_600_000, 3_600_000))

    def _lose_driver(self) -> None:
        self.crashes += 1
        for slot in self._all_slots():
            if slot.alive:
                if slot.dies_at_us is None:
                    self.launcher.orphan(slot)
                if slot not in self._orphans:
                    self._orphans.append(slot)
        self._start_driver()

    def _on_access(self, moment: str, operation: str, path: str) -> None:
        writes = operation in ("put", "put_if_absent")
        if writes and self.faulty and self._rng.random() < self.faults.store_error / 2:
            raise OSError(f"simulated failure {moment} {operation} of {path}")

    def on_commit(self, moment: str) -> None:
        """To be called by a test's sink before and after it commits: raises an OSError by chance."""
        if self.faulty and self._rng.random() < self.faults.commit_error / 2:
            raise OSError(f"simulated failure {moment} a commit")

    def status(self) -> JobStatus:
        return self.master.status()
