"""The JVM and the application of Spark's driver: the error if one has ended, and the JVM's lines.

The JVM may be started before PySpark is imported, so this module does not import PySpark either.
"""

from __future__ import annotations

import logging
import re
import subprocess
from typing import Any

from rheos.core.errors import ConfigurationError, JobFailedError

LOGGER = logging.getLogger("rheos.jvm")
"""Logger for the lines that Spark's JVM logs. Users see its failures as errors."""
LOGGER.addHandler(logging.NullHandler())
_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)")
_AT_THE_START = re.compile(
    r"WARNING: |Using Spark's default log4j|Setting default log level to |To adjust logging level use "
)
_CONTINUED = re.compile(r"\tat |Caused by: |\t\.\.\. |\tSuppressed: ")
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}


class JvmLines:
    """A parser of the lines of one JVM."""

    def __init__(self) -> None:
        self._level: int | None = None
        """Level of the JVM's previous line; None after a line from elsewhere."""

    def level(self, line: str) -> tuple[int, str] | None:
        """Return the level and the message of a line that the JVM logs; None for any other line."""
        logged = _LOGGED.match(line)
        if logged is not None:
            self._level = _LEVELS.get(logged[1], logging.INFO)
            return self._level, logged[2]
        if _AT_THE_START.match(line):
            self._level = logging.INFO
            return self._level, line
        if self._level is not None and _CONTINUED.match(line):
            return self._level, line
        self._level = None
        return None


_STOPPED = re.compile("SparkContext was shut ?down|stopped SparkContext")
_EXITS_WITHIN_S = 5.0
_OUT_OF_MEMORY = 52
"""Spark's exit code after an OutOfMemoryError."""

_MORE_MEMORY = (
    "raise its memory: spark.driver.memory, through PYSPARK_SUBMIT_ARGS='--driver-memory 8g "
    "pyspark-shell' for a session that Rheos creates"
)


def spark_ended(error: BaseException) -> JobFailedError | None:
    """Return the error to raise if Spark's JVM or application has ended; None if `error` has another
    cause."""
    from py4j.protocol import Py4JNetworkError

    if _STOPPED.search(str(error)):
        return _application_ended()
    lost = isinstance(error, Py4JNetworkError | ConnectionError)
    process = _process()
    if process is None:
        # Another program started it, such as spark-submit.
        return _lost_error("the connection to it was lost") if lost else None
    try:
        code = process.wait(_EXITS_WITHIN_S if lost else 0)
    except subprocess.TimeoutExpired:
        return None
    return _lost_error(_reason_of(code))


def is_stopped(context: Any) -> bool:
    """Return whether a SparkContext has been stopped, by the program or by Spark itself."""
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def check_application(context: Any) -> None:
    """Raise JobFailedError if the SparkContext has been stopped."""
    if is_stopped(context):
        raise _application_ended()


def check_jvm() -> None:
    """Raise ConfigurationError if this process had a JVM that has ended: PySpark cannot start a second
    one."""
    process = _process()
    code = None if process is None else process.poll()
    if code is not None:
        raise ConfigurationError(
            f"the JVM of Spark's driver has ended: {_reason_of(code)}",
            hint=f"start the program again; if the JVM ran out of memory, {_MORE_MEMORY}",
        )


def _process() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _reason_of(code: int) -> str:
    if code == _OUT_OF_MEMORY:
        return "it ran out of memory"
    if code in (-9, 137):
        return "it was killed, which the system does when memory is short"
    return f"its exit code is {code}"


def _application_ended() -> JobFailedError:
    return JobFailedError(
        "Spark's application has ended, which ends the job",
        hint="the last lines that Spark has logged show the reason, such as too many lost executors "
        "(spark.executor.maxNumFailures). Start the program again: the job resumes from its newest "
        "checkpoint. A program must not stop its Spark session while a job runs",
    )


def _lost_error(why: str) -> JobFailedError:
    return JobFailedError(
        f"the JVM of Spark's driver has ended, which ends the job: {why}",
        hint="its log may show the reason. Start the program again; if the JVM ran out of memory, "
        f"{_MORE_MEMORY}",
    )
