"""Applications that `spark-submit` runs on a YARN cluster; one of them is the state-machine job."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from getpass import getuser
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pyspark

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.ops.servers.hadoop import HadoopCluster
from tests.ops.chaos.example import EXAMPLE
from tests.ops.chaos.example import state_machine as example
from tests.processes import Started
from tests.waiting import wait_for

SPARK = Path(pyspark.__path__[0])
VISITS = example.Visits(users=200, splits=2, seed=1)
PROGRAM = f'''
"""The state-machine job. The hosts of a real cluster would share its folders."""
import sys

sys.path.append({str(EXAMPLE.parent)!r})
import rheos as rh
import state_machine as job

out, checkpoints, events, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
env = rh.Environment(
    2,
    runtime="continuous",
    checkpoint_dir=checkpoints,
    checkpoint_interval="300ms",
    heartbeat_timeout="5s",
    restart=rh.restart.exponential_delay(max="2s"),
)
visits = job.Visits(users=200, splits=2, seed=1)
job.build(env, visits, events, rate).sink_to(rh.files.sink(out, format="jsonl"), name="alerts")
env.execute("state machine")
'''
SETTINGS = {
    "spark.ui.enabled": "false",
    # The jars of the installed PySpark: a container of this machine need not receive them.
    "spark.yarn.jars": f"local:{SPARK / 'jars'}/*",
    "spark.executor.memoryOverhead": "384m",
    "spark.driver.memoryOverhead": "384m",
    "spark.yarn.am.memory": "384m",
    # A test loses more executors than a cluster does in an hour.
    "spark.executor.maxNumFailures": "100",
    "spark.yarn.maxAppAttempts": "2",
    **{
        f"spark.{of}Env.{name}": value
        for of in ("yarn.appMaster", "executor")
        for name, value in (("SPARK_LOCAL_IP", "127.0.0.1"), ("PYSPARK_PYTHON", sys.executable))
    },
}


class YarnApplications:
    """Programs that a test submits to a cluster."""

    def __init__(self, cluster: HadoopCluster, started: Started) -> None:
        self._cluster, self._started = cluster, started
        self._submitted: list[subprocess.Popen[bytes]] = []

    def submit_program(
        self, mode: str, program: Path, *arguments: str, more: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Submit a program in YARN's client or cluster mode, with further settings of Spark."""
        settings = {**SETTINGS, **more}
        command = [
            *(str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode),
            *("--num-executors", "2", "--executor-cores", "1"),
            *("--driver-memory", "512m", "--executor-memory", "512m"),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            *(str(program), *arguments),
        ]
        driver = self._started.command(
            command,
            HADOOP_CONF_DIR=str(self._cluster.settings),
            SPARK_LOCAL_IP="127.0.0.1",
            PYSPARK_PYTHON=sys.executable,
        )
        self._submitted.append(driver)
        return driver

    def ends_well(self, driver: subprocess.Popen[bytes]) -> None:
        assert driver.wait(480) == 0, self.said(driver)

    def said(self, driver: subprocess.Popen[bytes]) -> str:
        """Return the output of `spark-submit`, and of the application's containers."""
        logs = sorted((self._cluster.folder / "container-logs").glob("*/*/std*"))
        parts = [self._started.output(driver), *(f"{log}:\n{log.read_text()[-3000:]}" for log in logs)]
        return "\n".join(part[-6000:] for part in parts)

    def containers(self, main: str) -> list[psutil.Process]:
        """Return the JVMs of containers with this main class, oldest first."""
        return sorted(
            (
                each
                for each in self._processes()
                if main in each.info["cmdline"] and each.name() == "java"
            ),
            key=lambda process: process.create_time(),
        )

    def application_masters(self) -> list[psutil.Process]:
        return self.containers("org.apache.spark.deploy.yarn.ApplicationMaster")

    def executors(self) -> list[psutil.Process]:
        return self.containers("org.apache.spark.executor.YarnCoarseGrainedExecutorBackend")

    def _processes(self) -> Iterator[Any]:
        for process in psutil.process_iter(["cmdline", "environ"]):
            environment = process.info["environ"] or {}
            if environment.get("CONTAINER_ID") and str(self._cluster.folder) in environment.get(
                "PWD", ""
            ):
                yield process

    def attempts(self, driver: subprocess.Popen[bytes]) -> int:
        """Return the number of attempts that YARN has made to run the submitted application."""
        logs = self._cluster.folder / "container-logs" / self._application(driver)
        return len(list(logs.glob("container_*_000001")))

    def _application(self, driver: subprocess.Popen[bytes]) -> str:
        found = re.search(r"application_\d+_\d+", self._started.output(driver))
        return found[0] if found else "none"

    def end(self) -> None:
        """Kill the applications that have not ended, as after a failed test."""
        for driver in self._submitted:
            place = f"{self._cluster.yarn_url}/ws/v1/cluster/apps/{self._application(driver)}/state"
            killed = Request(
                f"{place}?user.name={getuser()}",
                data=b'{"state": "KILLED"}',
                headers={"Content-Type": "application/json"},
                method="PUT",
            )
            with contextlib.suppress(HTTPError), urlopen(killed, timeout=60):
                pass
        wait_for(lambda: not list(self._processes()), 60)


class YarnJob(YarnApplications):
    """The state-machine job, submitted to a cluster. Further submissions continue it."""

    def __init__(
        self,
        cluster: HadoopCluster,
        started: Started,
        folder: Path,
        events: int,
        rate: int = 2_000,
        root: str = "",
    ) -> None:
        """`root` is the folder or URL of output and checkpoints, `folder` by default."""
        super().__init__(cluster, started)
        self._events, self._rate = events, rate
        self._copy = folder / "copy"
        self.out, self.checkpoints = (f"{root or folder}/{name}" for name in ("out", "checkpoints"))
        self.program = folder / "job.py"
        self.program.write_text(PROGRAM)

    def submit(self, mode: str, **more: str) -> subprocess.Popen[bytes]:
        """Submit the job in YARN's client or cluster mode, with further settings of Spark."""
        arguments = self.out, self.checkpoints, str(self._events), str(self._rate)
        settings = {name.replace("_", "."): value for name, value in more.items()}
        return self.submit_program(mode, self.program, *arguments, more=settings)

    def more_published(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait until the job has published something new: it runs, and checkpoints complete."""
        before = self._published()

        def met() -> bool:
            assert driver.poll() is None, self.said(driver)
            return self._published() > before

        wait_for(met, 300)

    def _published(self) -> int:
        return len(self._files())

    def _files(self) -> list[str]:
        """Return the paths of the published files that have rows."""
        system, path = url_to_fs(self.out)
        if not system.exists(path):
            return []
        return [
            each["name"]
            for each in system.ls(path, detail=True)
            if each["name"].rpartition("/")[2].startswith("part-") and each["size"]
        ]

    def faults(self, *, ended: bool = True) -> list[str]:
        """Return the differences between the published alerts and the planted ones."""
        system, _ = url_to_fs(self.out)
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir()
        for file in self._files():
            (self._copy / file.rpartition("/")[2]).write_bytes(system.cat_file(file))
        found: list[str] = example.faults(
            example.alerts_in(self._copy), VISITS.planted(self._events), ended=ended
        )
        return found


def end_containers(cluster: HadoopCluster) -> None:
    """Kill the processes of containers that outlived their parents."""
    for process in psutil.process_iter(["environ"]):
        environment = process.info["environ"] or {}
        if process.pid != os.getpid() and str(cluster.folder) in environment.get("PWD", ""):
            process.kill()
