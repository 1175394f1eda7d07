"""The JVM of Spark's driver: how much memory it gets, and what is said where it has ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from rheos.errors import ConfigurationError, JobFailedError

_GIB = 1 << 30
_MEMORY = "spark.driver.memory"
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_EXITS_WITHIN_S = 5.0
_OUT_OF_MEMORY = 52
"""The exit code by which Spark says so."""

_MORE_MEMORY = (
    "give it more memory: spark.driver.memory, by PYSPARK_SUBMIT_ARGS='--driver-memory 8g "
    "pyspark-shell' for a session that Rheos makes"
)


PATIENT_COMPILER = tuple(
    f"-XX:Tier4{threshold}={10 * default}"
    for threshold, default in {
        "InvocationThreshold": 5_000,
        "MinInvocationThreshold": 600,
        "CompileThreshold": 15_000,
        "BackEdgeThreshold": 40_000,
    }.items()
)
"""Options by which the JVM's optimising compiler waits for code that is ten times as hot as usual. Most
of what it compiles while Spark starts is not run again, and that takes a third of the time."""


# --- memory ---------------------------------------------------------------------------------------


def memory_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For a JVM that is still to be started: Spark's own default of 1 GB is for trials. Nothing where
    the user has said how much it gets."""
    given = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "SPARK_DRIVER_MEMORY" in environment or "driver-memory" in given or _MEMORY in given:
        return {}
    if _MEMORY in _defaults(environment):
        return {}
    return {_MEMORY: f"{heap_bytes(_machine_bytes()) >> 20}m"}


def heap_bytes(machine_bytes: int) -> int:
    """A quarter of the machine: the rest is for the Python workers, which do the work."""
    return max(_GIB, min(machine_bytes // 4, 8 * _GIB))


def _machine_bytes() -> int:
    """What this process may use, which is less than the machine has within a container."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            known.append(int(Path(limit).read_text()))
    return min(known)


def _defaults(environment: Mapping[str, str]) -> str:
    """The text of Spark's own file of settings, which ours would override."""
    home = environment.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


# --- its end --------------------------------------------------------------------------------------


def jvm_lost(error: BaseException) -> JobFailedError | None:
    """What to say of an error where the JVM has ended; None where it is another."""
    lost = isinstance(error, Py4JNetworkError | ConnectionError)
    process = _process()
    if process is None:
        # It was started by somebody else, as by spark-submit.
        return _lost("the connection to it broke") if lost else None
    try:
        code = process.wait(_EXITS_WITHIN_S if lost else 0)
    except subprocess.TimeoutExpired:
        return None
    return _lost(_why(code))


def check_jvm() -> None:
    """Raises ConfigurationError where this process has had a JVM, and it has ended: PySpark cannot
    start a second one."""
    process = _process()
    code = None if process is None else process.poll()
    if code is not None:
        raise ConfigurationError(
            f"the JVM of Spark's driver has ended: {_why(code)}",
            hint=f"start the program again; where it ended for lack of memory, {_MORE_MEMORY}",
        )


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


def _why(code: int) -> str:
    if code == _OUT_OF_MEMORY:
        return "it ran out of memory"
    if code in (-9, 137):
        return "it was killed, as the system does when memory is short"
    return f"its exit code is {code}"


def _lost(why: str) -> JobFailedError:
    return JobFailedError(
        f"the JVM of Spark's driver has ended, and the job with it: {why}",
        hint=f"its log may say more. Start the program again; where it ended for lack of memory, "
        f"{_MORE_MEMORY}",
    )
