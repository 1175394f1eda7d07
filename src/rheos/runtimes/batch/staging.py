"""Where the sinks of a batch job keep what is not yet committed: in the checkpoint directory, if the
program has one, else in a folder of this machine, for as long as the job is there."""

from __future__ import annotations

from pyspark import SparkContext

from rheos.checkpoint.names import safe_name
from rheos.driver.sources_and_sinks import sinks_stage, staged_sinks
from rheos.errors import ConfigurationError
from rheos.host.scratch import folder_of
from rheos.job import JobConfig
from rheos.plan.physical import PhysicalPlan


def staged_for(
    owner: object, plan: PhysicalPlan, config: JobConfig, spark: SparkContext
) -> PhysicalPlan:
    """The plan with its sinks given a folder, where they want one. A temporary one goes when `owner`
    does. Raises ConfigurationError where workers on other machines would not reach it."""
    if not sinks_stage(plan):
        return plan
    if config.checkpoint_dir is not None:
        return staged_sinks(
            plan, f"{config.checkpoint_dir.rstrip('/')}/{safe_name(config.job)}/staged-batch"
        )
    if not str(spark.master).startswith("local"):
        raise ConfigurationError(
            "on a cluster what a sink stages needs a directory that every executor reaches",
            hint='give one: Environment(checkpoint_dir="s3://..."), or --checkpoint-dir',
        )
    return staged_sinks(plan, folder_of(owner, "rheos-staged-"))
