"""The savepoints that were asked for, one at a time: pure bookkeeping for the coordinator.

    queued -> (DRAINING) -> OPEN -> COMMITTING -> WRITING -> answered
                 |           |                       |
                 +-----------+-- the attempt fails --+--> answered with an error

One that the job itself has asked for, to stop with a checkpoint and without a copy, is TAKEN where
others are written, and nobody is answered. So is one by which the job is rescaled; then it is
RESCALING until the next attempt runs, and that is the answer.

A savepoint whose checkpoint is in the log outlives its attempt: recovery commits the checkpoint, and
then the manifest is written (CP13).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

import msgspec

from rheos.core.checkpoint.events import (
    Action,
    After,
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


_WITHOUT_COPY = SavepointRequested(0, None, After.STOP)
"""The request that the job itself makes at its end."""


@dataclass(slots=True)
class _Current:
    request: SavepointRequested
    stage: Stage
    entry: CheckpointCompleted | None = None
    """Once its checkpoint is in the log: as the manifest will hold it."""


class SavepointRequests:
    def __init__(self) -> None:
        self._queue: deque[SavepointRequested] = deque()
        self._current: _Current | None = None

    # --- asked ------------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage | None:
        return self._current.stage if self._current else None

    @property
    def next(self) -> SavepointRequested | None:
        """The one whose turn it is: none while another is under way."""
        return self._queue[0] if self._queue and self._current is None else None

    @property
    def one_behind(self) -> bool:
        """Whether another waits for the one under way to be settled, which has its checkpoint."""
        return bool(self._queue) and self.stage in (Stage.COMMITTING, Stage.WRITING)

    @property
    def busy(self) -> bool:
        """Whether anything is under way or waits."""
        return self._current is not None or bool(self._queue)

    @property
    def entry(self) -> CheckpointCompleted | None:
        """The checkpoint that carries the request under way, once it is in the log."""
        return None if self._current is None else self._current.entry

    @property
    def rescales(self) -> bool:
        """Whether the one under way is for another parallelism."""
        return self._current is not None and self._current.request.after is After.RESCALE

    @property
    def holds(self) -> bool:
        """Whether no checkpoint may be opened: the attempt ends with the savepoint (CP16, CP40)."""
        return (
            self._current is not None
            and self._current.request.after in (After.STOP, After.RESCALE)
            and self._current.stage in (Stage.COMMITTING, Stage.WRITING, Stage.TAKEN)
        )

    def is_of(self, checkpoint: CheckpointId) -> bool:
        """Whether the one under way was taken with the checkpoint."""
        current = self._current
        return (
            current is not None and current.entry is not None and current.entry.checkpoint == checkpoint
        )

    @property
    def awaited(self) -> tuple[SavepointRequested, Stage | None] | None:
        """The oldest request that is not answered, and its stage: None if it has not begun."""
        if self._current is not None and self._current.request is not _WITHOUT_COPY:
            return self._current.request, self._current.stage
        waiting = next((each for each in self._queue if each is not _WITHOUT_COPY), None)
        return None if waiting is None else (waiting, None)

    # --- what happens -----------------------------------------------------------------------------

    def ask(self, request: SavepointRequested) -> None:
        self._queue.append(request)

    def ask_to_stop(self) -> None:
        """The job is to stop with its next checkpoint, of which no copy is wanted. May be called again:
        one that fails is taken again."""
        current = None if self._current is None else self._current.request
        if current is not _WITHOUT_COPY and _WITHOUT_COPY not in self._queue:
            self.ask(_WITHOUT_COPY)

    def drain(self) -> None:
        """Begin the next one, for which the input is ended first."""
        assert self._current is None
        self._current = _Current(self._queue.popleft(), Stage.DRAINING)

    def open(self) -> SavepointRequested | None:
        """A checkpoint is about to be opened that can carry a savepoint. None if none is asked for."""
        if self._current is None and self._queue:
            self._current = _Current(self._queue.popleft(), Stage.OPEN)
        elif self._current is None or self._current.stage is not Stage.DRAINING:
            return None
        self._current.stage = Stage.OPEN
        return self._current.request

    def entered(self, open: OpenCheckpoint, entry: CheckpointCompleted) -> list[Action]:
        """The checkpoint that carries it is in the log."""
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
        """All sinks have committed everything up to the checkpoint: now the manifest may be written."""
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
            if current.entry.final:
                self._current = None  # The job finishes by itself.
            else:
                current.stage = Stage.TAKEN
            return []
        current.stage = Stage.WRITING
        return [WriteSavepoint(current.request.request, current.request.directory, current.entry)]

    def written(self, request: int) -> bool | None:
        """The manifest is in its place. Whether the job is to stop now, which one that has taken its
        final checkpoint does by itself. None where the request is no longer current."""
        current = self._current
        if current is None or current.request.request != request:
            return None
        assert current.stage is Stage.WRITING
        assert current.entry is not None
        self._current = None
        return current.request.after is After.STOP and not current.entry.final

    def not_written(self, request: int, error: RheosError) -> list[Action]:
        current = self._current
        if current is None or current.request.request != request:
            return []
        return self.fail(error)

    def rescale(self) -> None:
        """The next attempt is of the width that was asked for."""
        assert self._current is not None
        assert self._current.stage is Stage.TAKEN, "CP40: its checkpoint is committed everywhere"
        self._current.stage = Stage.RESCALING
        self._forget_the_stop()

    def running(self) -> list[Action]:
        """All subtasks of an attempt are connected."""
        current = self._current
        if current is None or current.stage is not Stage.RESCALING:
            return []
        self._current = None
        return [SavepointEnded(current.request.request)]

    def _forget_the_stop(self) -> None:
        """The next attempt reads again before it stops (CP39)."""
        if _WITHOUT_COPY in self._queue:
            self._queue.remove(_WITHOUT_COPY)

    def attempt_failed(self, entering: CheckpointId | None, error: RheosError) -> list[Action]:
        """One whose checkpoint is not in the log, nor about to be, ends with the attempt."""
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
        """The one under way is given up."""
        current = self._current
        assert current is not None
        self._current = None
        if current.request is _WITHOUT_COPY:
            return []
        answer = SavepointEnded(current.request.request, error)
        directory = current.request.directory
        return [answer] if directory is None else [answer, DiscardSavepoint(directory)]

    def end(self, why: str) -> list[Action]:
        """The job has ended: nothing more is taken."""
        error = CheckpointError(f"no savepoint was taken: {why}")
        actions: list[Action] = []
        if self._current is not None:
            actions = self.fail(error)
        waiting = (request for request in self._queue if request is not _WITHOUT_COPY)
        actions += [SavepointEnded(request.request, error) for request in waiting]
        self._queue.clear()
        return actions
