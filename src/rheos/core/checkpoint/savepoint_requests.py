"""Requests for savepoints, processed one at a time: pure bookkeeping for the coordinator.

    queued -> (DRAINING) -> OPEN -> COMMITTING -> WRITING -> answered
                 |           |                       |
                 +-----------+-- the attempt fails --+--> answered with an error

The job itself may request to stop with a checkpoint and without a copy. Such a request becomes TAKEN
instead of WRITING, and is not answered. A request to rescale becomes TAKEN, too. It is then RESCALING
until the next attempt runs, and that is the answer. A request to hand the job over becomes TAKEN, and
is answered when the attempt has ended.

If a savepoint's checkpoint is in the log, the savepoint survives the end of its attempt: recovery
commits the checkpoint, and then the manifest is written (CP13).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

import msgspec

from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    DiscardSavepoint,
    SavepointEnded,
    SavepointRequested,
    WriteSavepoint,
)
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.open_checkpoints import OpenCheckpoint
from rheos.core.errors import CheckpointError, RheosError
from rheos.core.protocol.ids import CheckpointId


class Stage(Enum):
    DRAINING = "the input ends"
    OPEN = "its checkpoint is open, or being written to the log"
    COMMITTING = "its checkpoint is in the log, but not committed everywhere"
    WRITING = "its manifest is written"
    TAKEN = "its checkpoint is committed everywhere, and no copy is needed: the attempt ends"
    RESCALING = "the next attempt has the requested parallelism"


_ENDS_ATTEMPT = (AfterSavepoint.STOP, AfterSavepoint.RESCALE, AfterSavepoint.HAND_OVER)

_WITHOUT_COPY = SavepointRequested(0, None, AfterSavepoint.STOP)
"""Request that the job itself makes at its end."""


@dataclass(slots=True)
class _Current:
    request: SavepointRequested
    stage: Stage
    entry: CheckpointCompleted | None = None
    """Entry for the manifest, once the checkpoint is in the log."""
    is_answered: bool = False
    """Whether a handover was answered before its attempt had ended."""


class SavepointRequests:
    def __init__(self) -> None:
        self._queue: deque[SavepointRequested] = deque()
        self._current: _Current | None = None

    # --- queries ----------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage | None:
        return self._current.stage if self._current else None

    @property
    def next(self) -> SavepointRequested | None:
        """Return the next waiting request; None while another one is being processed."""
        return self._queue[0] if self._queue and self._current is None else None

    @property
    def one_behind(self) -> bool:
        """Return whether a request waits until the current request, with its checkpoint, is settled."""
        return bool(self._queue) and self.stage in (Stage.COMMITTING, Stage.WRITING)

    @property
    def busy(self) -> bool:
        """Return whether any request is being processed or waits."""
        return self._current is not None or bool(self._queue)

    @property
    def entry(self) -> CheckpointCompleted | None:
        """Return the checkpoint of the current request, once it is in the log."""
        return None if self._current is None else self._current.entry

    @property
    def rescales(self) -> bool:
        """Return whether the current request is a rescale."""
        return self._current is not None and self._current.request.after is AfterSavepoint.RESCALE

    @property
    def offer(self) -> SavepointRequested | None:
        """Return the current request, if it hands the job over and its checkpoint is in the log."""
        current = self._current
        if current is None or current.request.after is not AfterSavepoint.HAND_OVER:
            return None
        return None if current.entry is None else current.request

    @property
    def holds(self) -> bool:
        """Return whether the attempt ends with the savepoint, so that no further checkpoint may open
        (CP16, CP40)."""
        return (
            self._current is not None
            and self._current.request.after in _ENDS_ATTEMPT
            and self._current.stage in (Stage.COMMITTING, Stage.WRITING, Stage.TAKEN)
        )

    def is_of(self, checkpoint: CheckpointId) -> bool:
        """Return whether the current savepoint was taken with the checkpoint."""
        current = self._current
        return (
            current is not None and current.entry is not None and current.entry.checkpoint == checkpoint
        )

    @property
    def awaited(self) -> tuple[SavepointRequested, Stage | None] | None:
        """Return the oldest unanswered request, and its stage: None if it has not begun."""
        if self._current is not None and self._current.request is not _WITHOUT_COPY:
            return self._current.request, self._current.stage
        waiting = next((each for each in self._queue if each is not _WITHOUT_COPY), None)
        return None if waiting is None else (waiting, None)

    # --- events -----------------------------------------------------------------------------------

    def ask(self, request: SavepointRequested) -> None:
        self._queue.append(request)

    def ask_to_stop(self) -> None:
        """Request that the job stops with its next checkpoint, without a copy. May be called again: a
        failed one is repeated."""
        current = None if self._current is None else self._current.request
        if current is not _WITHOUT_COPY and _WITHOUT_COPY not in self._queue:
            self.ask(_WITHOUT_COPY)

    def drain(self) -> None:
        """Begin the next request, which first ends the input."""
        assert self._current is None
        self._current = _Current(self._queue.popleft(), Stage.DRAINING)

    def open(self) -> SavepointRequested | None:
        """Attach a waiting request to the checkpoint that is being opened, and return it."""
        if self._current is None and self._queue:
            self._current = _Current(self._queue.popleft(), Stage.OPEN)
        elif self._current is None or self._current.stage is not Stage.DRAINING:
            return None
        self._current.stage = Stage.OPEN
        return self._current.request

    def entered(self, open: OpenCheckpoint, entry: CheckpointCompleted) -> list[Action]:
        """Process the checkpoint of the current savepoint, which is now in the log."""
        current = self._current
        assert current is not None
        assert current.stage is Stage.OPEN
        assert open.savepoint is current.request
        shares = [open.acknowledged[subtask] for subtask in sorted(open.acknowledged)]
        errors = [
            f"subtask {share.subtask}: {share.savepoint_error}"
            for share in shares
            if share.savepoint_error
        ]
        if errors:
            then = "finishes" if entry.final else "goes on"
            return self.fail(
                CheckpointError(
                    f"the savepoint could not be written: {'; '.join(errors)}",
                    hint=f"the job's own checkpoint is complete, and the job {then}; check the "
                    "savepoint's directory",
                )
            )
        current.stage = Stage.COMMITTING
        handles = [handle for share in shares for handle in share.savepoint_handles]
        current.entry = msgspec.structs.replace(entry, handles=handles, committables=[])
        return []

    def committed(self, up_to: CheckpointId) -> list[Action]:
        """Write the manifest once all sinks have committed everything up to the checkpoint."""
        current = self._current
        if current is None or current.stage is not Stage.COMMITTING:
            return []
        assert current.entry is not None
        if up_to < current.entry.checkpoint:
            return []
        if current.request.directory is None:
            if current.entry.final and self.rescales:
                return self.fail(
                    CheckpointError("the job was not rescaled: all of its input has ended")
                )
            if current.entry.final and current.request.after is AfterSavepoint.HAND_OVER:
                return self.fail(
                    CheckpointError("the job was not handed over: all of its input has ended")
                )
            if current.entry.final:
                self._current = None  # The job finishes by itself.
            else:
                current.stage = Stage.TAKEN
            return []
        current.stage = Stage.WRITING
        return [WriteSavepoint(current.request.request, current.request.directory, current.entry)]

    def written(self, request: int) -> bool | None:
        """Process the answer that the manifest is written. Return whether the job must stop now; after
        a final checkpoint it stops by itself. Return None if the request is no longer current."""
        current = self._current
        if current is None or current.request.request != request:
            return None
        assert current.stage is Stage.WRITING
        assert current.entry is not None
        self._current = None
        return current.request.after is AfterSavepoint.STOP and not current.entry.final

    def not_written(self, request: int, error: RheosError) -> list[Action]:
        current = self._current
        if current is None or current.request.request != request:
            return []
        return self.fail(error)

    def rescale(self) -> None:
        """Record that the next attempt will have the requested parallelism."""
        assert self._current is not None
        assert self._current.stage is Stage.TAKEN, "CP40: its checkpoint is committed everywhere"
        self._current.stage = Stage.RESCALING
        self._forget_the_stop()

    def running(self) -> list[Action]:
        """Answer a rescale request, if all subtasks of the new attempt are connected."""
        current = self._current
        if current is None or current.stage is not Stage.RESCALING:
            return []
        self._current = None
        return [SavepointEnded(current.request.request)]

    def answer_handover(self) -> list[Action]:
        """Answer a request to hand the job over, unless it is answered already."""
        current = self._current
        assert current is not None
        assert self.offer is not None, "UP1: the checkpoint that names the successor is in the log"
        if current.is_answered:
            return []
        current.is_answered = True
        return [SavepointEnded(current.request.request)]

    def handed_over(self) -> list[Action]:
        """Finish a request to hand the job over, whose attempt has ended. Answer it if necessary."""
        answer = self.answer_handover()
        self._current = None
        self._forget_the_stop()
        return answer

    def _forget_the_stop(self) -> None:
        """Drop the request to stop, because the next attempt must first read again (CP39)."""
        if _WITHOUT_COPY in self._queue:
            self._queue.remove(_WITHOUT_COPY)

    def attempt_failed(self, entering: CheckpointId | None, error: RheosError) -> list[Action]:
        """Fail the current request with its attempt, unless its checkpoint is entered in the log."""
        self._forget_the_stop()
        match self.stage:
            case Stage.DRAINING:
                pass
            case Stage.OPEN if entering is None:
                pass
            case _:
                return []
        return self.fail(
            CheckpointError(
                f"the job failed while the savepoint was taken: {error.what}",
                hint="the job restarts from its last checkpoint; request the savepoint again",
            )
        )

    def fail(self, error: RheosError) -> list[Action]:
        """Fail the current request."""
        current = self._current
        assert current is not None
        self._current = None
        if current.request is _WITHOUT_COPY or current.is_answered:
            return []
        answer = SavepointEnded(current.request.request, error)
        directory = current.request.directory
        return [answer] if directory is None else [answer, DiscardSavepoint(directory)]

    def end(self, why: str) -> list[Action]:
        """Fail all requests, because the job has ended."""
        error = CheckpointError(f"no savepoint was taken: {why}")
        actions: list[Action] = []
        if self._current is not None:
            actions = self.fail(error)
        waiting = (request for request in self._queue if request is not _WITHOUT_COPY)
        actions += [SavepointEnded(request.request, error) for request in waiting]
        self._queue.clear()
        return actions
