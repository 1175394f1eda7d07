"""The main example's rows do not depend on how it is run, nor on what dies on the way."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import flights_oracle
import polars as pl
import pytest
from test_flights import EXAMPLE, assert_same_rows, run_example

import rheos as rh


def assert_found(out: Path) -> None:
    assert_same_rows(pl.read_parquet(out / "windows"), flights_oracle.windows())
    assert_same_rows(pl.read_parquet(out / "late"), flights_oracle.late())
    assert_same_rows(pl.read_parquet(out / "alerts"), flights_oracle.alerts())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_rows": 37, "buffer_timeout": 0, "checkpoint_interval": "50ms"},
        {"batch_rows": 5000, "buffer_timeout": -1, "checkpoint_interval": "1s", "credits": 1},
        {"batch_rows": 400, "buffer_timeout": "1ms", "checkpoint_interval": None},
    ],
    ids=["small and often", "full buffers, one credit", "no checkpoints"],
)
def test_no_setting_changes_a_row(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rh, "Environment", functools.partial(rh.Environment, **settings))
    run_example(monkeypatch, "--speed=max", "--parallelism=2", f"--out={tmp_path / 'out'}")
    assert_found(tmp_path / "out")


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the workers in /proc")
def test_workers_killed_several_times_change_no_row(tmp_path: Path) -> None:
    """As a stranger runs it: the command, in a process of its own, with a month in about 10 s."""
    out, said = tmp_path / "out", tmp_path / "said"
    with said.open("w") as saying:
        job = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("rheos")),
                *("run", "--checkpoint-interval", "250ms"),
                *(str(EXAMPLE), "--speed", "250000x", "--out", str(out)),
            ],
            stdout=saying,
            stderr=subprocess.STDOUT,
        )
    kills = 0
    seen: set[int] = set()
    while job.poll() is None:
        workers = [pid for pid in workers_of(job.pid) if pid not in seen]
        committed = out.exists() and any(out.glob("windows/*.parquet"))
        if len(workers) >= 2 and committed and kills < 3:
            # New ones have joined since the last kill; let them get somewhere.
            time.sleep(1.0)
            seen.update(workers)
            os.kill(workers[kills % 2], signal.SIGKILL)
            kills += 1
        time.sleep(0.05)
    assert job.returncode == 0, said.read_text()
    assert kills == 3
    assert "restarts 3" in said.read_text()
    assert_found(out)


def workers_of(root: int) -> list[int]:
    """The Python workers below a process: those that a PySpark daemon has forked."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                daemons.add(int(entry.name))
        except OSError:
            continue  # It has ended while we looked.
    return sorted(pid for pid in daemons if parents[pid] in daemons and is_below(pid, root, parents))


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root
