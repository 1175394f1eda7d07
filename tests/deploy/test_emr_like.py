"""A job as on EMR: YARN in cluster mode, dynamic allocation, checkpoints and output on S3.

The first version of the job loses an executor and its driver, and is stopped with a savepoint. The
second version continues from it, and loses an executor, too. No order is lost or counted twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.ops.servers.hadoop import HadoopCluster
from tests.connectors.store_servers import new_bucket
from tests.deploy.yarn import YarnApplications, end_containers
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.proves(
        "YARN",
        faults=["dynamic allocation, checkpoints on S3: executors and the driver are killed"],
        slow_because="it starts HDFS, YARN, and Spark on them",
    ),
]

SHOPS = 7
UNTIL_STOPPED = 1_000_000
"""Number of orders that the first version would read."""
MORE = 4_000
"""Number of orders that the second version reads."""
PROGRAM = '''
"""Numbers the orders of each shop. The second version of the job has further state."""
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh

VERSION = {version}
bucket, count, *savepoint = sys.argv[1:]


@dataclass
class Order:
    id: int
    shop: int


@dataclass
class Numbered:
    id: int
    shop: int
    n: int
    version: int
    later: int


class Number(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)
    if VERSION == 2:
        later = rh.ValueState(int, default=0)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Numbered]:
        self.n.value += 1
        later = 0
        if VERSION == 2:
            self.later.value += 1
            later = self.later.value
        yield Numbered(order.id, order.shop, self.n.value, VERSION, later)


def new_order(block: rh.Block):
    id = 2 * block.index() + block.split
    return {{"id": id, "shop": id % {shops}}}


env = rh.Environment(
    2,
    runtime="continuous",
    checkpoint_dir=f"{{bucket}}/checkpoints",
    checkpoint_interval="500ms",
    heartbeat_timeout="5s",
    restart=rh.restart.exponential_delay(max="2s"),
    from_savepoint=savepoint[0] if savepoint else None,
)
made = rh.generator(new_order, count=int(count), rate_per_s=500, schema=Order, splits=2)
orders = env.from_source(made, name="orders", uid="orders")
numbered = orders.key_by("shop").process(Number()).uid("numbers")
numbered.sink_to(rh.files.sink(f"{{bucket}}/out", format="jsonl"), name="out", uid="out")
env.execute("orders")
'''
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[HadoopCluster]:
    with HadoopCluster(settings={"yarn.nodemanager.sleep-delay-before-sigkill.ms": 100}) as cluster:
        yield cluster
        end_containers(cluster)


@pytest.fixture(
    params=[
        pytest.param(
            kind, marks=pytest.mark.proves(kind, slow_because="it starts HDFS, YARN, and Spark on them")
        )
        for kind in ("moto", "versitygw")
    ]
)
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with new_bucket(request.param, tmp_path, monkeypatch) as url:
        yield url


@pytest.fixture
def access(bucket: str) -> dict[str, str]:
    """Return the variables by which the S3 server is reached: containers receive none by themselves."""
    names = [name for name in os.environ if name.startswith("AWS_")]
    return {name: os.environ[name] for name in names}


class Orders(YarnApplications):
    """The job of the orders."""

    def __init__(
        self,
        cluster: HadoopCluster,
        started: Started,
        folder: Path,
        bucket: str,
        access: dict[str, str],
    ) -> None:
        super().__init__(cluster, started)
        self._folder, self._bucket = folder, bucket
        self._settings = DYNAMIC | {
            f"spark.{of}Env.{name}": value
            for of in ("yarn.appMaster", "executor")
            for name, value in access.items()
        }

    def submit(self, version: int, count: int, *savepoint: str) -> subprocess.Popen[bytes]:
        program = self._folder / f"orders_v{version}.py"
        program.write_text(PROGRAM.format(version=version, shops=SHOPS))
        return self.submit_program(
            "cluster", program, self._bucket, str(count), *savepoint, more=self._settings
        )

    def rows(self) -> list[dict[str, int]]:
        """Return the published rows."""
        system, path = url_to_fs(f"{self._bucket}/out")
        system.invalidate_cache()
        files = [file for file in system.find(path) if "/." not in file and file != path]
        return [json.loads(line) for file in files for line in system.cat_file(file).splitlines()]

    def more_published(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait until the job has published more rows: it runs, and checkpoints complete."""
        before = len(self.rows())

        def met() -> bool:
            assert driver.poll() is None, self.said(driver)
            return len(self.rows()) > before

        wait_for(met, 300)


def rheos(*arguments: str) -> str:
    """Run a command of a user, whose credentials are in the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "rheos", *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_job_is_killed_upgraded_and_killed_again(
    tmp_path: Path,
    cluster: HadoopCluster,
    started: Started,
    bucket: str,
    access: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "elsewhere"))
    orders = Orders(cluster, started, tmp_path, bucket, access)
    try:
        first = orders.submit(1, UNTIL_STOPPED)
        orders.more_published(first)
        orders.executors()[0].kill()
        orders.more_published(first)
        (master,) = orders.application_masters()
        for process in [master, *master.children(recursive=True)]:
            process.kill()
        wait_for(lambda: orders.attempts(first) == 2, 240)
        orders.more_published(first)
        job = f"orders@{bucket}/checkpoints"
        savepoint = rheos("stop", job, "--savepoint")
        orders.ends_well(first)
        assert savepoint.startswith(f"{bucket}/checkpoints/")
        before = orders.rows()
        count = len(before) + MORE
        second = orders.submit(2, count, savepoint)
        orders.more_published(second)
        orders.executors()[-1].kill()
        orders.ends_well(second)
    finally:
        orders.end()
    rows = orders.rows()
    assert sorted(row["id"] for row in rows) == list(range(count))
    per_shop = [sum(id % SHOPS == shop for id in range(count)) for shop in range(SHOPS)]
    assert sorted((row["shop"], row["n"]) for row in rows) == [
        (shop, n + 1) for shop in range(SHOPS) for n in range(per_shop[shop])
    ]
    assert {row["version"] for row in before} == {1}
    new = [row for row in rows if row["version"] == 2]
    assert len(rows) == len(before) + len(new)
    assert sorted(row["n"] - row["later"] for row in new if row["shop"] == 0) == [
        sum(row["shop"] == 0 for row in before)
    ] * sum(row["shop"] == 0 for row in new)
