"""A simulated worker: one slot's engine with its own I/O, and its two ends of the control channel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from rheos.core.checkpoint.snapshot_writer import INLINE_BYTES
from rheos.core.errors import RheosError
from rheos.core.protocol import control
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ports import Clock, Store
from rheos.core.task.engine import Lifecycle, SubtaskEngine
from rheos.core.task.prepared_slot import PreparedSlot
from rheos.core.task.slot import Deployment, open_slot
from rheos.runtimes.host.closing import close_logged
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.network import SimNetwork, SimTransport
from rheos.runtimes.simulated.store import StoreFolder


class Slot:
    """A simulated slot. `report` receives its messages. `delay_us` and `io_delay_us` draw how long
    control messages and I/O take; `own_clock` is the clock of its process. `prepared` has state that
    was restored ahead."""

    def __init__(
        self,
        deployment: Deployment,
        subtask: int,
        *,
        store: Store,
        clock: SimClock,
        network: SimNetwork,
        own_clock: Clock,
        delay_us: Callable[[], int],
        io_delay_us: Callable[[], int],
        report: Callable[[control.ToMaster], None],
        inline_bytes: int = INLINE_BYTES,
        prepared: PreparedSlot | None = None,
    ) -> None:
        self.attempt = deployment.attempt
        self.subtask = subtask
        self.alive = True
        self.dies_at_us: int | None = None
        """Time at which a zombie's lease ends."""
        self.frozen_until_us = 0
        self._clock = clock
        self._delay_us = delay_us
        self._report = report
        self._inbox: deque[tuple[int, control.ToTask]] = deque()
        self._wake_us = 0
        self._network = network
        self._io = SimIo(clock.monotonic_us, io_delay_us)
        self._engine: SubtaskEngine | None = None
        # However the slot ends, its disk is removed.
        scratch = folder_of(self, "rheos-slot-", deployment.state.directory)

        self._open_engine = partial(
            open_slot,
            deployment,
            subtask,
            store=store,
            open_store=partial(StoreFolder, store),
            transport=SimTransport(network, subtask),
            clock=own_clock,
            io=self._io,
            report=report,
            scratch=scratch,
            inline_bytes=inline_bytes,
            prepared=prepared,
        )

    def deliver(self, message: control.ToTask) -> None:
        """Send a message from the master, which arrives later, after earlier ones."""
        at_us = self._clock.monotonic_us() + self._delay_us()
        if self._inbox:
            at_us = max(at_us, self._inbox[-1][0])
        self._inbox.append((at_us, message))

    def die(self, goes_through: Callable[[], bool]) -> None:
        """End the process at once. `goes_through` decides which of its I/O takes effect."""
        self._end()
        self._io.perish(goes_through)

    def _end(self) -> None:
        """Release the engine before the disk: RocksDB waits for a second if its folder is gone."""
        self.alive = False
        self._engine = None

    def next_us(self) -> int:
        """Return the time of its next action, unless more input reaches it earlier. A turn before that
        time does nothing."""
        due = self._wake_us
        if self._inbox:
            due = min(due, self._inbox[0][0])
        for time in (self._io.next_us(), self._network.next_us(self.subtask), self.dies_at_us):
            if time is not None:
                due = min(due, time)
        return max(due, self.frozen_until_us)

    def turn(self) -> bool:
        """Run one turn of the worker's loop. Return whether it did anything."""
        now_us = self._clock.monotonic_us()
        if now_us < self.frozen_until_us:
            return False
        if self.dies_at_us is not None and now_us >= self.dies_at_us:
            self._end()
            return True
        try:
            if self._engine is None:
                self._engine = self._open_engine()
            engine = self._engine
            worked = self._io.run_due()
            while self._inbox and self._inbox[0][0] <= now_us:
                engine.deliver(self._inbox.popleft()[1])
                worked = True
            if engine.lifecycle is Lifecycle.DONE:
                engine.report_progress()
                close_logged(engine.close)
                self._end()
                return True
            step = engine.step()
        except RheosError as error:
            self._report(
                control.Failed(attempt=self.attempt, subtask=self.subtask, error=ErrorData.of(error))
            )
            self._end()
            return True
        self._wake_us = now_us + (step.wake_after_us or 0)
        return worked or step.worked
