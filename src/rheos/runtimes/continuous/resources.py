"""Slots that a Spark application offers to a continuous job, and the kind of stage that takes them."""

from __future__ import annotations

import enum
import os
import re
import time
from dataclasses import dataclass

from pyspark import SparkConf, SparkContext

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.driver.driver_logs import LOGGER
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark.jvm import check_application

_EXECUTORS_WITHIN_S = 60.0
"""Time in s to wait for executors, if their number is not known."""
_REQUESTED_WITHIN_S = 600.0
"""Time in s to wait for executors that a resource manager starts. It may have to add machines first."""
_REPORT_AFTER_S = 5.0
_IN_DRIVER = re.compile(r"local(\[.*\])?")
"""Masters whose slots are those of the driver's own process: no others will come."""
_DYNAMIC = "spark.dynamicAllocation.enabled"
_MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"
_EXECUTORS = "spark.executor.instances"
_CORES = "spark.executor.cores"


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

    On a cluster, wait for a bounded time until the executors have registered, unless those that the
    application requests are too few. With dynamic allocation, Spark requests executors for tasks that
    wait, so only a configured maximum is checked.
    """
    needed = parallelism + reserved
    dynamic = chosen_stage(context).kind is StageKind.ORDINARY
    requested = None if dynamic else _requested_slots(context)
    too_few = requested is not None and requested < needed
    within_s = _EXECUTORS_WITHIN_S if requested is None else _REQUESTED_WITHIN_S
    if dynamic or too_few or _IN_DRIVER.fullmatch(context.master):
        within_s = 0.0
    began_s, reported = time.monotonic(), False
    while (have := available_slots(context, needed)) < needed:
        waited_s = time.monotonic() - began_s
        if waited_s >= within_s:
            have = requested if requested is not None and too_few else have
            of_them = (
                f" ({parallelism} for tasks, and {reserved} for Spark jobs that publish tables)"
                if reserved
                else ""
            )
            fitting = max(have - reserved, 1)
            if dynamic:
                larger = f"raise {_MOST_EXECUTORS}"
            elif requested is not None:
                larger = f"raise {_EXECUTORS} or {_CORES}, and check that the cluster has room for them"
            else:
                larger = f"start the master with more cores, such as local[{parallelism + 1}]"
            raise ConfigurationError(
                f"the job needs {needed} slots{of_them}, but the master {context.master!r} has {have}",
                hint=f"lower the parallelism to {fitting}, or {larger}",
            )
        if waited_s > _REPORT_AFTER_S and not reported:
            reported = True
            LOGGER.warning(
                "the job waits up to %g s for executors: it needs %d slots, and %d have registered",
                within_s,
                needed,
                have,
            )
        time.sleep(0.1)


def _requested_slots(context: SparkContext) -> int | None:
    """Return the number of slots of the executors that a fixed application requests; None if the master
    decides their number."""
    if context.master != "yarn" and not context.master.startswith("k8s://"):
        return None
    conf = context.getConf()
    return int(conf.get(_EXECUTORS, "2") or 2) * _slots_of_executor(conf, conf.get(_CORES, "1") or "1")


def _slots_of_executor(conf: SparkConf, cores: str) -> int:
    return int(cores) // int(conf.get("spark.task.cpus", "1") or 1)


def most_slots(plan: PhysicalPlan, config: JobConfig) -> int:
    """Return the maximum number of slots of the job, for a master that is made for it. Slots that
    restore state ahead are as many again."""
    widest = plan.parallelism
    if config.scaling is not None:
        most = config.scaling.most
        widest = max(os.cpu_count() or 1, plan.parallelism) if most is None else most
    return widest * (2 if config.checkpoint.restore_ahead else 1)


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
    executors, cores = conf.get(_MOST_EXECUTORS, None), conf.get(_CORES, None)
    if executors is None or cores is None or int(executors) == _UNLIMITED:
        return max(have, wanted)
    return int(executors) * _slots_of_executor(conf, cores)


_UNLIMITED = 2**31 - 1
"""The default of Spark's maximum number of executors."""


def _slots(context: SparkContext) -> int:
    """Return the number of tasks that the current executors can run at once. Spark uses the same number
    to decide whether a barrier stage may start."""
    check_application(context)
    in_jvm = context._jsc.sc()
    profile = in_jvm.resourceProfileManager().defaultResourceProfile()
    return int(in_jvm.maxNumConcurrentTasks(profile))
