"""Early start of the JVM of Spark's driver and of the daemon of its Python workers, while Python still
imports modules.

Each takes a second or two to start. So the command that runs a program starts them first, if the
program will probably need them. If Python runs the program, `execute` starts them, before it imports
the runtime and PySpark. The session that Rheos makes takes them over, if they have the settings that it
needs. Otherwise they are killed, at the latest when the process ends. A program that makes a session of
its own gets a JVM of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.core.errors import ConfigurationError
from rheos.runtimes.host.scratch import OwnedFolder
from rheos.runtimes.spark.early_daemon import EarlyDaemon
from rheos.runtimes.spark.jvm import LOGGER, JvmLines
from rheos.runtimes.spark.jvm_options import (
    jvm_settings,
    local_environment,
    require_java,
    spark_home,
    surroundings,
    workers_run_this_python,
)
from rheos.runtimes.spark.worker_exits import note_exit

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

_NEEDS_NONE = re.compile(r"\b(simulated?|SparkSession)\b")
"""Pattern of programs that need no JVM, or that create a session of their own."""
_ANOTHER = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE")
"""Environment variables. If one of these is set, the JVM already runs, or none is needed."""
_LOOK_EVERY_S = 0.01


class _Jvm:
    """A JVM process that will report the port at which it listens."""

    def __init__(self, settings: Mapping[str, str], *, logs: bool) -> None:
        """Start it. `logs` is whether the lines of its log go to the job's log instead of stderr."""
        self.settings = settings
        self._logs = logs
        self.surroundings = surroundings()
        self._folder = OwnedFolder("rheos-jvm-")
        self._said = Path(self._folder.path, "gateway")
        words = [f"{name}={value}" for name, value in settings.items()]
        given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        self.process = subprocess.Popen(
            [
                str(spark_home() / "bin" / "spark-submit"),
                *(each for word in words for each in ("--conf", word)),
                *shlex.split(given),
            ],
            stdin=subprocess.PIPE,  # The JVM ends when this pipe does.
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                **local_environment(),
                # Otherwise the script would start a Python process to find it.
                "SPARK_HOME": str(spark_home()),
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._said),
            },
            # Only Python reacts to Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

        self._heard = threading.Event()
        threading.Thread(target=self._pass_on, name="rheos-jvm-stderr", daemon=True).start()

    def _pass_on(self) -> None:
        """Forward the JVM's output once it is taken over."""
        assert self.process.stderr is not None
        sorted_lines = JvmLines()
        with self.process.stderr as lines:
            for line in lines:
                self._heard.wait()
                text = line.decode(errors="replace").rstrip("\n")
                logged = sorted_lines.level(text) if self._logs else None
                if logged is not None:
                    LOGGER.log(*logged)
                elif not note_exit(text):
                    os.write(2, line)

    def gateway(self) -> JavaGateway | None:
        """Wait until the JVM's gateway listens, and return it; None if the JVM ends first."""
        from pyspark.java_gateway import launch_gateway

        while not self._said.exists():
            if self.process.poll() is not None:
                return None
            time.sleep(_LOOK_EVERY_S)
        output = self._said.read_bytes()
        port, length = struct.unpack_from(">ii", output)
        # As `spark-submit` does when it runs a program.
        there = {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": output[8 : 8 + length].decode(),
        }
        os.environ.update(there)
        try:
            gateway = launch_gateway()
        finally:
            for name in there:
                del os.environ[name]
        gateway.proc = self.process
        return gateway

    def serves(self) -> None:
        """Mark the JVM as taken over."""
        self._heard.set()
        self._folder.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self._folder.close()


_jvm: _Jvm | None = None
_daemon: EarlyDaemon | None = None


def start(program: str, runtime: str, master: str, *, logs: bool = True) -> bool:
    """Start both if a program will probably need them.

    If anything prevents it, the session reports the reason later.

    Args:
        program: Source of the program.
        runtime: Runtime that the command names, or "auto".
        master: Spark master that the command names, or "local".
        logs: Whether the lines of the JVM's log go to the job's log instead of stderr.

    Returns:
        Whether they start.
    """
    global _jvm, _daemon
    needs_none = runtime == "simulated" or _NEEDS_NONE.search(program) is not None
    another = any(name in os.environ for name in _ANOTHER)
    another |= not master.startswith("local") or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if needs_none or another:
        return False
    atexit.register(discard)  # Ctrl-C may arrive before anything else would kill it.
    with contextlib.suppress(ConfigurationError, OSError, AssertionError):
        # It may also be the JVM that writes the archive of Spark's classes. If that JVM is killed, it
        # writes none. If Python is killed in these seconds, the archive has few classes, and later
        # starts are slower.
        _jvm = _Jvm(jvm_settings(require_java()), logs=logs)
        if workers_run_this_python():
            _daemon = EarlyDaemon()
    return _jvm is not None


def start_for_job(runtime: str, master: str | None) -> None:
    """Start both for a job of this runtime that is about to be submitted without a session. Do nothing
    if they have started, or if this process has a JVM already."""
    if _jvm is None and not _has_jvm():
        start("", runtime, master or "local", logs=False)


def _has_jvm() -> bool:
    """Return whether PySpark has connected to a JVM. Do not import PySpark for that."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def take_jvm(conf: SparkConf) -> JavaGateway | None:
    """Return the gateway to the early JVM if it has the settings of a session with `conf`. Otherwise
    kill the JVM and return None."""
    global _jvm
    jvm, _jvm = _jvm, None
    if jvm is None:
        return None
    wanted = {name: conf.get(name, None) for name in jvm.settings}
    local = str(conf.get("spark.master", None)).startswith("local")
    if local and wanted == dict(jvm.settings) and jvm.surroundings == surroundings():
        gateway = jvm.gateway()
        if gateway is not None:
            jvm.serves()
            return gateway
    jvm.kill()
    return None


def take_daemon() -> EarlyDaemon:
    """Return the early daemon, or a new one if the environment has changed since."""
    global _daemon
    daemon, _daemon = _daemon, None
    if daemon is not None and daemon.surroundings != surroundings():
        daemon.close()
        daemon = None
    return daemon or EarlyDaemon()


def discard() -> None:
    """Kill the early processes, because nothing will need them."""
    global _jvm, _daemon
    jvm, _jvm = _jvm, None
    daemon, _daemon = _daemon, None
    if jvm is not None:
        jvm.kill()
    if daemon is not None:
        daemon.discard()
