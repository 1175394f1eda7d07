"""The Spark session that a job runs in: the user's own, the one there is, or one made for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from rheos.errors import ConfigurationError
from rheos.host.io import ThreadedIo
from rheos.host.scratch import private_folder
from rheos.job import JobConfig
from rheos.protocol.ports import Completion
from rheos.spark import class_archive
from rheos.spark.jvm import PATIENT_COMPILER, check_jvm, memory_settings

T = TypeVar("T")

_INSTALL_JAVA = (
    "install Java 17 or newer (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "on macOS: brew install openjdk@17), or point JAVA_HOME at one"
)

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
    java_version = "" if submitted else _require_java()
    conf = SparkConf()
    master = config.master or conf.get("spark.master", None) or f"local[{max(slots, 1)}]"
    conf.setMaster(master)
    conf.setIfMissing("spark.app.name", "rheos")
    settings = _SETTINGS | _local_settings(master) | ({} if submitted else memory_settings())
    for name, value in settings.items():
        conf.setIfMissing(name, value)
    if not submitted and not os.environ.get("SPARK_CONF_DIR"):
        _quieten(conf)
    if not submitted:
        _start_quickly(conf, java_version)
    local = master.startswith("local")
    surroundings = {}
    if local and "PYSPARK_PYTHON" not in os.environ:
        surroundings["PYSPARK_PYTHON"] = sys.executable
        if conf.get("spark.pyspark.python", None) is None and _found_by_workers():
            conf.setIfMissing("spark.python.daemon.module", "rheos.spark.daemon")
    if local and "SPARK_LOCAL_IP" not in os.environ:
        surroundings["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        with _environment(surroundings):
            session = _interruptible(SparkSession.builder.config(conf=conf).getOrCreate)
    except Exception as error:
        raise ConfigurationError(
            f"no Spark session could be made on the master {master!r}",
            hint="check the master's address and that its Spark has the version of the installed "
            "pyspark package; SPARK_HOME, if set, must be of that version, too",
            detail=str(error).strip() or type(error).__name__,
        ) from None
    activate(session)  # It was made in another thread, and users ask for it in this one.
    return session


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


def _quieten(conf: SparkConf) -> None:
    """Takes our log settings, unless the user brought her own. They act from the JVM's first line."""
    file = resources.files("rheos.spark") / "log4j2.properties"
    options = conf.get("spark.driver.extraJavaOptions", None) or ""
    if "log4j" in options or not isinstance(file, Path):
        return
    ours = f"-Dlog4j2.configurationFile={file.as_uri()}"
    conf.set("spark.driver.extraJavaOptions", f"{options} {ours}".strip())


def _start_quickly(conf: SparkConf, java_version: str) -> None:
    """Has the JVM compile less while it starts, and use the archive of Spark's classes, unless the user
    brought her own."""
    options = conf.get("spark.driver.extraJavaOptions", None) or ""
    ours = list(PATIENT_COMPILER) if "Server VM" in java_version else []
    if "SharedArchiveFile" not in options and "ArchiveClassesAtExit" not in options:
        ours += class_archive.java_options(java_version, Path(_find_spark_home(), "jars"))
    conf.set("spark.driver.extraJavaOptions", " ".join([*ours, options]).strip())


def _require_java() -> str:
    """What it says of its version."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        where = f"in JAVA_HOME ({home})" if home else "on this machine"
        raise ConfigurationError(f"Spark runs on Java, and there is none {where}", hint=_INSTALL_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version and int(version.group(1)) < 17:
        raise ConfigurationError(
            f"Spark needs Java 17 or newer, and {java} is Java {version.group(1)}", hint=_INSTALL_JAVA
        )
    return said


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
