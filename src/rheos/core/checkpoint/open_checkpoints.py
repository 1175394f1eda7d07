"""The open checkpoints of the running attempt: their pace, their ids, their outcomes.

Pure bookkeeping for the coordinator. Several may be open at a time (`max_concurrent`), and they
complete in any order. An entry in the log subsumes all checkpoints that were opened before it (CP14).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.events import SavepointRequested
from rheos.core.protocol.control import Acknowledge
from rheos.core.protocol.ids import CheckpointId

SOON_MS = 100
"""Time in ms until the first checkpoint after a handover."""


@dataclass(slots=True)
class OpenCheckpoint:
    """A checkpoint between its trigger and its entry in the log."""

    id: CheckpointId
    opened_ms: int
    final: bool
    savepoint: SavepointRequested | None = None
    acknowledged: dict[int, Acknowledge] = field(default_factory=dict)
    """Acknowledgements by subtask."""
    complete_ms: int | None = None
    """Time at which the last subtask acknowledged; None before that."""

    @property
    def alone(self) -> bool:
        """Return whether no other checkpoint may be open at the same time (CP15)."""
        return self.final or self.savepoint is not None


class OpenCheckpoints:
    def __init__(self, config: CheckpointConfig) -> None:
        self._config = config
        # A pause after each checkpoint excludes several at once.
        self._most = 1 if config.min_pause_ms > 0 else max(1, config.max_concurrent)
        self._parallelism = 0
        self._next = CheckpointId(1)
        self._reserved_to = CheckpointId(0)
        self._open: dict[CheckpointId, OpenCheckpoint] = {}
        """Open checkpoints, oldest first."""
        self._due_ms: int | None = None
        self._pause_until_ms = 0
        self._failures_in_row = 0

    def begin(self, first: CheckpointId, parallelism: int) -> None:
        """Prepare for an attempt that is about to be claimed; ids below `first` may be in use."""
        self._parallelism = parallelism
        self._next = max(self._next, first)
        self._open.clear()
        self._due_ms = None
        self._pause_until_ms = 0
        self._failures_in_row = 0

    def run(self, now_ms: int, *, soon: bool = False) -> None:
        """Begin the first interval: all subtasks are connected. If `soon`, it is a short one (UP11)."""
        self._plan_next(now_ms)
        if soon:
            self._due_ms = now_ms + min(self._config.interval_ms or SOON_MS, SOON_MS)

    def _plan_next(self, now_ms: int) -> None:
        if self._config.interval_ms is not None:
            self._due_ms = now_ms + self._config.interval_ms

    def reserve(self) -> CheckpointId:
        """Return the upper bound of ids to store in the log (CP4). At most `tolerable_failures` further
        checkpoints can fail before the next entry, since one more fails the attempt. The open ones need
        ids, too."""
        self._reserved_to = CheckpointId(self._next - 1 + self._config.tolerable_failures + self._most)
        return self._reserved_to

    @property
    def reserved_to(self) -> CheckpointId:
        """Return the bound that was stored last."""
        return self._reserved_to

    # --- times ------------------------------------------------------------------------------------

    def any_open(self) -> bool:
        return bool(self._open)

    def due_ms(self) -> int | None:
        """Return when the next checkpoint is due by the interval; None while none can be opened."""
        if self._due_ms is None or len(self._open) >= self._most:
            return None
        return max(self._due_ms, self._pause_until_ms)

    def retry_ms(self) -> int:
        """Return the earliest time of a checkpoint that does not wait for the interval. Only failures
        delay it."""
        return self._pause_until_ms if self._failures_in_row else 0

    def timeout_ms(self) -> int | None:
        """Return the time when the next open checkpoint times out; None if none can."""
        waiting = [open.opened_ms for open in self._open.values() if open.complete_ms is None]
        return min(waiting) + self._config.timeout_ms if waiting else None

    # --- events -----------------------------------------------------------------------------------

    def open(
        self, now_ms: int, *, final: bool = False, savepoint: SavepointRequested | None = None
    ) -> OpenCheckpoint:
        assert self._next <= self._reserved_to, "CP4: the log has reserved the id"
        opened = OpenCheckpoint(self._next, now_ms, final, savepoint)
        assert not (opened.alone and self._open), "CP15: it must be the only open checkpoint"
        self._next = CheckpointId(self._next + 1)
        self._open[opened.id] = opened
        self._plan_next(now_ms)
        return opened

    def acknowledge(self, event: Acknowledge, now_ms: int) -> None:
        """Record an acknowledgement, once per subtask and only for open checkpoints (CP5)."""
        open = self._open.get(event.checkpoint)
        if open is None or event.subtask in open.acknowledged:
            return
        open.acknowledged[event.subtask] = event
        if len(open.acknowledged) == self._parallelism:
            open.complete_ms = now_ms

    def declinable(self, checkpoint: CheckpointId, subtask: int) -> OpenCheckpoint | None:
        """Return the open checkpoint if the subtask has not acknowledged it."""
        open = self._open.get(checkpoint)
        return open if open is not None and subtask not in open.acknowledged else None

    def newest_complete(self) -> OpenCheckpoint | None:
        """Return the newest complete checkpoint, which is to be entered; it subsumes earlier ones."""
        complete = [open for open in self._open.values() if open.complete_ms is not None]
        return complete[-1] if complete else None

    def overdue(self, now_ms: int) -> list[OpenCheckpoint]:
        return [
            open
            for open in self._open.values()
            if open.complete_ms is None and now_ms >= open.opened_ms + self._config.timeout_ms
        ]

    def missing(self, open: OpenCheckpoint) -> list[int]:
        """Return the subtasks that have not acknowledged the checkpoint."""
        return sorted(set(range(self._parallelism)) - set(open.acknowledged))

    def unacknowledged(self) -> list[int]:
        """Return the subtasks that have not acknowledged the oldest open checkpoint."""
        oldest = next(iter(self._open.values()), None)
        return [] if oldest is None else self.missing(oldest)

    def fail(self, open: OpenCheckpoint, now_ms: int) -> int:
        """Remove an aborted checkpoint, and return the number of consecutive failures."""
        del self._open[open.id]
        self._failures_in_row += 1
        self._pause_until_ms = now_ms + self._config.min_pause_ms
        return self._failures_in_row

    def entered(
        self, checkpoint: CheckpointId, now_ms: int
    ) -> tuple[OpenCheckpoint, list[OpenCheckpoint]]:
        """Remove a checkpoint that is in the log. Return it, and those that it subsumes (CP14)."""
        entered = self._open.pop(checkpoint)
        subsumed = [open for open in self._open.values() if open.id < checkpoint]
        for open in subsumed:
            del self._open[open.id]
        self._failures_in_row = 0
        self._pause_until_ms = now_ms + self._config.min_pause_ms
        return entered, subsumed

    def abandon(self, entering: CheckpointId | None) -> list[OpenCheckpoint]:
        """Remove and return a failed attempt's open checkpoints, except one that is being entered."""
        abandoned = [open for open in self._open.values() if open.id != entering]
        for open in abandoned:
            del self._open[open.id]
        return abandoned

    def check(self) -> None:
        """Assert the invariants that always hold."""
        assert len(self._open) <= self._most
        assert all(checkpoint < self._next for checkpoint in self._open), "CP4"
        assert len(self._open) == 1 or not any(open.alone for open in self._open.values()), "CP15"
