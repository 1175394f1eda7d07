"""The folder in which the sinks of a batch job stage uncommitted output.

It is in the checkpoint directory if the program has one, otherwise on this machine for as long as the
job runs. Bounded streams of Spark are staged in such a folder, too, anew in each run.
"""

from __future__ import annotations

from pyspark import SparkContext

from rheos.core.checkpoint.names import safe_name
from rheos.core.connectors import capabilities
from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.driver.sources_and_sinks import sinks_stage, sources, staged_sinks, staged_sources
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.job import JobConfig


def staged_for(
    owner: object, plan: PhysicalPlan, config: JobConfig, spark: SparkContext
) -> PhysicalPlan:
    """The plan with its sinks given a folder, where they want one, and its streams staged. A temporary
    folder goes when `owner` does. Raises ConfigurationError where workers on other machines would not
    reach it."""
    if any(capabilities.queries(source) for _, source in sources(plan)):
        hint = 'run it continuous, where it lies beside the checkpoints: runtime="continuous"'
        plan = staged_sources(plan, _temporary(owner, spark, "a stream of Spark that is read", hint))
    if not sinks_stage(plan):
        return plan
    if config.checkpoint_dir is not None:
        return staged_sinks(
            plan, f"{config.checkpoint_dir.rstrip('/')}/{safe_name(config.job)}/staged-batch"
        )
    hint = 'set one: Environment(checkpoint_dir="s3://..."), or --checkpoint-dir'
    return staged_sinks(plan, _temporary(owner, spark, "what a sink stages", hint))


def _temporary(owner: object, spark: SparkContext, what: str, hint: str) -> str:
    if not str(spark.master).startswith("local"):
        raise ConfigurationError(
            f"on a cluster {what} needs a directory that every executor reaches", hint=hint
        )
    return folder_of(owner, "rheos-staged-")
