"""Where the sources of a simulated job write down what is to be read again, and its sinks what is not
yet committed: real files, for as long as the job is there to be looked at."""

from __future__ import annotations

from rheos.driver.sources_and_sinks import sinks_stage, staged_sinks, staged_sources, stages
from rheos.host.scratch import folder_of
from rheos.plan.physical import PhysicalPlan


def staged_beside(owner: object, plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with its sources staged in a temporary folder, and its sinks given one, which goes when
    `owner` does."""
    if not stages(plan) and not sinks_stage(plan):
        return plan
    folder = folder_of(owner, "rheos-staged-")
    return staged_sources(staged_sinks(plan, folder), folder)
