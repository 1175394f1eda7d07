"""Which barrier a chain is to take next, and when one may wait no longer (EX12, EX16).

A barrier waits from its arrival, or from the master's trigger where no barrier comes, until it is
sent on: for the barriers of other channels, for the element at hand, for credit behind buffered rows.
"""

from __future__ import annotations

from collections import deque

from rheos.core.protocol.elements import Barrier, BarrierKind
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.ports import Clock
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.core.task.inputs import Arrival, InputGate


class WaitingBarriers:
    """The barriers of one chain; `gate` is None for a source."""

    def __init__(self, gate: InputGate | None, clock: Clock, config: TaskConfig) -> None:
        self._gate = gate
        self._clock = clock
        exactly_once = config.guarantee is Guarantee.EXACTLY_ONCE
        self.patience_us = config.unaligned_after_us if exactly_once else None
        """How long a barrier waits before it overtakes; None: without limit."""
        self.by_itself = gate is None
        """Whether the master triggers the chain's checkpoints: a source, one that has ended, or
        the head of a loop whose input has."""
        self.forwarding: Arrival | None = None
        """The barrier whose snapshot is taken, and which waits for the rows before it to be sent."""
        self._triggered: deque[Arrival] = deque()

    def trigger(self, barrier: Barrier) -> None:
        """The master has triggered the checkpoint."""
        self._triggered.append(Arrival(barrier, self._clock.monotonic_us()))

    def abort(self, checkpoint: CheckpointId) -> None:
        self._triggered = deque(t for t in self._triggered if t.barrier.checkpoint != checkpoint)
        if self._gate is not None:
            self._gate.abort(checkpoint)

    def taken(self, checkpoint: CheckpointId) -> None:
        """The chain has its snapshot: nothing waits for it or an earlier one any longer."""
        while self._triggered and self._triggered[0].barrier.checkpoint <= checkpoint:
            self._triggered.popleft()
        if self._gate is not None:
            self._gate.finish_alignment(checkpoint)

    @property
    def awaited(self) -> bool:
        """Whether a checkpoint is under way that the chain has not taken."""
        return bool(self._triggered) or (self._gate is not None and self._gate.earliest() is not None)

    def next_triggered(self) -> Arrival | None:
        """What the chain is to take by itself, between two elements."""
        return self._triggered[0] if self._triggered and self.by_itself else None

    # --- waiting no longer ------------------------------------------------------------------------

    def may_overtake(self, barrier: Barrier) -> bool:
        return self.patience_us is not None and barrier.kind is BarrierKind.CHECKPOINT

    def is_overdue(self, arrival: Arrival) -> bool:
        if self.patience_us is None or not self.may_overtake(arrival.barrier):
            return False
        return self._clock.monotonic_us() - arrival.at_us >= self.patience_us

    def overdue(self) -> Arrival | None:
        """The barrier that is to overtake now. None goes ahead of one that is being sent on."""
        waiting = None if self.forwarding is not None else self._waiting()
        return waiting if waiting is not None and self.is_overdue(waiting) else None

    def next_overdue_us(self) -> int | None:
        """When a barrier may wait no longer, by the monotonic clock."""
        if self.patience_us is None:
            return None
        waiting = self.forwarding or self._waiting()
        if waiting is None or not self.may_overtake(waiting.barrier):
            return None
        return waiting.at_us + self.patience_us

    def _waiting(self) -> Arrival | None:
        """The earliest one that the chain has not taken and is to take."""
        if self._gate is not None and not self.by_itself:
            arrived = self._gate.earliest()
            if arrived is not None or not self._gate.closed:
                return arrived
            # No barrier will come, and rows lie before the Ends: the master's trigger stands for it.
        return self._triggered[0] if self._triggered else None
