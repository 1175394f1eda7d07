"""Where the sources of a simulated job write down what is to be read again: real files, for as long as
the job is there to be looked at."""

from __future__ import annotations

import shutil
import tempfile
import weakref

from rheos.driver.sources_and_sinks import staged_sources, stages
from rheos.plan.physical import PhysicalPlan


def staged_beside(owner: object, plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with its sources staged in a temporary folder, which goes when `owner` does."""
    if not stages(plan):
        return plan
    folder = tempfile.mkdtemp(prefix="rheos-staged-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return staged_sources(plan, folder)
