"""Processes that tests start: a job's driver, a Spark master with workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

from rheos.ops.chaos.processes import JobProcesses, ended_meanwhile
from tests.waiting import wait_for


class Started:
    """Processes that a test has started: at its end none of them, and of theirs, is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self.processes = JobProcesses()

    def python(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`python *arguments`; its output goes to a file of the test."""
        return self.command([sys.executable, *arguments])

    def command(self, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        with open(self._folder / f"output-{len(self._started)}", "wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TTY_COMPATIBLE": "0", **environment},
                start_new_session=True,
            )
        self._started.append(process)
        self.processes.add(process.pid)
        return process

    def output(self, of: subprocess.Popen[bytes]) -> str:
        return (self._folder / f"output-{self._started.index(of)}").read_text()

    def end(self) -> None:
        self.processes.look()
        for process in self.processes.alive():
            with ended_meanwhile():
                process.send_signal(signal.SIGKILL)
        for started in self._started:
            started.wait(30)


class Standalone:
    """A master with two workers, each of so many slots."""

    def __init__(self, tmp_path: Path, started: Started, cores: int = 1) -> None:
        self._started = started
        self._spark_class = str(Path(pyspark.__path__[0], "bin", "spark-class"))
        self.surroundings = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(tmp_path / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }
        master = self._runs("master.Master")
        found = wait_for(lambda: re.search(r"spark://127.0.0.1:\d+", started.output(master)))
        assert found is not None
        self.url = found[0]
        resources = ["--cores", str(cores), "--memory", "1g"]
        self.workers = [self._runs("worker.Worker", *resources, self.url) for _ in range(2)]

    def _runs(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        words = [self._spark_class, f"org.apache.spark.deploy.{kind}", *at, *arguments]
        return self._started.command(words, **self.surroundings)
