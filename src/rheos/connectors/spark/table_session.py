"""Spark session through which tables are accessed, and translation of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from rheos.connectors.spark.collecting import reason_of
from rheos.connectors.spark.versions import QUERY_ERRORS
from rheos.core.errors import CheckpointError, ConfigurationError, SchemaError, UnavailableError


def active_session(what: str) -> SparkSession:
    """Return the active session. If Spark runs without one, as under a continuous job that has needed
    none, create it. Raises ConfigurationError if Spark does not run."""
    try:
        return SparkSession.active()
    except QUERY_ERRORS as error:
        context = SparkContext._active_spark_context
        if context is not None:
            return SparkSession(context)
        raise ConfigurationError(
            f"{what} is published through Spark, but there is no SparkSession",
            hint='run the job with runtime="continuous" or "batch"; in the simulated runtime, '
            "write to files, or create a SparkSession first",
        ) from error


@contextmanager
def looking(what: str) -> Iterator[None]:
    """Translate Spark's errors in the block to ConfigurationError."""
    try:
        yield
    except QUERY_ERRORS as error:
        raise _misfit(what, error) or ConfigurationError(
            f"{what}: {reason_of(error)}",
            hint="check the table, its catalog, and who may write to it",
        ) from error


@contextmanager
def publishing(what: str) -> Iterator[None]:
    """Translate Spark's errors in the context; temporary ones become UnavailableError."""
    try:
        yield
    except AnalysisException as error:
        raise SchemaError(
            f"{what}: {reason_of(error)}",
            hint="the checkpoint's rows are not published, but not lost: correct the table, and "
            "start the job again",
        ) from error
    except QUERY_ERRORS as error:
        kind = UnavailableError if _is_outage(error) else CheckpointError
        raise _misfit(what, error) or kind(
            f"{what}: {reason_of(error)}",
            hint="the sink retries; check the table, and the slots that Spark has available",
        ) from error


_OUTAGES = (
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "java.net.UnknownHostException",
    "java.nio.channels.UnresolvedAddressException",
    "No space left on device",
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
    "org.apache.hadoop.ipc.StandbyException",
    "org.apache.http.conn.ConnectTimeoutException",
    "Service Unavailable",
)
"""Parts of stack traces of errors that are temporary: a server is down, or a disk is full."""


def _is_outage(error: Exception) -> bool:
    text = f"{error} {getattr(error, '_stackTrace', None) or ''}"
    return any(name in text for name in _OUTAGES)


_UNLINKED = (
    "NoSuchMethodError",
    "IncompatibleClassChangeError",
    "NoClassDefFoundError",
    "AbstractMethod",
)


def _misfit(what: str, error: Exception) -> ConfigurationError | None:
    """Return the error if a package was built for another version of Spark: retries do not help."""
    reason = reason_of(error)
    if not any(name in reason for name in _UNLINKED):
        return None
    return ConfigurationError(
        f"{what}: {reason}",
        hint="a package of the session was built for another version of Spark: install the one "
        "built for this version",
    )


def quoted(part: str) -> str:
    return f"`{part.replace('`', '``')}`"
