"""What a Spark application can give a long-running job: slots, and addresses to reach each other."""

from __future__ import annotations

import os
import re
import time

from pyspark.sql import SparkSession

from rheos.errors import ConfigurationError

_EXECUTORS_WITHIN_S = 60.0


def is_local(session: SparkSession) -> bool:
    """Whether all workers run on the driver's machine and see its disk."""
    return str(session.sparkContext.master).startswith("local")


def driver_host(session: SparkSession) -> str:
    """The address on which the driver listens for its workers."""
    if is_local(session):
        return "127.0.0.1"
    return session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"


def check_slots(session: SparkSession, parallelism: int) -> None:
    """Raises ConfigurationError where the master cannot run `parallelism` tasks at once.

    On a cluster it waits, for a bounded time, until the executors have registered.
    """
    conf = session.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise ConfigurationError(
            "a barrier stage cannot run with dynamic allocation",
            hint="set spark.dynamicAllocation.enabled=false and ask for fixed executors",
        )
    deadline = time.monotonic() + _EXECUTORS_WITHIN_S
    while (have := slots(session)) < parallelism:
        if session.sparkContext.master.startswith("local[") or time.monotonic() > deadline:
            raise ConfigurationError(
                f"the job needs {parallelism} slots, and the master "
                f"{session.sparkContext.master!r} gives {have}",
                hint=f"lower the parallelism to {max(have, 1)}, or give the master more cores, "
                f"such as local[{parallelism + 1}]",
            )
        time.sleep(0.1)


def slots(session: SparkSession) -> int:
    """How many tasks can run at once, with the executors there are now."""
    context = session.sparkContext
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", context.master)
    if local:
        count = local.group(1)
        return (os.cpu_count() or 1) if count == "*" else int(count or 1)
    java = context._jsc.sc()
    executors = int(java.getExecutorMemoryStatus().size()) - 1
    cores = _cores_per_executor(context.master, context.getConf().get("spark.executor.cores"))
    if cores is None:
        return int(context.defaultParallelism) if executors > 0 else 0
    return executors * cores


def _cores_per_executor(master: str, configured: str | None) -> int | None:
    """None where an executor takes all the cores of its machine (a standalone master)."""
    cluster = re.fullmatch(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster:
        return int(cluster.group(1))
    if configured:
        return int(configured)
    return None if master.startswith("spark://") else 1
