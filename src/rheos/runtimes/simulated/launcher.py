"""The Launcher of the simulated runtime: slots in one process, messages with delays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from rheos.core.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.snapshot_writer import INLINE_BYTES
from rheos.core.connectors.contract import Split
from rheos.core.errors import RheosError, TransportError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.protocol.ports import Store
from rheos.runtimes.driver.launcher import LauncherEvent, deployment
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.clock import ProcessClock, SimClock
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.invariants import Watch
from rheos.runtimes.simulated.network import SimNetwork
from rheos.runtimes.simulated.slot import Slot
from rheos.runtimes.simulated.waiting_slots import WaitingSlot, take_slots

_LEASE_US = 400_000
_AHEAD = Attempt(0)
"""Number of slots before their attempt."""


class SimLauncher:
    """The launcher of one driver. After that driver's death nobody polls it: its slots are orphans."""

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        splits: Mapping[OperatorId, Sequence[Split]],
        *,
        store: Store,
        clock: SimClock,
        rng: Random,
        faults: Faults,
        watch: Watch,
        slots: Callable[[], int],
        io_latency_us: Callable[[], int],
    ) -> None:
        self._plan = plan
        self._config = config
        self._splits = splits
        self._store = store
        self._clock = clock
        self._rng = rng
        self._faults = faults
        self._watch = watch
        self._free_slots = slots
        self._io_latency_us = io_latency_us
        self._events: deque[tuple[int, LauncherEvent]] = deque()
        self._attempt: Attempt | None = None
        self._stopping = False
        self.slow_until_us = 0
        """Time until which messages are slow."""
        self.slots: list[Slot] = []
        self.zombies: list[Slot] = []
        self.ahead: list[WaitingSlot] = []
        """Slots that restore checkpoints ahead of the next attempt."""
        self.prepared_attempts = 0
        """Number of attempts that have taken them."""
        self.network: SimNetwork | None = None

    def delay_us(self) -> int:
        if self._clock.monotonic_us() < self.slow_until_us:
            return self._rng.randrange(1_000, 60_000)
        return self._rng.randrange(1, 3000) if self._rng.random() < 0.9 else 30_000

    def _io_delay_us(self) -> int:
        return self.delay_us() + self._io_latency_us()

    def process_clock(self) -> ProcessClock:
        """Return the clock of one more process."""
        skew_ms = round(self._faults.clock_skew_ms)
        skewed = self._rng.randrange(-skew_ms, skew_ms + 1) if skew_ms else 0
        return ProcessClock(self._clock, skewed, self._rng.randrange(1_000_000_000) if skew_ms else 0)

    @property
    def _faulty(self) -> bool:
        return self._clock.monotonic_us() < self._faults.until_us

    # --- the contract -----------------------------------------------------------------------------

    def free_slots(self) -> int:
        return self._free_slots()

    def joined(self) -> int:
        return len(self.slots)

    def strangers(self) -> int:
        return 0

    def stage(self) -> str | None:
        return None

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        self._watch.preparing(restore)
        if len(self.ahead) != parallelism or not all(slot.alive for slot in self.ahead):
            plan = replace(self._plan, parallelism=parallelism)
            deployed = deployment(plan, self._config, self._splits, _AHEAD, restore)
            self.ahead = [
                WaitingSlot(
                    deployed,
                    subtask,
                    store=self._store,
                    clock=self._clock,
                    own_clock=self.process_clock(),
                    delay_us=self._io_delay_us,
                )
                for subtask in range(parallelism)
            ]
        for slot in self.ahead:
            slot.request(restore)

    def has_prepared(self) -> bool:
        return bool(self.ahead)

    def not_prepared(self) -> str | None:
        return None

    def is_prepared(self) -> bool:
        return True

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        assert self._attempt is None, "one attempt at a time"
        self._attempt, self._stopping = attempt, False
        self._watch.launching(restore)
        reads = self._watch.reading(self._plan, self._splits, restore)
        plan = reads.watched(replace(self._plan, parallelism=parallelism))
        self.network = SimNetwork(
            attempt,
            self._plan.edge_schemas(),
            self._config.task.credits,
            self._clock.monotonic_us,
            self.delay_us,
        )
        deployed = deployment(plan, self._config, self._splits, attempt, restore)
        # The states of small programs are small: they must be in files to meet the store's failures.
        inline_bytes = self._rng.choice([0, 0, 300, INLINE_BYTES])
        ahead, self.ahead = self.ahead, []
        prepared = take_slots(ahead, parallelism)
        self.slots = [
            Slot(
                deployed,
                subtask,
                store=self._store,
                clock=self._clock,
                network=self.network,
                own_clock=self.process_clock(),
                delay_us=self.delay_us,
                io_delay_us=self._io_delay_us,
                report=self._reported,
                inline_bytes=inline_bytes,
                prepared=prepared[subtask],
            )
            for subtask in range(parallelism)
        ]
        is_prepared = prepared[0] is not None
        self.prepared_attempts += is_prepared
        self._emit(AttemptRunning(attempt, prepared=is_prepared))

    def _reported(self, message: control.ToMaster) -> None:
        if isinstance(message, control.Decline):
            self._watch.declined(message)
        if isinstance(message, control.Acknowledge | control.SplitsTaken) and self._loses():
            return
        self._emit(message)

    def _loses(self) -> bool:
        """Return whether this message, which may be lost, is lost."""
        return self._faulty and self._rng.random() < self._faults.lose_message

    def _emit(self, event: LauncherEvent) -> None:
        at_us = self._clock.monotonic_us() + self.delay_us()
        if self._events:
            at_us = max(at_us, self._events[-1][0])
        self._events.append((at_us, event))

    def send(self, message: control.ToTask, subtask: int | None = None) -> None:
        if isinstance(message, control.TriggerCheckpoint):
            self._watch.triggering(message)
        if isinstance(message, control.SinkPublished):
            self._watch.publishing(message)
        for slot in self.slots:
            lost = isinstance(message, control.SplitsFound) and self._loses()
            if slot.alive and not lost and (subtask is None or slot.subtask == subtask):
                slot.deliver(message)

    def stop(self, attempt: Attempt) -> None:
        if attempt != self._attempt or self._stopping:
            return
        self._stopping = True
        for slot in self.slots:
            if slot.alive:
                if self._faulty and self._rng.random() < self._faults.zombie:
                    self.orphan(slot)
                else:
                    slot.deliver(control.Cancel(attempt=attempt))

    def orphan(self, slot: Slot) -> None:
        """Cut the slot off: nobody relies on it any more, but it lives until its lease ends."""
        slot.dies_at_us = self._clock.monotonic_us() + self._rng.randrange(1, _LEASE_US)
        self.zombies.append(slot)

    def poll(self) -> list[LauncherEvent]:
        self._notice_end()
        now_us = self._clock.monotonic_us()
        events = []
        while self._events and self._events[0][0] <= now_us:
            events.append(self._events.popleft()[1])
        return events

    # --- faults -----------------------------------------------------------------------------------

    def crash(self, slot: Slot) -> None:
        """End the worker. Spark notices after a while and fails the attempt."""
        slot.die(lambda: self._rng.random() < 0.5)
        if slot not in self.slots or slot in self.zombies or self._attempt is None:
            return
        error: RheosError = TransportError(f"the worker of subtask {slot.subtask} was lost")
        self._emit(AttemptLost(self._attempt, error))

    def _notice_end(self) -> None:
        if self._attempt is None:
            return
        if any(slot.alive and slot not in self.zombies for slot in self.slots):
            return
        ended, self._attempt = self._attempt, None
        self.slots = []
        self._emit(AttemptEnded(ended))

    def next_us(self) -> int | None:
        return self._events[0][0] if self._events else None
