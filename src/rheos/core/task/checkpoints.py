"""A subtask's share of the checkpoints under way: gathered from its chains, written, acknowledged.

Several may be in flight. Each chain takes them in rising order, and what a chain gives for one may
hold only what has changed since the one before. So where a checkpoint is given up after some chains
have taken it, those after it that build on it are declined as well, and the operators are
informed that their next snapshot must be whole (EX11).
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
from rheos.core.task.in_flight import in_flight_parts


@dataclass(slots=True)
class _Writing:
    """A checkpoint whose parts are on their way."""

    pending: PendingSnapshot
    gathered: list[ChainSnapshot]
    cost: control.Cost
    began_us: int
    savepoint: PendingSavepoint | None = None
    holds: bool = False
    """It is a savepoint: what the snapshots hold is let go when all is written."""
    in_flight: Sequence[tuple[OperatorId, Sequence[SnapshotPart]]] = ()
    """Rows that circulated in loops; savepoints contain them, too."""
    waits_for_message: bool = False
    """It is a savepoint, and the message that says where to has not come yet."""

    @property
    def done(self) -> bool:
        if self.waits_for_message or not self.pending.done():
            return False
        return self.savepoint is None or self.savepoint.done()


class SubtaskCheckpoints:
    """One per subtask. The engine reports events to it, and polls it each step."""

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
        """Folders of the savepoints that are triggered and have not begun."""
        self._gathering: dict[CheckpointId, list[ChainSnapshot]] = {}
        self._spoiled: dict[CheckpointId, CheckpointId] = {}
        """Checkpoints that build on one that was given up."""
        self._writing: dict[CheckpointId, _Writing] = {}

    # --- what the engine reports ------------------------------------------------------------------

    def triggered(self, message: control.TriggerCheckpoint) -> None:
        """The barriers may have been quicker than the message."""
        if message.savepoint is None:
            return
        self._directories[message.checkpoint] = message.savepoint
        writing = self._writing.get(message.checkpoint)
        if writing is not None and writing.waits_for_message:
            self._begin_savepoint(message.checkpoint, writing)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """The master has given the checkpoint up."""
        self._directories.pop(checkpoint, None)
        if checkpoint in self._gathering:
            self._give_up(checkpoint)
        writing = self._writing.get(checkpoint)
        if writing is not None and writing.waits_for_message:
            writing.waits_for_message = False

    def gather(self, taken: ChainSnapshot) -> None:
        """A chain has taken its snapshot; where that is not complete yet, `poll` looks again."""
        self._gathering.setdefault(taken.checkpoint, []).append(taken)

    def poll(self) -> bool:
        """Begin to write what is complete, and acknowledges what is written; whether anything was."""
        worked = False
        # Checkpoints become complete in their order: each chain takes them in rising order.
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
        """Whether `poll` may find anything."""
        return bool(self._gathering or self._writing)

    # --- giving up --------------------------------------------------------------------------------

    def _give_up(self, checkpoint: CheckpointId) -> None:
        """Some or all chains have taken the checkpoint, and it will not be written."""
        gathered = self._gathering.pop(checkpoint)
        self._spoiled.pop(checkpoint, None)
        # Sinks still commit what they have staged for it: the next checkpoint carries it.
        self._stage(gathered)
        self._release(_snapshots(gathered))
        chains = {taken.chain for taken in gathered}
        for later, takens in self._gathering.items():
            if later > checkpoint and _builds_on(takens, chains):
                self._spoiled.setdefault(later, checkpoint)
        # No file has the changes since the last one, so the next snapshot must be complete.
        self._forget(checkpoint)

    def _stage(self, gathered: Iterable[ChainSnapshot]) -> None:
        for taken in gathered:
            for operator, snapshot in taken.snapshots:
                self._committing.stage(taken.checkpoint, operator, snapshot.committables)

    def _forget(self, checkpoint: CheckpointId) -> None:
        for operator in self._operators.values():
            operator.snapshot_failed(checkpoint)

    def _release(self, snapshots: Iterable[Snapshot]) -> None:
        """Release what the snapshots hold, without stopping the processing."""
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
        # The barriers of an aborted checkpoint's successor may come before the message of its abort.
        # Every chain has taken the successor: one that has not taken the earlier one never will.
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
            # A savepoint may read what the snapshot holds when the checkpoint's parts are written.
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
                # An overtaken row without a key: no checkpoint can hold it, and no subtask take it.
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
    """Return the cost of a checkpoint in all chains of one subtask. One thread runs them, so their
    times add up."""
    every = list(costs)
    return msgspec.structs.replace(
        reduce(control.Cost.plus, every, control.Cost()), sync_us=sum(cost.sync_us for cost in every)
    )


def _builds_on(takens: Iterable[ChainSnapshot], chains: set[ChainId]) -> bool:
    return any(taken.chain in chains and taken.has_deltas for taken in takens)
