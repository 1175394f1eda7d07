"""Checks before Spark starts whether a program fits the state from which it would continue.

The driver makes the same comparison when it reads the log (`continuation`), which is the one that
counts. This one only makes its error appear sooner.
"""

from __future__ import annotations

import msgspec

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.continuation import fitted, needed_savepoint
from rheos.core.checkpoint.events import JobShape
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import read_savepoint
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig


def check_stored_state(plan: PhysicalPlan, config: JobConfig) -> None:
    """Compare the program with the newest checkpoint of its job, or with the savepoint that it starts
    from. If these cannot be read, do nothing: the driver reports that.

    Args:
        plan: Plan of the program, as it was submitted.
        config: The job, its checkpoint directory and its savepoint.

    Raises:
        CheckpointError: The program does not fit the state. The error has the operator's line.
    """
    try:
        stored = _stored(config)
    except Exception:
        return  # A store's error is not always an OSError.
    if stored is None:
        return
    what, entry = stored
    operators = plan.operators()
    shape = JobShape(
        {operator.id: operator.name for operator in operators},
        plan.parallelism,
        plan.max_parallelism,
        state_shapes(operators),
        sites={operator.id: operator.site for operator in operators},
    )
    # Only sinks that are prepared know the columns of their targets.
    fitted(msgspec.structs.replace(entry, targets={}), shape, what, config.upgrade)


def _stored(config: JobConfig) -> tuple[str, CheckpointCompleted] | None:
    """Return the state that the job would start from, with its name for errors; None if none exists."""
    folder = None if config.from_savepoint is None else absolute(config.from_savepoint).rstrip("/")
    newest = None
    if config.checkpoint_dir is not None:
        view = JobLog(open_store(config.checkpoint_dir, make=False), config.job).read()
        folder = needed_savepoint(view, folder)
        newest = view.completed[-1].entry if view.completed else None
    if folder is not None:
        savepoint = read_savepoint(open_store(folder, make=False), folder)
        return f"the savepoint {folder!r}", savepoint.entry
    return None if newest is None else ("the newest checkpoint", newest)
