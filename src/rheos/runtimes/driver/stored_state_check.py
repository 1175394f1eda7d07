"""Checks before Spark starts whether a program fits the state from which it would continue.

The driver makes the same decision when it reads the log (`continuation`), which is the one that counts.
This one only makes its error appear sooner.
"""

from __future__ import annotations

from rheos.core.checkpoint.continuation import decide, needed_savepoint
from rheos.core.checkpoint.events import JobShape, SavepointRead
from rheos.core.checkpoint.log import JobLog, LogView
from rheos.core.checkpoint.savepoint import read_savepoint
from rheos.core.errors import CheckpointError
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.driver.sources_and_sinks import stages
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig


def find_misfit(plan: PhysicalPlan, config: JobConfig) -> CheckpointError | None:
    """Return why the program does not fit the newest checkpoint of its job, or the savepoint that it
    starts from. Return None if it fits, or if only the driver can find that out: if these cannot be
    read, or a source is replaced when it stages its rows, perhaps by one of other positions.

    Args:
        plan: Plan of the program, with sources as the job reads them.
        config: The job, its checkpoint directory and the absolute path of its savepoint.
    """
    if stages(plan):
        return None
    try:
        view, savepoint = _read(config)
    except Exception:
        return None  # A store's error is not always an OSError.
    operators = plan.operators()
    # Only sinks that are prepared know the columns of their targets.
    shape = JobShape(
        {operator.id: operator.name for operator in operators},
        plan.parallelism,
        plan.max_parallelism,
        state_shapes(operators),
        sites={operator.id: operator.site for operator in operators},
    )
    try:
        decide(
            view,
            shape,
            config.job,
            config.checkpoint_dir or "",
            savepoint,
            from_savepoint=config.from_savepoint,
            upgrade=config.upgrade,
        )
    except CheckpointError as misfit:
        return misfit
    return None


def _read(config: JobConfig) -> tuple[LogView, SavepointRead | None]:
    """Return the log of the job, and the savepoint that it would start from."""
    view = LogView()
    if config.checkpoint_dir is not None:
        view = JobLog(open_store(config.checkpoint_dir, make=False), config.job).read()
    folder = needed_savepoint(view, config.from_savepoint)
    if folder is None:
        return view, None
    return view, SavepointRead(folder, read_savepoint(open_store(folder, make=False), folder))
