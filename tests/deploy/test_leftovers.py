"""Files and processes that a job leaves on its machine, by the way it ended: none, or those that the
next job removes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proves(
        "local",
        faults=["the driver receives SIGTERM, SIGINT and SIGKILL", "a worker is killed"],
        slow_because="it ends a job in nine ways, each with its own Spark",
    ),
]

RHEOS = str(Path(sys.executable).parent / "rheos")
WITHIN_S = 400

JOB = """
import sys
from dataclasses import dataclass
import rheos as rh

@dataclass
class Counted:
    k: int
    n: int

how = sys.argv[1]

def checked(row) -> Counted:
    if how == "fails" and row.k == 7:
        raise ValueError("wrong")
    return Counted(row.k, row.n)

many = {} if how == "endless" else {"count": 2000}
env = rh.Environment(2, runtime="continuous", master="local[2]", checkpoint_interval="300ms",
    restart=rh.restart.fixed_delay(3, delay="100ms"))
source = rh.generator(lambda block: {"k": block.index() % 10}, rate_per_s=1000, splits=2, **many)
counted = env.from_source(source).key_by("k").running(n=rh.agg.count())
counted.map(checked).filter(rh.col("n") < 0).print()
env.execute("leftovers")
"""


KEPT = re.compile(
    r"home/jobs(/ended(/[\w-]+\.json)?)?|home/logs(/leftovers-\w+\.jsonl)?|home/dashboards|home/audit\.jsonl|"
    rf"tmp/rheos-spark-warehouse-{os.getuid()}"
)
"""The record and log of an ended job, the audit of the dashboard, folders of a name that is
known, and Spark's warehouse."""


class Machine:
    """Folders of a machine in which a job may leave something, separate for each test."""

    def __init__(self, base: Path, started: Started) -> None:
        self._started = started
        self._base = base
        self.temporary = base / "tmp"
        self.home = base / "home"
        for folder in (self.temporary, self.home):
            folder.mkdir()
        self._program = base / "job.py"
        self._program.write_text(JOB)
        self._environment = {
            "TMPDIR": str(self.temporary),
            "RHEOS_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self.temporary}",
        }
        self._shared_memory = set(os.listdir("/dev/shm"))

    def starts(self, how: str, *options: str) -> subprocess.Popen[bytes]:
        directory = str(self._base / "checkpoints")
        command = [RHEOS, "run", str(self._program), "--checkpoint-dir", directory, *options, "--", how]
        return self._started.command(command, **self._environment)

    def rheos(self, *arguments: str) -> None:
        done = subprocess.run(
            [RHEOS, *arguments],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        assert done.returncode == 0, done.stderr

    def runs(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until both slots of the job run."""

        def met() -> bool:
            assert process.poll() is None, self._started.output(process)
            return "leftovers: running" in self._started.output(process) and len(self.slots()) == 2

        wait_for(met)

    def ends(self, process: subprocess.Popen[bytes], code: int) -> None:
        def met() -> bool:
            self._started.processes.look()
            return process.poll() is not None

        wait_for(met)
        assert process.returncode == code, self._started.output(process)

    def slots(self) -> list[psutil.Process]:
        self._started.processes.look()
        return self._started.processes.slots()

    def nobody_lives(self) -> None:
        def met() -> bool:
            self._started.processes.look()
            return not self._started.processes.alive()

        wait_for(met)

    def left(self) -> list[str]:
        """Return the paths of everything that the job left, except what is kept on purpose."""
        found = [
            relative
            for folder in (self.temporary, self.home)
            for path in sorted(folder.rglob("*"))
            if not KEPT.fullmatch(relative := str(path.relative_to(self._base)))
        ]
        found += [
            f"/dev/shm/{name}"
            for name in set(os.listdir("/dev/shm")) - self._shared_memory
            if not name.startswith("PostgreSQL.")  # A server of another test of this machine.
        ]
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    started = Started(tmp_path)
    # Of a short path, so that sockets are below it.
    with tempfile.TemporaryDirectory(prefix="left-") as base:
        yield Machine(Path(base), started)
        started.end()


def finished(machine: Machine) -> None:
    machine.ends(machine.starts("finishes"), 0)


def served(machine: Machine) -> None:
    machine.ends(machine.starts("finishes", "--dashboard"), 0)


def failed(machine: Machine) -> None:
    machine.ends(machine.starts("fails"), 1)


def cancelled(machine: Machine) -> None:
    process = machine.starts("endless")
    machine.runs(process)
    machine.rheos("cancel", "leftovers")
    machine.ends(process, 0)


def stopped(machine: Machine) -> None:
    process = machine.starts("endless")
    machine.runs(process)
    machine.rheos("stop", "leftovers", "--savepoint")
    machine.ends(process, 0)


def interrupted(machine: Machine) -> None:
    process = machine.starts("endless")
    machine.runs(process)
    process.send_signal(signal.SIGINT)
    machine.ends(process, 130)


def killed_by(number: int) -> Callable[[Machine], None]:
    """Kill the driver with a signal that ends it at once. The next job and command remove what it
    leaves."""

    def end(machine: Machine) -> None:
        process = machine.starts("endless")
        machine.runs(process)
        process.send_signal(number)
        machine.ends(process, -number)
        machine.nobody_lives()
        machine.ends(machine.starts("finishes"), 0)
        machine.rheos("jobs")

    return end


def terminated(machine: Machine) -> None:
    process = machine.starts("endless")
    machine.runs(process)
    process.send_signal(signal.SIGTERM)
    machine.ends(process, 128 + signal.SIGTERM)


def worker_killed(machine: Machine) -> None:
    process = machine.starts("endless")
    machine.runs(process)
    machine.slots()[0].kill()
    machine.rheos("cancel", "leftovers")
    machine.ends(process, 0)


ENDS: dict[str, Callable[[Machine], None]] = {
    "finished": finished,
    "cancelled": cancelled,
    "stopped": stopped,
    "failed": failed,
    "interrupted": interrupted,
    "terminated": terminated,
    "dashboard": served,
    "worker": worker_killed,
    "driver": killed_by(signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_files_or_processes_are_left(machine: Machine, end: Callable[[Machine], None]) -> None:
    end(machine)
    machine.nobody_lives()
    left = machine.left()
    assert not left, "\n".join(left)
