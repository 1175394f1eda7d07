"""Decides from what a job continues: its own checkpoint, a savepoint, or nothing; and whether it fits.

Pure: it maps the log and the plan to a decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rheos.core.checkpoint.compatibility import Verdict, compare_entry, refusals
from rheos.core.checkpoint.events import JobShape, SavepointRead
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import (
    CheckpointCompleted,
    JobFinished,
    NumberedCheckpoint,
    Origin,
)
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.targets import target_refusal
from rheos.core.checkpoint.upgrade import NOTHING_ALLOWED, Upgrade, under_new_ids
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import StateKind


@dataclass(frozen=True, slots=True)
class Continuation:
    """The attempt to claim, and the state that it starts from."""

    attempt: Attempt
    next_checkpoint: CheckpointId
    restore: Restore | None
    """State to restore; None: start from the beginning."""
    origin: Origin | None
    """Savepoint from which the job's state originates, directly or through later checkpoints."""
    completed: tuple[NumberedCheckpoint, ...]
    """Checkpoints that count, oldest first."""

    @property
    def own(self) -> CheckpointCompleted | None:
        """Return the checkpoint of the job's own log to start from; None for any other start."""
        return self.restore.entry if self.restore and self.restore.origin is None else None


def needed_savepoint(view: LogView, from_savepoint: str | None) -> str | None:
    """Return the folder of the savepoint whose manifest is needed; None if the log is enough."""
    origin = view.origin
    if from_savepoint is not None and (origin is None or origin.directory != from_savepoint):
        return from_savepoint
    started = view.completed or isinstance(view.newest, JobFinished)
    return None if origin is None or started else origin.directory


def decide(
    view: LogView,
    shape: JobShape,
    job: JobId,
    directory: str,
    savepoint: SavepointRead | None = None,
    *,
    from_savepoint: str | None = None,
    upgrade: Upgrade = NOTHING_ALLOWED,
) -> Continuation | None:
    """Return the attempt to claim; None if the job has finished. `savepoint` is the needed one.

    A job is started from a savepoint only once: if its log already names that savepoint as its origin,
    it continues from its newest checkpoint since then (CP17). Raise CheckpointError if the state does
    not fit the plan.
    """
    origin = view.origin
    if savepoint is not None and (origin is None or savepoint.savepoint.id != origin.id):
        if savepoint.directory != from_savepoint:
            raise CheckpointError(
                f"the job {job!r} started from the savepoint {origin.id if origin else ''} in "
                f"{savepoint.directory!r}, but that folder now holds another one",
                hint="restore that folder from a copy, or pass the savepoint to start from",
            )
        return _from_savepoint(view, shape, savepoint, (), upgrade)
    if isinstance(view.newest, JobFinished):
        return None
    if origin is not None and not view.completed:
        assert savepoint is not None, "CP17: only the savepoint exists to start from"
        return _from_savepoint(view, shape, savepoint, view.completed, upgrade)
    newest = view.completed[-1].entry if view.completed else None
    if newest is not None:
        newest = fitted(newest, shape, f"checkpoint {newest.checkpoint}", upgrade)
    # CP4: skip ids that an attempt may have used without an entry.
    return Continuation(
        Attempt(view.attempt + 1),
        CheckpointId(view.reserved_to + 1),
        None if newest is None else Restore(entry=newest),
        origin,
        view.completed,
    )


def _from_savepoint(
    view: LogView,
    shape: JobShape,
    read: SavepointRead,
    completed: tuple[NumberedCheckpoint, ...],
    upgrade: Upgrade,
) -> Continuation:
    entry = read.savepoint.entry
    origin = Origin(read.savepoint.id, read.directory)
    fitting = fitted(entry, shape, f"the savepoint {read.directory!r}", upgrade)
    # CP4: if the job's log has moved, or starts over, sinks may still know the numbers that the
    # savepoint's job has used. So they are never used again.
    return Continuation(
        Attempt(max(view.attempt, entry.attempt) + 1),
        CheckpointId(max(view.reserved_to, entry.reserved_to) + 1),
        Restore(entry=fitting, origin=origin),
        origin,
        completed,
    )


def fitted(
    entry: CheckpointCompleted, shape: JobShape, what: str, upgrade: Upgrade = NOTHING_ALLOWED
) -> CheckpointCompleted:
    """Return the checkpoint with the plan's ids, without the state that the plan does not use.

    Raise CheckpointError if there is such state and it may not be dropped. `what` names the checkpoint.
    """
    entry = under_new_ids(entry, upgrade.renamed, what)
    dropped = check_fits(entry, shape, what, upgrade)
    fitting = [
        handle
        for handle in entry.handles
        if handle.operator in shape.operators and (handle.operator, handle.state) not in dropped
    ]
    return msgspec.structs.replace(entry, handles=fitting)


def _names_in(entry: CheckpointCompleted, operators: Iterable[OperatorId]) -> str:
    """Return the names and ids of operators of a checkpoint, for an error."""
    return ", ".join(
        f"{entry.operators.get(operator, operator)!r} ({operator})" for operator in sorted(operators)
    )


def check_fits(
    entry: CheckpointCompleted,
    shape: JobShape,
    what: str | None = None,
    upgrade: Upgrade = NOTHING_ALLOWED,
) -> set[tuple[OperatorId, str]]:
    """Return the states that the plan's operators no longer have, and that may be dropped.

    Raise CheckpointError if the plan does not use a part of the checkpoint, or cannot read it.
    """
    what = what or f"checkpoint {entry.checkpoint}"
    staged = {committable.operator for committable in entry.committables}
    missing = ({handle.operator for handle in entry.handles} | staged) - set(shape.operators)
    if missing:
        names = _names_in(entry, missing)
        if not set(entry.operators) & set(shape.operators):
            raise CheckpointError(
                f"{what} belongs to another program, which shares no operator with this one; it "
                f"holds state of {names}",
                hint="check that it is the right one; operators are matched by their uid",
            )
        if missing & staged:
            raise CheckpointError(
                f"{what} lists uncommitted output of sinks that the program no longer has: "
                f"{_names_in(entry, missing & staged)}",
                hint="commit it with the unchanged program: start it once more unless it runs, stop it "
                "with a savepoint (rheos stop), and start the changed program from there",
            )
        if not upgrade.allow_dropped:
            raise CheckpointError(
                f"{what} holds state of operators that the program no longer has: {names}",
                hint="if an operator has a new uid, add --rename OLD=NEW; to drop this state, add "
                "--allow-dropped. Operators with a uid keep their state when the program "
                "changes",
            )
    changed = target_refusal(entry.targets, shape.targets, shape.operators, what)
    if changed is not None:
        raise changed
    keyed = any(handle.kind is StateKind.KEYED for handle in entry.handles)
    if keyed and entry.max_parallelism != shape.max_parallelism:
        raise CheckpointError(
            f"{what} was taken with max_parallelism {entry.max_parallelism}, but the program "
            f"has {shape.max_parallelism}",
            hint=f"set max_parallelism to {entry.max_parallelism}; it cannot change once a job has "
            "state, but the parallelism can",
        )
    if not shape.states:
        return set()
    findings = compare_entry(entry, shape.states, shape.operators)
    refusal = refusals(
        findings,
        allow_dropped=upgrade.allow_dropped,
        new_aggregates=upgrade.new_aggregates,
        sites=shape.sites,
    )
    if refusal is not None:
        refusal.what = f"{what}: {refusal.what}"
        raise refusal
    return {
        (finding.operator, finding.state)
        for finding in findings
        if finding.verdict is Verdict.DROPPED and finding.state and not finding.field
    }
