"""A job over a standalone master and workers, on separate hosts whose cables are unplugged. Traffic
between them is encrypted, which is the default between machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.cables import Quality
from tests.deploy.networks import Network, unavailable
from tests.deploy.numbers import Cluster
from tests.processes import Started

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proves(
        "standalone",
        faults=[
            "a worker loses its network and returns",
            "the driver loses its network, and another takes over",
            "links that delay, reorder and lose frames",
        ],
        slow_because="it needs root, and network namespaces",
    ),
]

ROWS = 3_000
WATCHED = 30
"""So many checkpoints take longer than a silent driver is watched."""
WORSE = Quality(delay_ms=40, jitter_ms=10, loss=0.05)


@pytest.fixture
def network() -> Iterator[Network]:
    """Create a network, which is removed after the processes in it."""
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


def test_a_worker_that_was_cut_off_for_a_while_changes_no_row(
    network: Network, started: Started, tmp_path: Path
) -> None:
    cluster = Cluster(network, tmp_path, started)
    run = cluster.run(ROWS, 300)
    run.has_read(600)
    host = cluster.host_of_a_slot()
    host.unplug()
    run.has_restarted()
    host.plug()
    restarts, strangers = run.ends_exactly()
    assert (restarts > 0, strangers) == (True, 0)


def test_a_driver_that_was_cut_off_finds_its_job_taken_over_and_stops(
    network: Network, started: Started, tmp_path: Path
) -> None:
    """Check a driver that loses the network, and with it the store; another takes over; the first
    returns."""
    shared, dead = tmp_path / "shared", tmp_path / "dead"
    shared.mkdir()
    dead.mkdir()
    for name in ("checkpoints", "out"):
        (dead / name).touch()  # So whatever is looked for below them gives an OSError.

    cluster = Cluster(network, tmp_path, started, workers=1, cores=4)
    host = network.host()
    first = cluster.run(ROWS // 2, 150, on=host, folder="shared")
    first.has_read(300)
    owner = first.log()[-1].owner
    host.unplug()
    host.cover(first.driver.pid, shared, by=dead)

    second = cluster.run(ROWS // 2, 150, on=network.host(), folder="shared")
    second.checkpointed_after(owner)
    taken = len(first.log())
    host.uncover(first.driver.pid, shared)
    host.plug()

    assert first.driver.wait(400) == 1, first.output()[-4000:]
    # Said once, as the end: it does not claim to restart.
    assert first.output().count("another driver now runs the job 'numbers' in") == 1
    assert "run a job from one driver at a time, or give each job its own name" in first.output()
    assert f"the job was last run by process 1 on host {host.name}" in second.output()
    second.ends_exactly()
    assert {entry.owner for entry in second.log()[taken - 1 :]}.isdisjoint({owner})


def test_a_standby_takes_over_after_a_partition_without_two_leaders(
    network: Network, started: Started, tmp_path: Path
) -> None:
    """Check two hosts that lose network and store: first that of the standby, which does not take over;
    then that of the leader, which returns and finds its job taken."""
    shared, dead = tmp_path / "shared", tmp_path / "dead"
    shared.mkdir()
    dead.mkdir()
    for name in ("checkpoints", "out"):
        (dead / name).touch()

    cluster = Cluster(network, tmp_path, started, workers=1, cores=4)
    here, there = network.host(), network.host()
    first = cluster.run(ROWS, 30, on=here, folder="shared", standby=True)
    first.has_read(30)
    owner = first.log()[-1].owner
    second = cluster.run(ROWS, 30, on=there, folder="shared", standby=True)
    second.stands_by()

    there.unplug()
    there.cover(second.driver.pid, shared, by=dead)
    first.has_written(len(first.log()) + WATCHED)
    there.uncover(second.driver.pid, shared)
    there.plug()
    first.has_written(len(first.log()) + WATCHED)
    assert {entry.owner for entry in first.log()} == {owner}

    here.unplug()
    here.cover(first.driver.pid, shared, by=dead)
    second.checkpointed_after(owner)
    taken = len(second.log())
    here.uncover(first.driver.pid, shared)
    here.plug()
    assert first.driver.wait(400) == 1, first.output()[-4000:]
    assert "another driver now runs the job 'numbers' in" in first.output()
    assert f"process 1 on host {here.name} was lost: taking over the job" in second.output()

    second.ends_exactly()
    assert {entry.owner for entry in second.log()[taken - 1 :]}.isdisjoint({owner})


def test_a_slow_and_lossy_link_changes_no_row(
    network: Network, started: Started, tmp_path: Path
) -> None:
    """Check frames that are late, reordered and lost: connections and leases survive that."""
    if (why := unavailable(WORSE)) is not None:
        pytest.skip(why)
    cluster = Cluster(network, tmp_path, started, quality=WORSE)
    cluster.run(ROWS, 1_000).ends_exactly()
    lost = [host.worse.lost for host in cluster.hosts if host.worse is not None]
    assert sum(lost) > 5
