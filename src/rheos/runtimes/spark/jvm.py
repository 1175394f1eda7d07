"""The error for a JVM of Spark's driver that has ended."""

from __future__ import annotations

import subprocess

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from rheos.core.errors import ConfigurationError, JobFailedError

_EXITS_WITHIN_S = 5.0
_OUT_OF_MEMORY = 52
"""Spark's exit code after an OutOfMemoryError."""

_MORE_MEMORY = (
    "raise its memory: spark.driver.memory, by PYSPARK_SUBMIT_ARGS='--driver-memory 8g "
    "pyspark-shell' for a session that Rheos makes"
)


def jvm_lost(error: BaseException) -> JobFailedError | None:
    """Return the error to raise if the JVM has ended; None if `error` has another cause."""
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
