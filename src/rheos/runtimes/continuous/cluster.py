"""Resources that a Spark application has for a long-running job: slots, and addresses of its hosts."""

from __future__ import annotations

import os
import re
import time

from pyspark import SparkContext

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.job import JobConfig

_EXECUTORS_WITHIN_S = 60.0
_IN_DRIVER = re.compile(r"local(\[.*\])?")
"""Masters whose slots are those of the driver's own process: no others will come."""


def driver_host(context: SparkContext) -> str:
    """The address on which the driver listens for workers on other machines."""
    return context.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"


def check_slots(context: SparkContext, parallelism: int, beside: int = 0) -> None:
    """Raise ConfigurationError if the master cannot run `parallelism` tasks at once, and `beside` more
    for the Spark jobs that publish the job's output.

    On a cluster, wait for a bounded time until the executors have registered.
    """
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise ConfigurationError(
            "a barrier stage cannot run with dynamic allocation",
            hint="set spark.dynamicAllocation.enabled=false and ask for fixed executors",
        )
    deadline = time.monotonic() + _EXECUTORS_WITHIN_S
    needed = parallelism + beside
    while (have := slots(context)) < needed:
        if _IN_DRIVER.fullmatch(context.master) or time.monotonic() > deadline:
            besides = (
                f" ({parallelism} to run, and {beside} in which Spark publishes its tables)"
                if beside
                else ""
            )
            fitting = max(have - beside, 1)
            raise ConfigurationError(
                f"the job needs {needed} slots{besides}, and the master {context.master!r} has {have}",
                hint=f"lower the parallelism to {fitting}, or start the master with more cores, "
                f"such as local[{parallelism + 1}]",
            )
        time.sleep(0.1)


def most_slots(plan: PhysicalPlan, config: JobConfig) -> int:
    """Return the maximum number of slots of the job, for a master that is made for it."""
    if config.scaling is None:
        return plan.parallelism
    most = config.scaling.most
    return max(os.cpu_count() or 1, plan.parallelism) if most is None else most


def slots(context: SparkContext) -> int:
    """Return the number of tasks that the current executors can run at once. Spark uses the same number
    to decide whether a barrier stage may start."""
    in_jvm = context._jsc.sc()
    profile = in_jvm.resourceProfileManager().defaultResourceProfile()
    return int(in_jvm.maxNumConcurrentTasks(profile))
