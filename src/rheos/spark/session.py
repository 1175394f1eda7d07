"""The Spark session that a job runs in: the user's own, the one there is, or one made for it."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from rheos.errors import ConfigurationError
from rheos.host.io import ThreadedIo
from rheos.host.scratch import private_folder
from rheos.job import JobConfig
from rheos.protocol.ports import Completion
from rheos.spark import ahead
from rheos.spark.jvm import check_jvm
from rheos.spark.jvm_options import OPTIONS, jvm_settings, local_environment, require_java

T = TypeVar("T")

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A failed barrier stage is never repeated by Spark: restarts belong to the job.
    "spark.stage.maxConsecutiveAttempts": "1",
    # An executor may be gone while Spark still counts its slots; then it looks again, not after 15 s.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "60",
    "spark.python.worker.reuse": "true",
    # What is kept of a batch job is written in pieces of megabytes: Java's serializer would hold the
    # last hundred of them.
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}

_ONE_THREAD = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",  # Arrow's compute pool takes its size from it, too.
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
}

_LOADS_WITHIN_S = 20.0

_ours: tuple[SparkSession, int] | None = None
"""The session that Rheos has made in this process, and its slots."""


def get_session(config: JobConfig, slots: int) -> tuple[SparkSession, bool]:
    """The session to run in, and whether Rheos made it.

    `config.spark` is used as it is, and so is a session that is active in this process. Otherwise one
    is made, on `config.master` or on `local[slots]`. It stays for the jobs that follow and goes with
    the process; a local one that has too few slots for a later job gives way to a larger one.

    Raises ConfigurationError where Java or the master is missing, or the session is of a kind that
    cannot run jobs.
    """
    global _ours
    check_jvm()
    if config.spark is not None:
        return _checked(config.spark), False
    context = SparkContext._active_spark_context
    active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if context is not None and active is not None:
        ours = _ours is not None and _ours[0].sparkContext is context
        if ours and _ours is not None and _gives_way(_ours, config, slots):
            _ours[0].stop()
            _ours = None
        else:
            _check_master(context, config)
            return _checked(active), ours
    session = _make(config, slots)
    _ours = (session, slots)
    return session, True


def _gives_way(ours: tuple[SparkSession, int], config: JobConfig, slots: int) -> bool:
    session, has = ours
    context = session.sparkContext
    master: str = context.master
    wanted = config.master
    if context.statusTracker().getActiveJobsIds():
        return False
    if wanted is not None:
        return wanted != master
    return master.startswith("local[") and has < slots


def _check_master(context: SparkContext, config: JobConfig) -> None:
    if config.master is not None and config.master != context.master:
        raise ConfigurationError(
            f"the job asks for the master {config.master!r}, and a Spark session on "
            f"{context.master!r} is running in this process",
            hint="leave the master out to use that session, or stop it before",
        )


def _checked(session: Any) -> SparkSession:
    if "connect" in type(session).__module__:
        raise ConfigurationError(
            "this is a Spark Connect session, which cannot run long-lived tasks",
            hint="give a classic session, on the driver of the cluster: unset SPARK_REMOTE and "
            "spark.api.mode=connect",
        )
    assert isinstance(session, SparkSession)
    if session.sparkContext._jsc is None:
        raise ConfigurationError(
            "the given Spark session has been stopped", hint="make a new one, or give none"
        )
    return session


def _make(config: JobConfig, slots: int) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # The JVM runs already, with its own master.
    if os.environ.get("SPARK_REMOTE") and config.master is None:
        raise ConfigurationError(
            f"SPARK_REMOTE={os.environ['SPARK_REMOTE']!r} asks for Spark Connect, which cannot run "
            "long-lived tasks",
            hint="unset SPARK_REMOTE",
        )
    java_version = "" if submitted else require_java()
    conf = SparkConf()
    master = config.master or conf.get("spark.master", None) or f"local[{max(slots, 1)}]"
    conf.setMaster(master)
    conf.setIfMissing("spark.app.name", "rheos")
    for name, value in (_SETTINGS | _local_settings(master)).items():
        conf.setIfMissing(name, value)
    if not submitted:
        given = conf.get(OPTIONS, None) or ""
        conf.setAll(list(jvm_settings(java_version, given).items()))
    surroundings = local_environment() if master.startswith("local") else {}
    workers_are_ours = "PYSPARK_PYTHON" in surroundings and not conf.get("spark.pyspark.python", None)
    if workers_are_ours and _found_by_workers():
        conf.setIfMissing("spark.python.daemon.module", "rheos.spark.daemon")

    def make() -> SparkSession:
        gateway = None if submitted else ahead.take(conf)
        if gateway is not None:
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()

    try:
        with _environment(surroundings):
            session = _interruptible(make)
    except Exception as error:
        raise ConfigurationError(
            f"no Spark session could be made on the master {master!r}",
            hint="check the master's address and that its Spark has the version of the installed "
            "pyspark package; SPARK_HOME, if set, must be of that version, too",
            detail=str(error).strip() or type(error).__name__,
        ) from None
    if "ArchiveClassesAtExit" in (conf.get(OPTIONS, None) or ""):
        atexit.register(_load_more_classes, session)
    activate(session)  # It was made in another thread, and users ask for it in this one.
    return session


def _load_more_classes(session: SparkSession) -> None:
    """As the process ends, and its JVM is about to write the archive of Spark's classes: those that a
    batch job takes, where this was a continuous one."""

    def load() -> None:
        with contextlib.suppress(Exception):  # There may be no JVM any more.
            session.sparkContext.cancelAllJobs()
            rows = session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long")
            rows.repartition(2, "id").sortWithinPartitions("id").collect()

    with contextlib.suppress(RuntimeError):  # Later versions of Python start no thread here.
        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        loading.join(_LOADS_WITHIN_S)


def _found_by_workers() -> bool:
    """Whether a Python that is started again finds Rheos: a daemon module that is not found would end
    every worker."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('rheos') is None)"
    return (
        subprocess.run([sys.executable, "-c", look], check=False, capture_output=True).returncode == 0
    )


def _local_settings(master: str) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    return {
        # Of local-cluster: an executor that was lost is replaced, however often.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark makes this folder whether or not a table is ever written.
        "spark.sql.warehouse.dir": private_folder(f"rheos-spark-warehouse-{os.getuid()}"),
    }


def activate(session: SparkSession) -> None:
    """Makes it the session that `SparkSession.active()` finds in this thread."""
    classic = getattr(session._jvm, "org.apache.spark.sql.classic.SparkSession")
    classic.setActiveSession(session._jsparkSession)


class SessionIo:
    """An IoExecutor of one thread, in which the session is active, and its jobs are described so."""

    def __init__(self, session: SparkSession, description: str) -> None:
        self._session = session
        self._description = description
        self._threads = ThreadedIo(1, wake=lambda: None)

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        def within_session() -> T:
            activate(self._session)
            self._session.sparkContext.setJobDescription(self._description)
            return work()

        return self._threads.submit(within_session)

    def close(self) -> None:
        """Waits for what has begun."""
        self._threads.close()


@contextmanager
def single_threaded_workers(session: SparkSession) -> Iterator[None]:
    """Within it, functions are built whose workers hold Polars and Arrow to one thread.

    A worker's environment is fixed when a function is handed to Spark (`mapInArrow`), so that is what
    must happen inside; running it may happen later.
    """
    environment = session.sparkContext.environment
    before = dict(environment)
    environment.update(_ONE_THREAD)
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _interruptible(work: Callable[[], T]) -> T:
    """Does it in a thread beside. Ctrl-C then ends the wait for it, and not a call into the JVM, which
    would show a trace; nor does PySpark, away from the main thread, set a handler of Ctrl-C that
    cancels every job of the session."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="rheos-spark-start", daemon=True).start()
    return done.result()


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
