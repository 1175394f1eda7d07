"""Slots that a Spark application offers to a continuous job, and the kind of stage that takes them."""

from __future__ import annotations

import enum
import os
import re
import time
from dataclasses import dataclass

from pyspark import SparkContext

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark.jvm import check_application

_EXECUTORS_WITHIN_S = 60.0
_IN_DRIVER = re.compile(r"local(\[.*\])?")
"""Masters whose slots are those of the driver's own process: no others will come."""
_DYNAMIC = "spark.dynamicAllocation.enabled"
_MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"


class StageKind(enum.Enum):
    """Kind of the Spark stage whose tasks are the job's slots."""

    BARRIER = "barrier"
    """Spark starts all tasks at once, and fails all of them if one fails."""
    ORDINARY = "ordinary"
    """Spark starts tasks as slots become free. The driver starts the job when all have joined, and
    ends the attempt if Spark starts a task again."""


@dataclass(frozen=True, slots=True)
class StageChoice:
    kind: StageKind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind.value} stage: {self.reason}"


def chosen_stage(context: SparkContext) -> StageChoice:
    """Return the kind of stage that this application can run.

    Spark refuses barrier stages if executors are allocated dynamically. A master within the driver's
    process ignores that setting.
    """
    dynamic = context.getConf().get(_DYNAMIC, "false") or ""
    if dynamic.lower() == "true" and not _IN_DRIVER.fullmatch(context.master):
        return StageChoice(StageKind.ORDINARY, f"{_DYNAMIC}=true excludes barrier stages")
    return StageChoice(StageKind.BARRIER, "the number of executors is fixed")


def driver_host(context: SparkContext) -> str:
    """Return the address on which the driver listens for workers on other machines."""
    return context.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"


def check_slots(context: SparkContext, parallelism: int, reserved: int = 0) -> None:
    """Raise ConfigurationError if the master cannot run `parallelism` tasks at once, and
    `reserved` more for the Spark jobs that publish the job's output.

    On a cluster, wait for a bounded time until the executors have registered. With dynamic allocation,
    Spark requests executors for tasks that wait, so only a configured maximum is checked.
    """
    needed = parallelism + reserved
    dynamic = chosen_stage(context).kind is StageKind.ORDINARY
    deadline = time.monotonic() + _EXECUTORS_WITHIN_S
    while (have := available_slots(context, needed)) < needed:
        if dynamic or _IN_DRIVER.fullmatch(context.master) or time.monotonic() > deadline:
            of_them = (
                f" ({parallelism} for tasks, and {reserved} for Spark jobs that publish tables)"
                if reserved
                else ""
            )
            fitting = max(have - reserved, 1)
            larger = (
                f"raise {_MOST_EXECUTORS}"
                if dynamic
                else f"start the master with more cores, such as local[{parallelism + 1}]"
            )
            raise ConfigurationError(
                f"the job needs {needed} slots{of_them}, but the master {context.master!r} has {have}",
                hint=f"lower the parallelism to {fitting}, or {larger}",
            )
        time.sleep(0.1)


def most_slots(plan: PhysicalPlan, config: JobConfig) -> int:
    """Return the maximum number of slots of the job, for a master that is made for it."""
    if config.scaling is None:
        return plan.parallelism
    most = config.scaling.most
    return max(os.cpu_count() or 1, plan.parallelism) if most is None else most


def available_slots(context: SparkContext, wanted: int) -> int:
    """Return the number of tasks that Spark can run at once. Raise JobFailedError if the application
    has ended.

    With dynamic allocation, Spark requests executors up to a maximum. If that maximum is known, the
    result is its number of slots. Otherwise it is at least `wanted`.
    """
    have = _slots(context)
    if chosen_stage(context).kind is StageKind.BARRIER:
        return have
    conf = context.getConf()
    executors, cores = conf.get(_MOST_EXECUTORS, None), conf.get("spark.executor.cores", None)
    if executors is None or cores is None or int(executors) == _UNLIMITED:
        return max(have, wanted)
    return int(executors) * (int(cores) // int(conf.get("spark.task.cpus", "1") or 1))


_UNLIMITED = 2**31 - 1
"""The default of Spark's maximum number of executors."""


def _slots(context: SparkContext) -> int:
    """Return the number of tasks that the current executors can run at once. Spark uses the same number
    to decide whether a barrier stage may start."""
    check_application(context)
    in_jvm = context._jsc.sc()
    profile = in_jvm.resourceProfileManager().defaultResourceProfile()
    return int(in_jvm.maxNumConcurrentTasks(profile))
