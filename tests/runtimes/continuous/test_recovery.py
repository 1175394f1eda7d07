"""Real Spark, real workers, real kills: a killed worker costs a restart and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.runtimes.continuous.runtime import ContinuousJob
from tests.waiting import wait_for

ROWS = 4_000
KEYS = 7
COUNTED = pa.schema([("k", pa.int64()), ("n", pa.int64())])


class Count(rh.KeyedProcessFunction):
    """Function that numbers the records of its key, and writes its process id for the test."""

    seen = rh.ValueState(int, default=0)

    def __init__(self, pids: Path) -> None:
        self.pids = pids

    def open(self) -> None:
        (self.pids / str(os.getpid())).touch()

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.seen.value += 1
        yield {"k": row.k, "n": self.seen.value}


def submit(spark: Any, pids: Path, out: Path | str, rows: int = ROWS, **settings: Any) -> rh.JobHandle:
    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_interval="100ms", **settings)
    numbers = rh.generator(
        lambda block: {"k": block.index() % KEYS}, count=rows, rate_per_s=1_000, splits=2
    )
    counted = env.from_source(numbers).key_by("k").process(Count(pids), returns=COUNTED)
    counted.sink_to(rh.files.sink(out))
    return env.execute_async("count")


def expected(rows: int = ROWS) -> list[tuple[int, int]]:
    per_key = pl.Series(list(range(rows // 2)) * 2) % KEYS
    return sorted((key, n + 1) for key in range(KEYS) for n in range(int((per_key == key).sum())))


def rows_in(out: Path) -> list[tuple[int, int]]:
    return sorted(pl.read_parquet(out / "*.parquet").rows())


def kill_one(pids: Path) -> None:
    """Send SIGKILL to one of the two workers that have opened since the last call."""
    wait_for(lambda: len(list(pids.iterdir())) >= 2)
    workers = sorted(pids.iterdir())
    os.kill(int(workers[0].name), signal.SIGKILL)
    for worker in workers:
        worker.unlink()


@pytest.mark.spark
@pytest.mark.slow
def test_killed_workers_change_no_row(spark: Any, tmp_path: Path) -> None:
    pids, out = tmp_path / "pids", tmp_path / "out"
    pids.mkdir()
    job = submit(spark, pids, out)
    for kills in (1, 2):
        before = job.status().checkpoints_completed
        wait_for(lambda before=before: job.status().checkpoints_completed > before + 1)  # type: ignore[misc]
        kill_one(pids)
        wait_for(lambda kills=kills: job.status().attempt > kills)  # type: ignore[misc]
    result = job.wait(400)
    assert result.status.restarts == 2
    assert rows_in(out) == expected()
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []


@pytest.mark.proves("Spark", faults=["a job is cancelled and started again"])
@pytest.mark.spark
def test_a_cancelled_job_resumes_when_started_again(spark: Any, tmp_path: Path) -> None:
    pids, out = tmp_path / "pids", tmp_path / "out"
    pids.mkdir()
    first = submit(spark, pids, out, checkpoint_dir=str(tmp_path / "checkpoints"))
    wait_for(lambda: first.status().checkpoints_completed > 3)
    profile = first.profile(1, "50ms")
    assert (profile.subtask, profile.samples) == (1, 5)
    assert all(stack.startswith("_loop (worker.py:") for stack in profile.stacks)
    first.cancel()
    assert first.status().state is rh.JobState.CANCELLED
    committed = rows_in(out)
    assert 0 < len(committed) < ROWS
    second = submit(spark, pids, out, checkpoint_dir=str(tmp_path / "checkpoints"))
    second.wait(400)
    assert rows_in(out) == expected()


@pytest.mark.spark
def test_a_raising_function_ends_the_job_with_its_line(spark: Any, tmp_path: Path) -> None:
    def halve(row: Any) -> dict[str, float]:
        return {"v": 1 / (row.v - 5)}

    env = rh.Environment(2, runtime="continuous", spark=spark)
    numbers = env.from_source(rh.collection([{"v": i} for i in range(10)]))
    halved = numbers.map(halve, returns=pa.schema([("v", pa.float64())]))
    halved.sink_to(rh.files.sink(tmp_path / "out"))
    with pytest.raises(rh.UserFunctionError) as raised:
        env.execute("halves")
    line = halve.__code__.co_firstlineno + 1
    first, *rest = str(raised.value).splitlines()
    assert first == f"{__file__}:{line}: operator 'map(halve)': ZeroDivisionError: division by zero"
    assert "  record: Row(v=5)" in rest
    (empty,) = (tmp_path / "out").glob("**/*.parquet")  # It has columns for readers, and no rows.
    assert pl.read_parquet(empty).shape == (0, 1)


@pytest.mark.spark
def test_a_job_runs_with_encryption(spark: Any, tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="continuous", spark=spark, encrypt=True)
    numbers = env.from_source(rh.collection([{"k": i % 3} for i in range(1000)]))
    numbers.key_by("k").running(n=rh.agg.count()).collect("counts")
    counts = pl.from_arrow(env.execute("counts").collected["counts"])
    assert isinstance(counts, pl.DataFrame)
    assert counts.group_by("k").agg(pl.col("n").max()).sort("k").rows() == [
        (0, 334),
        (1, 333),
        (2, 333),
    ]


@pytest.mark.spark
def test_a_master_with_too_few_slots_is_refused_at_once(spark: Any) -> None:
    env = rh.Environment(64, runtime="continuous", spark=spark)
    env.from_source(rh.collection([{"k": 1}])).collect("out")
    with pytest.raises(rh.ConfigurationError, match="needs 64 slots"):
        env.execute("wide")


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_continues_on_slots_that_have_restored_its_state(spark: Any, tmp_path: Path) -> None:
    """A prepared slot is killed, and then a worker: no row changes, and no process starts for it."""
    pids, out = tmp_path / "pids", tmp_path / "out"
    pids.mkdir()
    rows = 30_000
    job = submit(spark, pids, out, rows, restore_ahead=True)
    assert isinstance(job, ControlledJob)
    assert isinstance(job.job, ContinuousJob)
    master, slots = job.job.master, job.job._launcher._ahead

    def waiting() -> set[int]:
        """Return the processes of the slots that have restored a checkpoint."""
        if not master.prepared_for_restart or slots.stage is None:
            return set()
        return {process.pid for process in slots.stage.server.processes.values()}

    killed = wait_for(waiting)
    os.kill(min(killed), signal.SIGKILL)
    prepared = wait_for(lambda: waiting() - killed)
    assert job.status().attempt == 1
    kill_one(pids)
    wait_for(lambda: len(list(pids.iterdir())) == 2)
    assert {int(path.name) for path in pids.iterdir()} == prepared
    assert job.wait(400).status.restarts == 1
    assert rows_in(out) == expected(rows)
