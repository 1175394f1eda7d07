"""The staging folder of a simulated job.

Its sources stage input there that may be read again, and its sinks uncommitted output. These are real
files, kept as long as the job object exists.
"""

from __future__ import annotations

from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.driver.sources_and_sinks import (
    refuse_streams,
    sinks_stage,
    staged_sinks,
    staged_sources,
    stages,
)
from rheos.runtimes.host.scratch import folder_of


def with_staging_folders(owner: object, plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with sources staged in a temporary folder, and a folder for each sink that needs
    one, removed with `owner`. Raise ConfigurationError for a Spark stream that does not end."""
    refuse_streams(
        plan,
        "in a simulated job, which has virtual time, read the rows available now: "
        "env.from_stream(df, available_now=True)",
    )
    if not stages(plan) and not sinks_stage(plan):
        return plan
    folder = folder_of(owner, "rheos-staged-")
    return staged_sources(staged_sinks(plan, folder), folder)
