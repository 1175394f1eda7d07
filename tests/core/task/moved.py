"""A job that is rescaled up and then down, while rows are in flight everywhere."""

from __future__ import annotations

from tests.core.task.cluster import AT_ONCE, Job, planned
from tests.core.task.programs import build, made
from tests.worlds.programs import CheckedProgram


def check_moved(program: CheckedProgram) -> None:
    """Check that the output equals the oracle's, although barriers overtook rows."""
    of = made()
    job = Job(planned(build(program, of)), AT_ONCE, parallelism=2, seed=1)
    for parallelism in (3, 1):
        job.under_back_pressure()
        job.take()
        job.restart(parallelism)
    program.check(of.arrived(), job.finish())
