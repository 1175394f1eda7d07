"""The barriers that a chain has to process, and how long one may wait (EX12, EX16).

A barrier waits from its arrival, or from the master's trigger if no barrier arrives, until it is
forwarded. It may wait for the barriers of other channels, for the current element, or for credit for
buffered rows.
"""

from __future__ import annotations

from collections import deque

from rheos.core.protocol.elements import Barrier, BarrierKind
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.ports import Clock
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.core.task.inputs import Arrival, InputGate


class TriggeredBarriers:
    """The barriers of a source: the master triggers them."""

    def __init__(self, clock: Clock, config: TaskConfig) -> None:
        self._clock = clock
        exactly_once = config.guarantee is Guarantee.EXACTLY_ONCE
        self.patience_us = config.unaligned_after_us if exactly_once else None
        """Time after which a waiting barrier overtakes rows; None: never."""
        self.by_itself = True
        """Whether the chain snapshots at the master's trigger instead of at a barrier. True for a
        source, a chain that has ended, and the head of a loop whose input has ended."""
        self.forwarding: Arrival | None = None
        """Barrier that waits to be forwarded: its snapshot is taken, some rows before it are not
        sent."""
        self._triggered: deque[Arrival] = deque()

    def trigger(self, barrier: Barrier) -> None:
        """Record that the master has triggered the checkpoint."""
        self._triggered.append(Arrival(barrier, self._clock.monotonic_us()))

    def abort(self, checkpoint: CheckpointId) -> None:
        """Forget the checkpoint."""
        self._triggered = deque(t for t in self._triggered if t.barrier.checkpoint != checkpoint)

    def taken(self, checkpoint: CheckpointId) -> None:
        """Record that the chain has taken its snapshot. The barriers of this checkpoint and of earlier
        ones no longer wait."""
        while self._triggered and self._triggered[0].barrier.checkpoint <= checkpoint:
            self._triggered.popleft()

    @property
    def awaited(self) -> bool:
        """Return whether a checkpoint is in progress for which the chain has not taken its snapshot."""
        return bool(self._triggered)

    def next_triggered(self) -> Arrival | None:
        """Return the triggered barrier that the chain must process next, between two elements."""
        return self._triggered[0] if self._triggered and self.by_itself else None

    # --- overtaking -------------------------------------------------------------------------------

    def may_overtake(self, barrier: Barrier) -> bool:
        """Return whether the barrier may overtake rows at all."""
        return self.patience_us is not None and barrier.kind is BarrierKind.CHECKPOINT

    def is_overdue(self, arrival: Arrival) -> bool:
        """Return whether the barrier has waited for the maximum time."""
        if self.patience_us is None or not self.may_overtake(arrival.barrier):
            return False
        return self._clock.monotonic_us() - arrival.at_us >= self.patience_us

    def overdue(self) -> Arrival | None:
        """Return the barrier that must overtake now. None while another is being forwarded."""
        waiting = None if self.forwarding is not None else self._waiting()
        return waiting if waiting is not None and self.is_overdue(waiting) else None

    def next_overdue_us(self) -> int | None:
        """Return when the waiting time of a barrier ends, on the monotonic clock."""
        if self.patience_us is None:
            return None
        waiting = self.forwarding or self._waiting()
        if waiting is None or not self.may_overtake(waiting.barrier):
            return None
        return waiting.at_us + self.patience_us

    def _waiting(self) -> Arrival | None:
        """Return the earliest barrier that the chain still has to process."""
        return self._triggered[0] if self._triggered else None


class ArrivingBarriers(TriggeredBarriers):
    """The barriers of a chain with an input, which arrive at its gate."""

    def __init__(self, gate: InputGate, clock: Clock, config: TaskConfig) -> None:
        super().__init__(clock, config)
        self._gate = gate
        self.by_itself = False

    def abort(self, checkpoint: CheckpointId) -> None:
        super().abort(checkpoint)
        self._gate.abort(checkpoint)

    def taken(self, checkpoint: CheckpointId) -> None:
        super().taken(checkpoint)
        self._gate.finish_alignment(checkpoint)

    @property
    def awaited(self) -> bool:
        return bool(self._triggered) or self._gate.earliest() is not None

    def _waiting(self) -> Arrival | None:
        if not self.by_itself:
            arrived = self._gate.earliest()
            if arrived is not None or not self._gate.closed:
                return arrived
            # No barrier will arrive, and rows wait before the Ends, so the master's trigger counts.
        return super()._waiting()
