"""The JVM of Spark's driver and the daemon of its Python workers, started while Python still imports
what the program is made of.

Each takes a second or two. So the command that runs a program starts them first of all, where the
program will likely need them, and the session that Rheos makes takes them over. Nothing else sees them:
a program that makes a session of its own gets a JVM of its own. They are taken over only if they are
what would be started then, and are killed where they are not, or when the command ends.
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
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.core.errors import ConfigurationError
from rheos.runtimes.host.scratch import OwnedFolder
from rheos.runtimes.spark.daemon_ahead import DaemonAhead
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
"""Matches programs that need no JVM, or make a session of their own."""
_ANOTHER = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE")
"""If one of these is set, the JVM already runs, or none is needed."""
_LOOK_EVERY_S = 0.01


class _Jvm:
    """A process that will say at which port it listens."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
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
            stdin=subprocess.PIPE,  # It ends when this does.
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                **local_environment(),
                "SPARK_HOME": str(spark_home()),  # The script would start a Python to find it.
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._said),
            },
            # Ctrl-C is for Python.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

        self._heard = threading.Event()
        threading.Thread(target=self._pass_on, name="rheos-jvm-stderr", daemon=True).start()

    def _pass_on(self) -> None:
        """Pass on what it says, once it is taken over: its log to the job's log, all else as it is."""
        assert self.process.stderr is not None
        sorted_lines = JvmLines()
        with self.process.stderr as lines:
            for line in lines:
                self._heard.wait()
                text = line.decode(errors="replace").rstrip("\n")
                logged = sorted_lines.level(text)
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
        said = self._said.read_bytes()
        port, length = struct.unpack_from(">ii", said)
        # As `spark-submit` does where it runs a program.
        there = {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": said[8 : 8 + length].decode(),
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
        """It is taken over."""
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
_daemon: DaemonAhead | None = None


def start(program: str, runtime: str, master: str) -> bool:
    """Start both for the program of that text, where that is likely right, and return whether they
    start: `runtime` and `master` are what the command says. Whatever prevents it is reported when a
    session is made."""
    global _jvm, _daemon
    needs_none = runtime == "simulated" or _NEEDS_NONE.search(program) is not None
    another = any(name in os.environ for name in _ANOTHER)
    another |= not master.startswith("local") or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if needs_none or another:
        return False
    atexit.register(discard)  # Ctrl-C may come before anything else would do it.
    with contextlib.suppress(ConfigurationError, OSError, AssertionError):
        # Also one that is to write the archive of Spark's classes: if it is killed, it writes none.
        # If Python is killed in these seconds, the archive has few classes, and starts stay slower.
        _jvm = _Jvm(jvm_settings(require_java()))
        if workers_run_this_python():
            _daemon = DaemonAhead()
    return _jvm is not None


def take_jvm(conf: SparkConf) -> JavaGateway | None:
    """The gateway to the JVM that was started, if it is what a session of `conf` needs. Else it is
    killed."""
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


def take_daemon() -> DaemonAhead:
    """The daemon that was started, or a new one where that is not what would be started now."""
    global _daemon
    daemon, _daemon = _daemon, None
    if daemon is not None and daemon.surroundings != surroundings():
        daemon.close()
        daemon = None
    return daemon or DaemonAhead()


def discard() -> None:
    """Nobody will need them."""
    global _jvm, _daemon
    jvm, _jvm = _jvm, None
    daemon, _daemon = _daemon, None
    if jvm is not None:
        jvm.kill()
    if daemon is not None:
        daemon.discard()
