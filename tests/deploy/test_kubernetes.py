"""Spark's Kubernetes master, against an API server of the tests: pods are lost and replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.deploy.kubernetes_api import Cluster, matches
from tests.processes import Started
from tests.waiting import wait_for

ROWS = 20_000
JOB = """
import sys
import rheos as rh

folder, stage = sys.argv[1:3]
env = rh.Environment(
    2, runtime="continuous", checkpoint_dir=folder + "/checkpoints", checkpoint_interval="500ms",
    restart=rh.restart.fixed_delay(1000, delay="200ms"),
)
source = rh.generator(lambda block: {"n": block.number()}, count=ROWS, rate_per_s=RATE, splits=2)
env.from_source(source).sink_to(rh.files.sink(folder + "/out"))
job = env.execute_async("numbers")
while True:
    try:
        result = job.wait(0.2)
        break
    except TimeoutError:
        status = job.status()
        print("checkpoints", status.checkpoints_completed, "restarts", status.restarts, flush=True)
        print("state", status.state.value, "failure", status.failure, flush=True)
        print("waits", *(wait.what for wait in status.waits), flush=True)
print("stage", result.status.stage)
print("over", result.status.restarts, flush=True)
"""
SETTINGS = {
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.kubernetes.container.image": "rheos",
    "spark.kubernetes.allocation.batch.delay": "200ms",
    "spark.kubernetes.executor.apiPollingInterval": "1s",
    "spark.kubernetes.executor.missingPodDetectDelta": "2s",
    "spark.kubernetes.executor.eventProcessingInterval": "200ms",
    "spark.executor.maxNumFailures": "100",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from clusters(tmp_path)


@pytest.fixture
def secure_cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from clusters(tmp_path, token="a-token")


def clusters(folder: Path, token: str = "") -> Iterator[Cluster]:
    (folder / "pods").mkdir()
    cluster = Cluster(folder / "pods", token=token)
    yield cluster
    cluster.close()


class Driver:
    """A driver of the job in client mode, as the chart starts it: `rheos run --master k8s://...`."""

    def __init__(
        self, folder: Path, started: Started, cluster: Cluster, rate: int = 2000, **settings: str
    ) -> None:
        self._started = started
        (folder / "job.py").write_text(JOB.replace("ROWS", str(ROWS)).replace("RATE", str(rate)))
        conf = folder / "conf"
        conf.mkdir(exist_ok=True)
        every = SETTINGS | cluster.settings | settings
        lines = [f"{name} {value}\n" for name, value in every.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        rheos = str(Path(sys.executable).parent / "rheos")
        command = [rheos, "run", str(folder / "job.py"), "--master", cluster.url, "--", str(folder), ""]
        self.process: subprocess.Popen[bytes] = started.command(
            command,
            SPARK_CONF_DIR=str(conf),
            SPARK_LOCAL_IP="127.0.0.1",
            PYSPARK_PYTHON=sys.executable,
        )

    @property
    def output(self) -> str:
        return self._started.output(self.process)

    def shows(self, text: str) -> None:
        def met() -> bool:
            assert self.process.poll() is None or text in self.output, self.output[-4000:]
            return text in self.output

        wait_for(met)

    def ends(self, code: int = 0) -> None:
        assert self.process.wait(400) == code, self.output[-6000:]


def rows(folder: Path) -> list[int]:
    return sorted(pl.read_parquet(folder / "out")["n"].to_list())


def test_selectors_match_as_in_kubernetes() -> None:
    labels = {"role": "executor", "id": "3"}
    assert matches(labels, "role=executor,inactive!=true,id in (1, 3)")
    assert not matches(labels, "role=executor,id in (1, 2)")
    assert not matches(labels, "role!=executor")
    assert matches(labels, "!inactive,role")
    assert not matches(labels, "!role")


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.parametrize(
    "reason",
    [
        pytest.param(
            "OOMKilled",
            marks=pytest.mark.proves(
                "Kubernetes", faults=["a pod is killed (OOMKilled), and replaced"]
            ),
        ),
        pytest.param(
            "Evicted",
            marks=[
                pytest.mark.slow,
                pytest.mark.proves(
                    "Kubernetes",
                    faults=["a pod is evicted, and replaced"],
                    slow_because="for Spark, an evicted pod is a killed one with another reason",
                ),
            ],
        ),
    ],
)
def test_a_lost_pod_is_replaced_and_costs_no_row(
    reason: str, tmp_path: Path, started: Started, cluster: Cluster
) -> None:
    driver = Driver(tmp_path, started, cluster, rate=1_500)
    driver.shows("checkpoints 2")
    first = cluster.names("Running")[0]
    cluster.lose(first, reason)
    driver.ends()
    assert "over 0" not in driver.output
    assert "barrier" in driver.output
    assert first in cluster.deleted, cluster.deleted
    assert rows(tmp_path) == list(range(ROWS))


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "Kubernetes",
    faults=["a pod is drained (SIGTERM) under dynamic allocation, and its replacement waits for room"],
    slow_because="every run loses a pod, and has dynamic allocation on local-cluster",
)
def test_a_job_reports_that_a_drained_pod_is_not_replaced_and_continues_later(
    tmp_path: Path, started: Started, secure_cluster: Cluster
) -> None:
    cluster = secure_cluster
    driver = Driver(tmp_path, started, cluster, **DYNAMIC)
    driver.shows("checkpoints 2")
    cluster.capacity = 1
    drained = cluster.names("Running")[0]
    cluster.drain(drained)
    driver.shows("1 of 2 workers have connected")
    cluster.capacity = 8
    cluster.schedule()
    driver.ends()
    assert "over 1" in driver.output
    assert "ordinary stage" in driver.output
    assert cluster.refused == 0
    assert rows(tmp_path) == list(range(ROWS))


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "Kubernetes",
    faults=["more pods are lost than Spark accepts, which ends its application"],
    slow_because="every run stops an application on one machine",
)
def test_a_job_ends_with_its_application(tmp_path: Path, started: Started, cluster: Cluster) -> None:
    driver = Driver(tmp_path, started, cluster, **{"spark.executor.maxNumFailures": "1"})
    driver.shows("checkpoints 2")
    for name in cluster.names("Running"):
        cluster.lose(name, "OOMKilled")
    driver.ends(1)
    assert "Spark's application has ended, which ends the job" in driver.output
