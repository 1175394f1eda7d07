"""Data on the cables between the machines of a job: no row is readable, unless encryption is off."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.eavesdropping import Eavesdropper
from tests.deploy.networks import Network, unavailable
from tests.deploy.numbers import Cluster
from tests.processes import Started

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proves(
        "standalone",
        faults=["the network is eavesdropped"],
        slow_because="it needs root, and network namespaces",
    ),
]

WITHIN_S = 300
SECRET = hashlib.sha256(b"of a row").hexdigest()
JOB = '''
"""Exchanges rows that hold a string that is not in the program: Spark sends that in the clear."""
import hashlib
import sys

import rheos as rh

def row(block):
    name = hashlib.sha256(b"of a row").hexdigest()
    return {"k": block.index(), "name": [name] * len(block.index())}

env = rh.Environment(
    4,
    runtime="continuous",
    checkpoint_dir=sys.argv[1],
    encrypt={"encrypted": None, "open": False}[sys.argv[2]],
)
rows = env.from_source(rh.generator(row, count=20_000, splits=4, rate_per_s=10_000))
rows.key_by("k").running(n=rh.agg.count(), last=rh.agg.max("name")).filter(rh.col("n") < 0).print()
env.execute("rows")
'''


@pytest.fixture
def network() -> Iterator[Network]:
    if (why := unavailable()) is not None:
        pytest.skip(why)
    made = Network()
    yield made
    made.close()


@pytest.fixture
def started(network: Network, tmp_path: Path) -> Iterator[Started]:
    processes = Started(tmp_path)
    yield processes
    processes.end()


def test_no_row_is_readable_on_a_cable_unless_encryption_is_off(
    network: Network, started: Started, tmp_path: Path
) -> None:
    cluster = Cluster(network, tmp_path, started)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    rheos = str(Path(sys.executable).parent / "rheos")
    settings = f"--conf spark.driver.host={network.address} --conf spark.cores.max=4"
    heard = {}
    for how in ("encrypted", "open"):
        command = [rheos, "run", str(job), "--master", cluster.url, str(tmp_path / how), how]
        with Eavesdropper([host.cable for host in cluster.hosts], SECRET.encode()) as listening:
            driver = started.command(
                command,
                **cluster.surroundings(network.address),
                PYSPARK_SUBMIT_ARGS=f"{settings} pyspark-shell",
            )
            assert driver.wait(WITHIN_S) == 0, started.output(driver)[-4000:]
        assert listening.frames > 100
        heard[how] = listening.heard > 0
    # That it is heard in the second job shows that the first could have been heard.
    assert heard == {"encrypted": False, "open": True}
