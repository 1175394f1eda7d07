"""The Spark context and session of a job: the user's own, an existing one, or a new one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from rheos.connectors.spark import versions
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ports import Completion, IoExecutor
from rheos.runtimes.host.interruptible_waits import result_of
from rheos.runtimes.host.scratch import private_folder
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark import early_start
from rheos.runtimes.spark.daemon_handover import PLACE
from rheos.runtimes.spark.early_daemon import ONE_THREAD, EarlyDaemon
from rheos.runtimes.spark.jvm import check_jvm, is_stopped
from rheos.runtimes.spark.jvm_options import (
    OPTIONS,
    jvm_settings,
    local_environment,
    require_java,
    workers_run_this_python,
)
from rheos.runtimes.spark.numpy_arguments import check_without_testing

T = TypeVar("T")

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark never repeats a failed barrier stage: restarts belong to the job.
    "spark.stage.maxConsecutiveAttempts": "1",
    # If Spark still counts the slots of a lost executor, it looks again after this time, not after 15
    # s.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "60",
    "spark.python.worker.reuse": "true",
    # Rows that a batch job caches are written in pieces of megabytes. Java's serializer would keep the
    # last hundred of them in memory.
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}

_DAEMON = "spark.python.daemon.module"
_OUR_DAEMON = "rheos.runtimes.spark.daemon"
_LOADS_WITHIN_S = 20.0

_ours: tuple[SparkContext, int] | None = None
"""The context that Rheos has made in this process, and its slots."""
_started_jvm = False
"""Whether the JVM of this process was started for such a context."""
_daemon: EarlyDaemon | None = None
"""The daemon from which the workers of this session are forked."""


def get_context(config: JobConfig, slots: int) -> SparkContext:
    """Return the context to run in.

    It is the context of `config.spark`, or the active one of this process. Otherwise a new one is made,
    on `config.master` or on `local[slots]`. It stays for later jobs until the process ends. If a local
    one has too few slots for a later job, a larger one replaces it.

    Raise ConfigurationError if Java or the master is missing, or the session cannot run jobs.
    """
    global _ours
    check_jvm()
    if config.spark is not None:
        return _checked(config.spark).sparkContext
    context = SparkContext._active_spark_context
    if context is not None and _gives_way(context, config, slots):
        _stop(context)
        context = _ours = None
    if context is not None:
        _check_master(context, config)
        return context
    context = _make(config, slots)
    _ours = (context, slots)
    return context


def get_session(config: JobConfig, slots: int) -> SparkSession:
    """Return the session to run in: `config.spark`, the active one, or a new one on the context of
    `get_context`. It becomes active in this thread. Raise the same errors as `get_context`."""
    context = get_context(config, slots)
    session = found_session(config) or _interruptible(lambda: SparkSession(context))
    activate(session)
    return session


def found_session(config: JobConfig) -> SparkSession | None:
    """Return the session to run in, if one exists. Jobs without tables or DataFrames need only a
    context."""
    if config.spark is not None:
        return _checked(config.spark)
    first = SparkSession._instantiatedSession
    if first is None or is_stopped(first.sparkContext):
        return None
    return _checked(SparkSession.getActiveSession() or first)


def _is_ours(context: SparkContext) -> bool:
    return _ours is not None and _ours[0] is context


def _gives_way(context: SparkContext, config: JobConfig, slots: int) -> bool:
    """Return whether a new context replaces this one: Spark has ended it, or Rheos has made it and it
    does not fit the job."""
    if is_stopped(context):
        return True
    if _ours is None or not _is_ours(context):
        return False
    master: str = context.master
    wanted = config.master
    if context.statusTracker().getActiveJobsIds():
        return False
    if wanted is not None:
        return wanted != master
    return master.startswith("local[") and _ours[1] < slots


def _stop(context: SparkContext) -> None:
    session = SparkSession._instantiatedSession
    if session is not None and session.sparkContext is context:
        session.stop()
    else:
        context.stop()


def _check_master(context: SparkContext, config: JobConfig) -> None:
    if config.master is not None and config.master != context.master:
        raise ConfigurationError(
            f"the job is configured for the master {config.master!r}, but a Spark session on "
            f"{context.master!r} is running in this process",
            hint="leave out the master to use that session, or stop the session first",
        )


def _checked(session: Any) -> SparkSession:
    if "connect" in type(session).__module__:
        raise ConfigurationError(
            "this is a Spark Connect session, which cannot run long-lived tasks",
            hint="pass a classic session, on the driver of the cluster: unset SPARK_REMOTE and "
            "spark.api.mode=connect",
        )
    assert isinstance(session, SparkSession)
    if is_stopped(session.sparkContext):
        raise ConfigurationError(
            "the Spark session that was passed has been stopped", hint="create a new one, or pass none"
        )
    return session


def _make(config: JobConfig, slots: int) -> SparkContext:
    global _daemon, _started_jvm
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # The JVM already runs, with its own master.
    if os.environ.get("SPARK_REMOTE") and config.master is None:
        raise ConfigurationError(
            f"SPARK_REMOTE={os.environ['SPARK_REMOTE']!r} selects Spark Connect, which cannot "
            "run long-lived tasks",
            hint="unset SPARK_REMOTE",
        )
    java_version = "" if submitted else require_java()
    if submitted:
        SparkContext._ensure_initialized()  # Otherwise SparkConf would not contain what was submitted.
    conf = SparkConf()
    # A JVM that was started for an earlier context of ours still has that context's master.
    current_master = None if _started_jvm else conf.get("spark.master", None)
    master = config.master or current_master or f"local[{max(slots, 1)}]"
    _started_jvm |= SparkContext._gateway is None and not submitted
    conf.setMaster(master)
    conf.setIfMissing("spark.app.name", "rheos")
    for name, value in (_SETTINGS | _local_settings(master)).items():
        conf.setIfMissing(name, value)
    if not submitted:
        given = conf.get(OPTIONS, None) or ""
        conf.setAll(list(jvm_settings(java_version, given).items()))
    surroundings = local_environment() if master.startswith("local") else {}
    named = conf.get("spark.pyspark.python", sys.executable) == sys.executable
    workers_are_ours = master.startswith("local") and named and workers_run_this_python()
    if _daemon is not None:
        _daemon.close()
    _daemon = _started_daemon(conf, master) if workers_are_ours else None

    check_without_testing()

    def make() -> SparkContext:
        gateway = None if submitted else early_start.take_jvm(conf)
        if gateway is not None:
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        return SparkContext(conf=conf)

    try:
        with _environment(surroundings):
            context = _interruptible(make)
        early_start.discard()  # End processes that the context did not use.
    except Exception as error:
        raise ConfigurationError(
            f"no Spark session could be created on the master {master!r}",
            hint="check the master's address, and that its Spark has the version of the installed "
            "pyspark package; so must SPARK_HOME, if set",
            detail=str(error).strip() or type(error).__name__,
        ) from None
    if "ArchiveClassesAtExit" in (conf.get(OPTIONS, None) or ""):
        atexit.register(_load_more_classes, context)
    return context


def _started_daemon(conf: SparkConf, master: str) -> EarlyDaemon | None:
    """Start our daemon early, and return it. Return None if Spark's daemon would not find Rheos."""
    if conf.get(_DAEMON, _OUR_DAEMON) != _OUR_DAEMON:
        return None
    daemon = early_start.take_daemon()
    atexit.register(daemon.close)
    if not daemon.came_up():
        return None
    conf.set(_DAEMON, _OUR_DAEMON)
    if master.startswith("local-cluster"):  # Each executor has workers of its own.
        daemon.close()
        return None
    return daemon


def _load_more_classes(context: SparkContext) -> None:
    """Load the classes of a batch job when the process ends. Its JVM is about to write the archive of
    Spark's classes, and a continuous job does not use them."""

    def load() -> None:
        with contextlib.suppress(Exception):  # The JVM may have ended.
            context.cancelAllJobs()
            rows = (
                SparkSession(context).range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long")
            )
            rows.repartition(2, "id").sortWithinPartitions("id").collect()

    with contextlib.suppress(RuntimeError):  # Later versions of Python start no thread at exit.
        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        loading.join(_LOADS_WITHIN_S)


def _local_settings(master: str) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    return {
        # For local-cluster: replace a lost executor, however often.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark makes this folder even if no table is ever written.
        "spark.sql.warehouse.dir": private_folder(f"rheos-spark-warehouse-{os.getuid()}"),
    }


def activate(session: SparkSession) -> None:
    """Make the session the one that `SparkSession.active()` returns in this thread."""
    versions.jvm_class(session, "SparkSession").setActiveSession(session._jsparkSession)


def is_local(context: SparkContext) -> bool:
    """Return whether all workers run on the driver's machine and see its disk."""
    return str(context.master).startswith("local")


class SessionIo:
    """An IoExecutor in whose threads the session is active, and its jobs have a description."""

    def __init__(self, session: SparkSession, description: str, io: IoExecutor) -> None:
        self._session = session
        self._description = description
        self._io = io

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        def within_session() -> T:
            activate(self._session)
            self._session.sparkContext.setJobDescription(self._description)
            return work()

        return self._io.submit(within_session)

    def wake(self) -> None:
        self._io.wake()


@contextmanager
def single_threaded_workers(context: SparkContext) -> Iterator[None]:
    """Build functions in the block for workers that limit Polars and Arrow to one thread. If a daemon
    was started early, these workers are forked from it. A worker's environment is fixed when a function
    is passed to Spark (`mapInArrow`), so that must happen in the block. The function may run later."""
    environment = context.environment
    before = dict(environment)
    environment.update(ONE_THREAD)
    if _daemon is not None and _is_ours(context):
        environment[PLACE] = _daemon.place
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _interruptible(work: Callable[[], T]) -> T:
    """Do the work in another thread. Ctrl-C then ends the wait for it instead of a call into the JVM,
    which would print a trace. Outside the main thread, PySpark also sets no handler of Ctrl-C, which
    would cancel every job of the session."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="rheos-spark-start", daemon=True).start()
    return result_of(done)


@contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in additions}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
