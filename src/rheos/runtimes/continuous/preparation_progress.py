"""The progress of slots that restore checkpoints before an attempt begins (UP10). Pure."""

from __future__ import annotations

from enum import Enum

from rheos.core.protocol.ids import CheckpointId


class SlotsState(Enum):
    STARTING = "some slots have not joined"
    READY = "all slots have joined"
    FAILED = "a slot has failed, so the next attempt starts new ones"


class PreparationProgress:
    """Slots that wait for an attempt, and the checkpoints that they have restored."""

    def __init__(self, parallelism: int, checkpoint: CheckpointId) -> None:
        """Create the progress of slots that start with the request to restore `checkpoint`."""
        self.parallelism = parallelism
        self.state = SlotsState.STARTING
        self._requested = (checkpoint, checkpoint)
        """The last two requested checkpoints, the older one first."""
        self._restored: dict[int, CheckpointId] = {}

    def requested(self, checkpoint: CheckpointId) -> None:
        """Record a further request."""
        self._requested = self._requested[1], checkpoint

    def restored(self, subtask: int, checkpoint: CheckpointId) -> None:
        """Record that a slot has restored a checkpoint, or gives up on it."""
        self._restored[subtask] = checkpoint

    def are_current(self) -> bool:
        """Return whether each slot has restored one of the last two requested checkpoints, or whether
        they have failed. (Requests may follow each other faster than slots report.)"""
        if self.state is SlotsState.FAILED:
            return True
        reported = len(self._restored) == self.parallelism
        return reported and min(self._restored.values()) >= self._requested[0]
