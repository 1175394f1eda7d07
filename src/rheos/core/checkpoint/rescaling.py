"""Decides whether a running job can be rescaled, and its wanted parallelism. Pure."""

from __future__ import annotations

from rheos.core.checkpoint.events import JobShape, SavepointRequested
from rheos.core.checkpoint.log_entries import Rescaled
from rheos.core.errors import CheckpointError, ConfigurationError, RheosError


def wanted_parallelism(shape: JobShape, rescaled: Rescaled | None) -> int:
    """Return the parallelism that a job should have: that of its start, or of its last rescaling."""
    return shape.parallelism if rescaled is None else rescaled.parallelism


def impossible(request: SavepointRequested, shape: JobShape) -> RheosError | None:
    """Return why the job can never have the requested parallelism, with advice; None if it can."""
    wanted, slots = request.parallelism, request.slots
    if wanted < 1:
        return ConfigurationError(
            f"parallelism {wanted} is not possible", hint="pass at least 1; to end the job, stop it"
        )
    if wanted > shape.max_parallelism:
        return ConfigurationError(
            f"parallelism {wanted} exceeds the job's max_parallelism, which is {shape.max_parallelism}",
            hint="max_parallelism cannot change once a job has state; choose a lower parallelism",
        )
    if slots is not None and wanted > slots:
        return ConfigurationError(
            f"parallelism {wanted} exceeds the {slots} slots that the job can use",
            hint="add executors first, or start the job on a master with more slots",
        )
    return None


def refusal(what: str, *, busy: bool, ending: bool) -> RheosError | None:
    """Return why the attempt cannot end now for the job to continue, with advice; None if it can.

    Args:
        what: purpose, such as "rescaled".
        busy: whether a savepoint, a rescale or a handover is running.
        ending: whether all input has ended.
    """
    if ending:
        return CheckpointError(
            f"the job was not {what}: all of its input has ended", hint="it will finish on its own"
        )
    if busy:
        return CheckpointError(
            f"the job was not {what}: a savepoint, a stop or another rescale is in progress",
            hint="try again when that has finished",
        )
    return None
