"""Executors and drivers of a job are killed or paused: the alerts are the planted ones, each once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.protocol.ids import JobId
from rheos.ops.chaos.processes import JobProcesses, ended_meanwhile
from rheos.runtimes.host.stores import LocalStore
from tests.ops.chaos.conftest import ROOT, Started, wait_for
from tests.ops.chaos.example import EXAMPLE
from tests.ops.chaos.example import state_machine as job
from tests.processes import Standalone

VISITS = job.Visits(users=200, splits=2, seed=1)
ARGUMENTS = ["--users", "200", "--splits", "2", "--seed", "1"]


def command(
    tmp_path: Path, events: int, file: Path = EXAMPLE, rate: int = 5000, **options: str
) -> list[str]:
    given = {"parallelism": "2", "checkpoint-interval": "300ms", **options}
    said = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    own = [*ARGUMENTS, "--rate", str(rate), "--events", str(events), "--out", str(tmp_path / "out")]
    return [sys.executable, "-m", "rheos", "run", str(file), *said, "--", *own]


def faults_of(tmp_path: Path, events: int) -> list[str]:
    return job.faults(job.alerts_in(tmp_path / "out"), VISITS.planted(events))


def published(tmp_path: Path) -> int:
    return len([file for file in (tmp_path / "out").glob("part-*") if file.stat().st_size])


def more_published(tmp_path: Path, driver: subprocess.Popen[bytes], started: Started) -> None:
    """Wait until the job has published something new, so that it runs and completes checkpoints."""
    before = published(tmp_path)

    def met() -> bool:
        assert driver.poll() is None, started.output(driver)
        return published(tmp_path) > before

    wait_for(met)


def ends_well(driver: subprocess.Popen[bytes], started: Started) -> None:
    assert driver.wait(480) == 0, started.output(driver)


def with_descendants(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


@pytest.mark.proves(
    "local",
    faults=["an executor pauses, and continues as a zombie"],
    slow_because="every run has a worker that does so",
)
@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_a_paused_executor_is_fenced_and_another_is_killed(tmp_path: Path, started: Started) -> None:
    """The whole executor stops, so nothing can end its worker; a third executor takes over."""
    events, rng = 60_000, random.Random(11)
    own = ["--heartbeat-timeout", "2s"]
    driver = started.command(
        [*command(tmp_path, events, master="local-cluster[3,1,1024]", parallelism="2"), *own]
    )
    more_published(tmp_path, driver, started)
    started.processes.look()
    slots = started.processes.slots()
    assert len(slots) == 2
    zombie = rng.choice(slots)
    paused = with_descendants(zombie.parent().parent())  # type: ignore[union-attr]
    for process in paused:
        process.suspend()
    try:
        wait_for(lambda: _replaced(started.processes, paused))
        more_published(tmp_path, driver, started)
        assert zombie.is_running()
    finally:
        for process in paused:
            process.resume()
    # The executor responds again, and its worker leaves.
    wait_for(lambda: zombie not in _slots(started.processes))
    more_published(tmp_path, driver, started)
    busy = [worker.parent().parent() for worker in _slots(started.processes)]  # type: ignore[union-attr]
    rng.choice([executor for executor in busy if executor]).kill()
    more_published(tmp_path, driver, started)
    ends_well(driver, started)
    assert faults_of(tmp_path, events) == []


def _slots(processes: JobProcesses) -> list[psutil.Process]:
    processes.look()
    return processes.slots()


def _replaced(processes: JobProcesses, paused: list[psutil.Process]) -> bool:
    return len([worker for worker in _slots(processes) if worker not in paused]) == 2


@pytest.mark.proves(
    "standalone", faults=["an executor is killed"], slow_because="every run kills one with its machine"
)
@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_an_executor_of_a_standalone_master_is_killed(tmp_path: Path, started: Started) -> None:
    events, cluster = 40_000, Standalone(tmp_path, started)
    driver = started.command(
        command(tmp_path, events, master=cluster.url, checkpoint_dir=str(tmp_path / "checkpoints")),
        **cluster.surroundings,
    )
    more_published(tmp_path, driver, started)
    started.processes.look()
    random.Random(2).choice(started.processes.executors()).kill()
    more_published(tmp_path, driver, started)
    ends_well(driver, started)
    assert faults_of(tmp_path, events) == []


@pytest.mark.slow
@pytest.mark.proves(
    "standalone",
    faults=["a worker of Spark and its executors are killed"],
    slow_because="every run replaces a lost pod, and simulates jobs that lose slots for good",
)
@pytest.mark.spark
@pytest.mark.deploy
def test_a_job_continues_with_fewer_slots_after_losing_a_machine(
    tmp_path: Path, started: Started
) -> None:
    events, cluster = 24_000, Standalone(tmp_path, started)
    checkpoints = str(tmp_path / "checkpoints")
    driver = started.command(
        command(
            tmp_path,
            events,
            rate=2_000,
            master=cluster.url,
            checkpoint_dir=checkpoints,
            min_parallelism="1",
        ),
        **cluster.surroundings,
    )
    more_published(tmp_path, driver, started)
    # Spark's worker is killed first, as it would replace an executor that dies.
    for process in with_descendants(psutil.Process(cluster.workers[0].pid)):
        with ended_meanwhile():
            process.kill()
    more_published(tmp_path, driver, started)
    ends_well(driver, started)
    assert faults_of(tmp_path, events) == []
    log = JobLog(LocalStore(checkpoints), JobId("state-machine")).read()
    assert [kept.entry.parallelism for kept in log.completed][-1] == 1


KILLING = '''
"""The job, with a sink that dies in the middle of its first commit, in each kind of process."""
import os, signal, sys
from dataclasses import astuple
from pathlib import Path
sys.path.append({examples!r})
import state_machine as job
import rheos as rh
from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.sink import FileSink


os.environ["DRIVER"] = str(os.getpid())


class Dying(FileCommitter):
    def commit(self, committables):
        in_driver = os.environ["DRIVER"] == str(os.getpid())
        mark = Path({marks!r}, "2 in recovery" if in_driver else "1 in a worker")
        if not mark.exists():
            mark.touch()
            super().commit(committables[: len(committables) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(committables)


class DyingSink(FileSink):
    def committer(self):
        return Dying(self.path)


def dying(*args, **settings):
    return DyingSink(*astuple(made(*args, **settings)))


made, rh.files.sink = rh.files.sink, dying
raise SystemExit(job.main())
'''


@pytest.mark.proves(
    "local", faults=["a worker is killed during a commit, and the driver in its recovery"]
)
@pytest.mark.proves(
    "disk", faults=["a worker is killed during a commit, and the driver in its recovery"]
)
@pytest.mark.spark
@pytest.mark.deploy
def test_a_kill_before_the_commit_and_one_in_recovery(tmp_path: Path, started: Started) -> None:
    """A worker dies in its commit, then the driver dies in the recovery. The command is started
    again, and the alerts are the planted ones."""
    events = 20_000
    marks, file = tmp_path / "marks", tmp_path / "job.py"
    marks.mkdir()
    file.write_text(KILLING.format(examples=str(EXAMPLE.parent), marks=str(marks)))
    run = command(tmp_path, events, file=file, checkpoint_dir=str(tmp_path / "checkpoints"))
    first = started.command(run)
    assert first.wait(480) == -signal.SIGKILL, started.output(first)
    assert sorted(os.listdir(marks)) == ["1 in a worker", "2 in recovery"]
    second = started.command(run)
    ends_well(second, started)
    assert faults_of(tmp_path, events) == []


@pytest.mark.proves(
    "local",
    faults=["the driver is killed"],
    slow_because="every run kills the driver in its recovery",
)
@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_the_command_kills_workers_and_drivers_until_the_job_ends(
    tmp_path: Path, started: Started
) -> None:
    events = 24_000
    _, _, _, _, *options = command(
        tmp_path, events, rate=2000, checkpoint_dir=str(tmp_path / "checkpoints")
    )
    # With this seed the driver is killed first, then a worker: each driver means a start of Spark.
    strikes = ["--kill-every", "1s", "--strikes", "2", "--seed", "3", "--faults", "workers,driver"]
    chaos = started.command(
        [sys.executable, "-m", "rheos", "chaos", str(EXAMPLE), *strikes, *options[1:]]
    )
    assert chaos.wait(480) == 0, started.output(chaos)
    told = started.output(chaos)
    assert re.findall(r"SIGKILL  (\w+)", told) == ["driver", "worker"], told
    assert "the job is correct (exit code 0)" in told
    assert "left behind" not in told
    assert faults_of(tmp_path, events) == []


def test_driver_kills_need_a_checkpoint_directory() -> None:
    words = [sys.executable, "-m", "rheos", "chaos", str(EXAMPLE), "--faults", "driver"]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode == 2
    assert "a job whose driver is killed can resume only from a persistent checkpoint" in done.stderr
