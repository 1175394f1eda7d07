"""The main example's rows do not depend on its settings, or on processes that die during the run."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.ops.chaos.processes import JobProcesses
from tests.equivalence import flights_oracle
from tests.equivalence.test_flights import EXAMPLE, assert_same_rows, run_example


def assert_found(out: Path) -> None:
    assert_same_rows(pl.read_parquet(out / "windows"), flights_oracle.windows())
    assert_same_rows(pl.read_parquet(out / "late"), flights_oracle.late())
    assert_same_rows(pl.read_parquet(out / "alerts"), flights_oracle.alerts())


@pytest.mark.spark
@pytest.mark.slow
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
@pytest.mark.slow
def test_workers_killed_several_times_change_no_row(tmp_path: Path) -> None:
    """Runs the command as a user does, in its own process, with a month of flights in about 10 s."""
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
    kills = seen = 0
    processes = JobProcesses()
    processes.add(job.pid)
    while job.poll() is None:
        processes.look()
        workers = processes.slots()
        committed = len(list(out.glob("windows/*.parquet")))
        # All slots are filled again since the last kill, and have made progress.
        if len(workers) >= 2 and committed > seen and kills < 3:
            workers[kills % 2].kill()
            kills, seen = kills + 1, committed
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(0.05)
    assert job.returncode == 0, said.read_text()
    assert kills == 3
    assert "restarts 3" in said.read_text()
    assert_found(out)
