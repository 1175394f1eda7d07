"""Checkpoints on storage that is full, slow or tears writes: a checkpoint is complete or does not
exist, and the alerts are correct."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.checkpoint.log_entries import decode_entry
from rheos.core.protocol.ports import Store
from rheos.core.state import format as state_format
from rheos.runtimes.host.stores import LocalStore, open_store
from tests.ops.chaos.conftest import wait_for
from tests.ops.chaos.example import state_machine as job
from tests.ops.chaos.test_workers import checkpoints_later, wait_while_it_runs
from tests.ops.chaos.torn import faults_of

EVENTS = 60_000


@dataclass(frozen=True)
class Visits(job.Visits):  # type: ignore[name-defined, misc]
    """Visits of this module, so that a worker that imports the program also registers the file
    system."""


VISITS = Visits(users=4_000, splits=2, seed=1)
"""So many that their state does not fit into the log."""


def assert_whole(store: Store) -> int:
    """Check that every visible file can be read. Return their number."""
    count = 0
    for path in store.list(""):
        try:
            data = store.get(path)
        except FileNotFoundError:
            continue  # The file was deleted meanwhile.
        if "/log/" in path:
            decode_entry(data, path)
        elif "/state/" in path:
            state_format.decode(data, None)
        count += 1
    return count


@pytest.mark.spark
def test_a_full_disk_then_a_torn_and_slow_one(spark: Any, tmp_path: Path) -> None:
    root, out = tmp_path / "checkpoints", tmp_path / "out"
    faults = faults_of(root)
    faults.mkdir()
    env = rh.Environment(
        2,
        runtime="continuous",
        spark=spark,
        checkpoint_dir=f"torn://{root}",
        checkpoint_interval="500ms",
        restart=rh.restart.exponential_delay("100ms", max="300ms"),
    )
    job.build(env, VISITS, EVENTS, rate=3_000).sink_to(rh.files.sink(out, format="jsonl"))
    running = env.execute_async("state machine")
    store = open_store(f"torn://{root}")
    checkpoints_later(running, 2)

    (faults / "full").touch()
    wait_while_it_runs(running, lambda status: status.checkpoints_failed >= 1)
    wait_while_it_runs(running, lambda status: "No space left" in str(status.failure))
    assert assert_whole(store)
    (faults / "full").unlink()
    checkpoints_later(running, 2)

    for fault in ("torn", "slow"):
        (faults / fault).touch()
    before = running.status()
    wait_while_it_runs(
        running,
        lambda status: (
            (status.checkpoints_failed, status.restarts)
            > (before.checkpoints_failed + 2, before.restarts)
        ),
    )
    assert assert_whole(store)
    for fault in ("torn", "slow"):
        (faults / fault).unlink()
    checkpoints_later(running, 1)
    running.wait(480)
    assert assert_whole(store)
    assert job.faults(job.alerts_in(out), VISITS.planted(EVENTS)) == []


WRITING = """
import sys
from rheos.runtimes.host.stores import LocalStore
store = LocalStore(sys.argv[1])
for value in range(1_000_000):
    store.put("log/put", bytes([value % 256]) * (1 << 20))
    store.put_if_absent(f"log/{value}", bytes([value % 256]) * (1 << 20))
    if value == 1:
        print("writing", flush=True)
"""


def test_a_killed_writer_leaves_only_complete_files(tmp_path: Path) -> None:
    rng = random.Random(5)
    for attempt in range(4):
        root = tmp_path / str(attempt)
        writer = subprocess.Popen([sys.executable, "-c", WRITING, str(root)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        files = root / "log"
        target = len(list(files.glob("[0-9]*"))) + rng.randrange(1, 8)
        wait_for(lambda files=files, target=target: len(list(files.glob("[0-9]*"))) >= target)  # type: ignore[misc]
        writer.send_signal(signal.SIGKILL)
        writer.wait(30)
        writer.stdout.close()
        store = LocalStore(root)
        for path in store.list(""):
            data = store.get(path)
            assert len(data) == 1 << 20
            assert len(set(data)) == 1
        assert not [path for path in store.list("") if ".tmp-" in path]
