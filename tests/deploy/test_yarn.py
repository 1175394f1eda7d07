"""Jobs on YARN in client and cluster mode: commands from outside, killed containers, killed drivers."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rheos.ops.servers.hadoop import HadoopCluster
from tests.deploy.yarn import YarnJob, end_containers
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.deploy, pytest.mark.timeout(1_800)]

NODE = {"yarn.nodemanager.sleep-delay-before-sigkill.ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[HadoopCluster]:
    with HadoopCluster(settings=NODE) as cluster:
        yield cluster
        end_containers(cluster)


Submit = Callable[..., YarnJob]


@pytest.fixture
def new_job(tmp_path: Path, cluster: HadoopCluster, started: Started) -> Iterator[Submit]:
    """Return a function that makes a job of a number of events, in a folder or at a URL. Its
    applications end with the test."""
    made: list[YarnJob] = []

    def new(events: int, root: str = "") -> YarnJob:
        made.append(YarnJob(cluster, started, tmp_path, events, root=root))
        return made[-1]

    yield new
    for job in made:
        job.end()


def rheos(tmp_path: Path, *arguments: str) -> str:
    """Run a command with another home than the driver's, as on another host."""
    done = subprocess.run(
        [sys.executable, "-m", "rheos", *arguments],
        env={"PATH": "/usr/bin:/bin", "RHEOS_HOME": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.proves("YARN", slow_because="it starts HDFS, YARN, and Spark on them")
def test_commands_reach_a_driver_in_cluster_mode(tmp_path: Path, new_job: Submit) -> None:
    job = new_job(events=1_000_000)
    driver = job.submit("cluster")
    job.more_published(driver)
    name = f"state-machine@{job.checkpoints}"
    assert "state machine" in rheos(tmp_path, "jobs", "--checkpoint-dir", job.checkpoints)
    assert "running" in rheos(tmp_path, "status", name)
    assert "started" in rheos(tmp_path, "events", name)
    assert Path(rheos(tmp_path, "savepoint", name).strip()).is_dir()
    assert Path(rheos(tmp_path, "stop", name, "--savepoint").strip()).is_dir()
    job.ends_well(driver)
    assert job.faults(ended=False) == []


@pytest.mark.slow
@pytest.mark.proves(
    "YARN",
    faults=["an executor is killed in client mode"],
    slow_because="client mode differs from cluster mode only by the place of the driver",
)
def test_the_driver_runs_in_client_mode(new_job: Submit) -> None:
    job = new_job(events=20_000)
    driver = job.submit("client")
    job.more_published(driver)
    job.executors()[0].kill()
    job.ends_well(driver)
    assert job.faults() == []


@pytest.mark.slow
@pytest.mark.proves(
    "YARN",
    faults=["containers of executors are killed again and again"],
    slow_because="YARN needs seconds to replace a container",
)
def test_executors_are_killed_again_and_again(new_job: Submit) -> None:
    rng = random.Random(35)
    job = new_job(events=60_000)
    driver = job.submit("cluster")
    for _ in range(3):
        job.more_published(driver)
        rng.choice(job.executors()).kill()
    job.ends_well(driver)
    assert job.faults() == []
    assert job.attempts(driver) == 1


@pytest.mark.slow
@pytest.mark.proves(
    "YARN",
    faults=["an executor is killed, with checkpoints and output on the cluster's HDFS"],
    slow_because="it starts HDFS, YARN, and Spark on them",
)
@pytest.mark.proves("HDFS", slow_because="it starts HDFS, YARN, and Spark on them")
def test_checkpoints_and_output_are_on_the_hdfs_of_the_cluster(
    cluster: HadoopCluster, new_job: Submit
) -> None:
    job = new_job(events=20_000, root=f"{cluster.url}/orders")
    driver = job.submit("cluster")
    job.more_published(driver)
    job.executors()[0].kill()
    job.ends_well(driver)
    assert job.faults() == []


@pytest.mark.slow
@pytest.mark.proves(
    "YARN",
    faults=["the container of the driver is killed, and the next attempt continues"],
    slow_because="YARN starts the application a second time",
)
@pytest.mark.parametrize("victim", ["the container", "its JVM"])
def test_the_next_attempt_continues_the_job_of_a_killed_driver(victim: str, new_job: Submit) -> None:
    job = new_job(events=40_000)
    driver = job.submit("cluster")
    job.more_published(driver)
    (master,) = job.application_masters()
    (python,) = [each for each in master.children() if "job.py" in " ".join(each.cmdline())]
    for process in [master, python] if victim == "the container" else [master]:
        process.kill()
    wait_for(lambda: job.attempts(driver) == 2, 120)
    job.more_published(driver)
    job.ends_well(driver)
    assert job.faults() == []
