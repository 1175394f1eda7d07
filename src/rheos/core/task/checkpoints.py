"""A subtask's share of the checkpoints in progress: gathered from its chains, written, and
acknowledged.

Several may be in progress. Each chain takes them in ascending order, and its snapshot may contain only
the changes since the previous one. So if a checkpoint is abandoned after some chains have taken it,
later checkpoints that build on it are declined, too. The operators are notified that their next
snapshot must be complete (EX11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import msgspec

from rheos.core.checkpoint.savepoint_writer import PendingSavepoint, SavepointWriter
from rheos.core.checkpoint.snapshot_writer import PendingSnapshot, SnapshotWriter
from rheos.core.errors import InputError
from rheos.core.operators.contract import Operator
from rheos.core.protocol import control
from rheos.core.protocol.elements import BarrierKind
from rheos.core.protocol.ids import Attempt, ChainId, CheckpointId, OperatorId
from rheos.core.protocol.ports import Clock, IoExecutor, Store
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state import format as state_format
from rheos.core.task.chain_snapshot import ChainSnapshot
from rheos.core.task.commits import Committing
from rheos.core.task.in_flight_rows import in_flight_parts


@dataclass(slots=True)
class _Writing:
    """A checkpoint whose parts are being written."""

    pending: PendingSnapshot
    gathered: list[ChainSnapshot]
    cost: control.Cost
    began_us: int
    savepoint: PendingSavepoint | None = None
    holds: bool = False
    """Whether the checkpoint is a savepoint. Its snapshots are released after everything is written."""
    in_flight: Sequence[tuple[OperatorId, Sequence[SnapshotPart]]] = ()
    """Rows that circulated in loops; savepoints contain them, too."""
    waits_for_message: bool = False
    """Whether it is a savepoint whose message with the folder has not arrived yet."""

    @property
    def done(self) -> bool:
        if self.waits_for_message or not self.pending.done():
            return False
        return self.savepoint is None or self.savepoint.done()


class SubtaskCheckpoints:
    """The checkpoints of one subtask. The engine reports events to it, and polls it in each step."""

    def __init__(
        self,
        attempt: Attempt,
        subtask: int,
        chains: int,
        max_parallelism: int,
        operators: Mapping[OperatorId, Operator],
        committing: Committing,
        *,
        snapshots: SnapshotWriter,
        open_store: Callable[[str], Store],
        io: IoExecutor,
        clock: Clock,
        report: Callable[[control.ToMaster], None],
    ) -> None:
        self._attempt = attempt
        self._subtask = subtask
        self._chains = chains
        self._max_parallelism = max_parallelism
        self._operators = operators
        self._committing = committing
        self._snapshots = snapshots
        self._open_store = open_store
        self._io = io
        self._clock = clock
        self._report = report
        self._directories: dict[CheckpointId, str] = {}
        """Folders of the savepoints that are triggered but not begun."""
        self._gathering: dict[CheckpointId, list[ChainSnapshot]] = {}
        self._spoiled: dict[CheckpointId, CheckpointId] = {}
        """Checkpoints that build on an abandoned one, mapped to that one."""
        self._writing: dict[CheckpointId, _Writing] = {}

    # --- reports of the engine --------------------------------------------------------------------

    def triggered(self, message: control.TriggerCheckpoint) -> None:
        """Record a trigger of the master. The barriers may have arrived before this message."""
        if message.savepoint is None:
            return
        self._directories[message.checkpoint] = message.savepoint
        writing = self._writing.get(message.checkpoint)
        if writing is not None and writing.waits_for_message:
            self._begin_savepoint(message.checkpoint, writing)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Abandon a checkpoint that the master has aborted."""
        self._directories.pop(checkpoint, None)
        if checkpoint in self._gathering:
            self._give_up(checkpoint)
        writing = self._writing.get(checkpoint)
        if writing is not None and writing.waits_for_message:
            writing.waits_for_message = False

    def gather(self, taken: ChainSnapshot) -> None:
        """Add the snapshot of a chain. If it is not complete yet, `poll` checks it again."""
        self._gathering.setdefault(taken.checkpoint, []).append(taken)

    def poll(self) -> bool:
        """Start to write complete checkpoints, and acknowledge written ones. Return whether it did
        either."""
        worked = False
        # Checkpoints complete in order, because each chain takes them in ascending order.
        for checkpoint in sorted(self._gathering):
            gathered = self._gathering.get(checkpoint, ())
            if len(gathered) == self._chains and all(taken.complete for taken in gathered):
                self._write(checkpoint)
                worked = True
        for checkpoint, writing in list(self._writing.items()):
            if writing.done:
                del self._writing[checkpoint]
                self._acknowledge(checkpoint, writing)
                worked = True
        return worked

    @property
    def busy(self) -> bool:
        """Return whether `poll` may have work."""
        return bool(self._gathering or self._writing)

    # --- abandoning -------------------------------------------------------------------------------

    def _give_up(self, checkpoint: CheckpointId) -> None:
        """Abandon a checkpoint that some or all chains have taken. It will not be written."""
        gathered = self._gathering.pop(checkpoint)
        self._spoiled.pop(checkpoint, None)
        # Sinks still commit what they staged for it: the next checkpoint carries it.
        self._stage(gathered)
        self._release(_snapshots(gathered))
        chains = {taken.chain for taken in gathered}
        for later, takens in self._gathering.items():
            if later > checkpoint and _builds_on(takens, chains):
                self._spoiled.setdefault(later, checkpoint)
        # No file contains the changes since the last checkpoint, so the next snapshot must be complete.
        self._forget(checkpoint)

    def _stage(self, gathered: Iterable[ChainSnapshot]) -> None:
        for taken in gathered:
            for operator, snapshot in taken.snapshots:
                self._committing.stage(taken.checkpoint, operator, snapshot.committables)

    def _forget(self, checkpoint: CheckpointId) -> None:
        for operator in self._operators.values():
            operator.snapshot_failed(checkpoint)

    def _release(self, snapshots: Iterable[Snapshot]) -> None:
        """Release the resources of the snapshots, without interrupting the processing."""
        for snapshot in snapshots:
            if snapshot.release is not None:
                self._io.submit(snapshot.release)

    def _decline(self, checkpoint: CheckpointId, reason: str) -> None:
        self._report(
            control.Decline(
                attempt=self._attempt, subtask=self._subtask, checkpoint=checkpoint, reason=reason
            )
        )

    # --- writing ----------------------------------------------------------------------------------

    def _write(self, checkpoint: CheckpointId) -> None:
        # The barriers of the next checkpoint may arrive before the message that aborts this one. Every
        # chain has taken the next one, so a chain that has not taken the earlier one never will.
        for earlier in sorted(earlier for earlier in self._gathering if earlier < checkpoint):
            self._give_up(earlier)
        base = self._spoiled.get(checkpoint)
        if base is not None:
            self._give_up(checkpoint)
            self._decline(checkpoint, f"checkpoint {base}, which it builds on, was aborted")
            return
        gathered = self._gathering.pop(checkpoint)
        self._stage(gathered)
        savepoint = any(taken.kind is BarrierKind.SAVEPOINT for taken in gathered)
        given = [
            # A savepoint may read the snapshot's resources after the checkpoint's parts are written.
            (operator, replace(snapshot, release=None) if savepoint else snapshot)
            for taken in gathered
            for operator, snapshot in taken.snapshots
        ]
        overtaken = [(taken, taken.in_flight()) for taken in gathered]
        in_flight = in_flight_parts(
            (rows for _, all in overtaken for rows in all), self._max_parallelism
        )
        recorded = list(in_flight)
        given += [(operator, Snapshot(found)) for operator, found in recorded]
        writing = _Writing(
            self._snapshots.begin(checkpoint, given),
            gathered,
            _together(taken.cost(rows) for taken, rows in overtaken),
            self._clock.monotonic_us(),
            holds=savepoint,
            in_flight=recorded,
        )
        self._writing[checkpoint] = writing
        if savepoint and checkpoint in self._directories:
            self._begin_savepoint(checkpoint, writing)
        else:
            writing.waits_for_message = savepoint

    def _begin_savepoint(self, checkpoint: CheckpointId, writing: _Writing) -> None:
        writing.waits_for_message = False
        open_store = partial(self._open_store, self._directories.pop(checkpoint))
        writer = SavepointWriter(open_store, self._subtask, self._io, state_format.encode)
        writing.savepoint = writer.begin(
            [*(part for taken in writing.gathered for part in taken.savepoint), *writing.in_flight]
        )

    def _acknowledge(self, checkpoint: CheckpointId, writing: _Writing) -> None:
        pending, gathered = writing.pending, writing.gathered
        if writing.holds:
            self._release(_snapshots(gathered))
        failures = pending.failures()
        if failures:
            for failure in failures:
                # An overtaken row has no key: it can be neither stored nor assigned to a subtask.
                if isinstance(failure.error, InputError):
                    raise failure.error
            self._forget(checkpoint)
            self._decline(checkpoint, "; ".join(str(failure.error) for failure in failures))
            return
        savepoint = writing.savepoint
        error = "" if savepoint is None else savepoint.error()
        self._report(
            control.Acknowledge(
                attempt=self._attempt,
                subtask=self._subtask,
                checkpoint=checkpoint,
                handles=pending.handles(),
                committables=self._committing.staged(checkpoint),
                totals=reduce(
                    control.Totals.plus, (taken.totals for taken in gathered), control.Totals()
                ),
                savepoint_handles=[] if savepoint is None or error else savepoint.handles(),
                savepoint_error=error,
                cost=msgspec.structs.replace(
                    writing.cost,
                    async_us=self._clock.monotonic_us() - writing.began_us,
                    written_bytes=pending.written_bytes(),
                ),
            )
        )


def _snapshots(gathered: Iterable[ChainSnapshot]) -> Iterable[Snapshot]:
    return (snapshot for taken in gathered for _, snapshot in taken.snapshots)


def _together(costs: Iterable[control.Cost]) -> control.Cost:
    """Return a checkpoint's cost in all chains. One thread runs them, so their times add up."""
    every = list(costs)
    return msgspec.structs.replace(
        reduce(control.Cost.plus, every, control.Cost()), sync_us=sum(cost.sync_us for cost in every)
    )


def _builds_on(takens: Iterable[ChainSnapshot], chains: set[ChainId]) -> bool:
    return any(taken.chain in chains and taken.has_deltas for taken in takens)
