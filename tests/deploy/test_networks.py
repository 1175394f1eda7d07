"""A job over a standalone master and two workers, each on a host of its own, whose cables are pulled.

What travels between them is encrypted: between machines it is so by default.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.deploy.networks import Host, Network, unavailable
from tests.processes import Started, wait_for

pytestmark = pytest.mark.spark

KEYS, ROWS = 7, 3_000
JOB = '''
"""Counts the rows of each key, and tells how far it is."""
import json
import sys

import pyarrow as pa
import rheos as rh

out, checkpoints, rows, rate, said = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
env = rh.Environment(
    2,
    runtime="continuous",
    checkpoint_dir=checkpoints,
    checkpoint_interval="300ms",
    heartbeat_timeout="3s",
    restart=rh.restart.fixed_delay(1000, delay="200ms"),
)
numbers = env.from_source(
    rh.generator(
        lambda block: {"k": block.index() % 7}, count=rows, splits=2, rate_per_s=rate
    )
)
numbers.key_by("k").running(n=rh.agg.count()).sink_to(rh.files.sink(out))
job = env.execute_async("numbers")
while True:
    try:
        result = job.wait(0.2)
        break
    except TimeoutError:
        status = job.status()
    with open(said, "w") as file:
        json.dump([sum(o.records_out for o in status.operators), status.restarts], file)
with open(said + ".end", "w") as file:
    json.dump([result.status.restarts, result.status.strangers], file)
'''


class Cluster:
    """The driver and the master are on this process's own host, each worker on one of its own."""

    def __init__(self, network: Network, folder: Path, started: Started) -> None:
        self._network = network
        self._folder = folder
        self._started = started
        spark_class = str(Path(pyspark.__path__[0], "bin", "spark-class"))
        port = 20_000 + os.getpid() % 10_000
        self.url = f"spark://{network.address}:{port}"
        self.surroundings = {
            "SPARK_LOCAL_IP": network.address,
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }
        at = ["--host", network.address, "--port", str(port), "--webui-port", "0"]
        master = [spark_class, "org.apache.spark.deploy.master.Master", *at]
        self._master = started.command(master, **self.surroundings)
        wait_for(lambda: "started" in started.output(self._master).lower())
        self.hosts = [network.host() for _ in range(2)]
        for host in self.hosts:
            self._worker(spark_class, host)

    def _worker(self, spark_class: str, host: Host) -> None:
        at = ["--host", host.address, "--port", "0", "--webui-port", "0", "--cores", "2"]
        words = ["org.apache.spark.deploy.worker.Worker", *at, "--memory", "1g", self.url]
        here = {**self.surroundings, "SPARK_LOCAL_IP": host.address}
        self._started.command(host.within([spark_class, *words]), **here)

    def run(self, rows: int, rate_per_s: int) -> Run:
        return Run(self._started, self._folder, self.url, self.surroundings, rows, rate_per_s)


class Run:
    def __init__(
        self,
        started: Started,
        folder: Path,
        url: str,
        surroundings: dict[str, str],
        rows: int,
        rate_per_s: int,
    ) -> None:
        self._rows = rows
        self._out, self._said = folder / "out", folder / "said"
        job = folder / "job.py"
        job.write_text(JOB)
        words = [
            str(self._out),
            str(folder / "checkpoints"),
            str(rows),
            str(rate_per_s),
            str(self._said),
        ]
        here = surroundings["SPARK_LOCAL_IP"]
        rheos = str(Path(sys.executable).parent / "rheos")
        self._started = started
        self._driver = started.command(
            [rheos, "run", str(job), "--master", url, *words],
            **surroundings,
            PYSPARK_SUBMIT_ARGS=f"--conf spark.driver.host={here} pyspark-shell",
        )

    def has_read(self, rows: int) -> None:
        wait_for(lambda: self._progress()[0] >= rows, 400)

    def has_restarted(self) -> None:
        wait_for(lambda: self._progress()[1] > 0, 400)

    def _progress(self) -> list[int]:
        assert self._driver.poll() is None, self._started.output(self._driver)[-4000:]
        try:
            found: list[int] = json.loads(self._said.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return [0, 0]
        return found

    def ends_exactly(self) -> tuple[int, int]:
        """(restarts, strangers) of the run."""
        import polars as pl

        assert self._driver.wait(400) == 0, self._started.output(self._driver)[-4000:]
        frame = pl.read_parquet(f"{self._out}/**/*.parquet")
        counted = sorted(zip(frame["k"].to_list(), frame["n"].to_list(), strict=True))
        # Two splits, of which each counts its own rows from 0.
        halves = [self._rows - self._rows // 2, self._rows // 2]
        per_key = [sum(len(range(key, half, KEYS)) for half in halves) for key in range(KEYS)]
        assert counted == [(key, n + 1) for key in range(KEYS) for n in range(per_key[key])]
        restarts, strangers = json.loads(self._said.with_suffix(".end").read_text())
        return restarts, strangers


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if (why := unavailable()) is not None:
        pytest.skip(why)
    started = Started(tmp_path)
    network = Network()
    try:
        yield Cluster(network, tmp_path, started)
    finally:
        started.end()
        network.close()


def test_a_worker_that_was_cut_off_for_a_while_changes_no_row(cluster: Cluster) -> None:
    run = cluster.run(ROWS, 300)
    run.has_read(600)
    cluster.hosts[0].unplug()
    run.has_restarted()
    cluster.hosts[0].plug()
    restarts, strangers = run.ends_exactly()
    assert (restarts > 0, strangers) == (True, 0)


@pytest.mark.slow
def test_a_slow_and_lossy_link_changes_no_row(cluster: Cluster) -> None:
    if (why := unavailable(netem=True)) is not None:
        pytest.skip(why)
    for host in cluster.hosts:
        host.worsen("delay", "40ms", "10ms", "loss", "2%")
    cluster.run(ROWS, 1_000).ends_exactly()
