"""Recovery: what a job continues from, and which state each subtask of the new attempt gets.

All of it is pure: the log and the plan in, a decision or a list of handles out. What is decided is read
by `restoring.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rheos.checkpoint.events import JobShape
from rheos.checkpoint.log import CheckpointCompleted, JobFinished, LogView
from rheos.errors import CheckpointError, ConfigurationError
from rheos.protocol.ids import Attempt, CheckpointId, JobId
from rheos.protocol.snapshots import PartMode, StateHandle, StateKind


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a job goes on: the attempt to claim, and the checkpoint it starts from."""

    attempt: Attempt
    next_checkpoint: CheckpointId
    restore_from: CheckpointCompleted | None


def decide(view: LogView, shape: JobShape, job: JobId, directory: str) -> Continuation:
    """Raises ConfigurationError where the job has finished, CheckpointError where its newest
    checkpoint does not fit the plan."""
    if isinstance(view.newest, JobFinished):
        raise ConfigurationError(
            f"the job {job!r} in {directory} has finished already",
            hint="to run it anew, give it another name or checkpoint directory, or remove this one",
        )
    newest = view.completed[-1].entry if view.completed else None
    if newest is not None:
        check_fits(newest, shape)
    # CP4: ids that an attempt may have used without an entry are skipped.
    return Continuation(
        Attempt(view.attempt + 1), CheckpointId(view.reserved_to + 1), restore_from=newest
    )


def check_fits(entry: CheckpointCompleted, shape: JobShape) -> None:
    """Raises CheckpointError where the plan has no place for a part of the checkpoint."""
    needed = {handle.operator for handle in entry.handles}
    needed |= {committable.operator for committable in entry.committables}
    missing = sorted(needed - set(shape.operators))
    if missing:
        names = ", ".join(
            f"{entry.operators.get(operator, operator)!r} ({operator})" for operator in missing
        )
        raise CheckpointError(
            f"checkpoint {entry.checkpoint} holds state of operators that the program no longer has: "
            f"{names}",
            hint="give operators a uid so that they are found again when the program changes, "
            "or start the changed program under another name or checkpoint directory",
        )
    keyed = any(handle.kind is StateKind.KEYED for handle in entry.handles)
    if keyed and entry.max_parallelism != shape.max_parallelism:
        raise CheckpointError(
            f"checkpoint {entry.checkpoint} was taken with max_parallelism {entry.max_parallelism}, "
            f"and the program has {shape.max_parallelism}",
            hint=f"set max_parallelism to {entry.max_parallelism}; it is fixed for the life of a job's "
            "state, while the parallelism may change",
        )


@dataclass(frozen=True, slots=True)
class Share:
    """What one subtask takes of one handle."""

    handle: StateHandle
    groups: range | None = None
    """Of a KEYED part: these key groups; None takes all there are."""
    every: int = 1
    offset: int = 0
    """Of a LIST part: the rows offset, offset + every, ..."""


def shares(entry: CheckpointCompleted, subtask: int, parallelism: int) -> list[Share]:
    """What subtask `subtask` of `parallelism` takes, in the order in which it applies (CP12).

    KEYED: the rows of its key groups, from every old subtask whose groups overlap them. LIST: its own
    rows where the parallelism is as it was, else every n-th of all. UNION: all.
    """
    handles = sorted(entry.handles, key=lambda handle: (handle.operator, handle.state, handle.subtask))
    result = []
    for _, parts in groupby(handles, key=lambda handle: (handle.operator, handle.state)):
        dealt = 0
        for handle in parts:
            match handle.kind:
                case StateKind.UNION:
                    result.append(Share(handle))
                case StateKind.KEYED:
                    result.extend(_keyed_share(handle, entry, subtask, parallelism))
                case StateKind.LIST if parallelism == entry.parallelism:
                    result.extend([Share(handle)] if handle.subtask == subtask else [])
                case StateKind.LIST:
                    assert handle.mode is PartMode.FULL, "only keyed state has deltas"
                    offset = (subtask - dealt) % parallelism
                    dealt += handle.rows
                    if offset < handle.rows:
                        result.append(Share(handle, every=parallelism, offset=offset))
    return result


def _keyed_share(
    handle: StateHandle, entry: CheckpointCompleted, subtask: int, parallelism: int
) -> Iterator[Share]:
    old = owned(handle.subtask, entry.parallelism, entry.max_parallelism)
    new = owned(subtask, parallelism, entry.max_parallelism)
    common = range(max(old.start, new.start), min(old.stop, new.stop))
    if common:
        yield Share(handle, groups=None if common == old else common)


def owned(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups whose subtask is group * parallelism // max_parallelism."""
    return range(
        -(-subtask * max_parallelism // parallelism), -(-(subtask + 1) * max_parallelism // parallelism)
    )
