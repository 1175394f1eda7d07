"""Spark's Kubernetes master, against an API server of the tests: a pod is lost and replaced."""

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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "pods").mkdir()
    cluster = Cluster(tmp_path / "pods")
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
        lines = [f"{name} {value}\n" for name, value in (SETTINGS | settings).items()]
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
@pytest.mark.proves("Kubernetes", faults=["a pod is killed (OOMKilled), and replaced"])
def test_a_lost_pod_is_replaced_and_costs_no_row(
    tmp_path: Path, started: Started, cluster: Cluster
) -> None:
    driver = Driver(tmp_path, started, cluster)
    driver.shows("checkpoints 2")
    first = cluster.names("Running")[0]
    cluster.lose(first, "OOMKilled")
    driver.ends()
    assert "over 0" not in driver.output
    assert "barrier" in driver.output
    assert first in cluster.deleted, cluster.deleted
    assert rows(tmp_path) == list(range(ROWS))
