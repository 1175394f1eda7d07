"""Whole runs of a files sink, one after the other: existing rows are never duplicated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos import testing
from tests.api.programs import refused

RUNTIMES = [
    "simulated",
    pytest.param("batch", marks=pytest.mark.spark),
    pytest.param("continuous", marks=pytest.mark.spark),
]


def write(folder: Path, count: int, runtime: str = "simulated", **settings: Any) -> None:
    env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
    numbers = rh.generator(lambda block: {"n": block.index()}, count=40, splits=1)
    rows = env.from_source(numbers).filter(rh.col("n") < count)
    rows.sink_to(rh.files.sink(folder, **settings), name="out")
    env.execute("numbers")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_second_run_is_refused_adds_or_replaces(runtime: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, 0, runtime)
    assert pl.read_parquet(out).schema == {"n": pl.Int64}
    write(out, 30, runtime)
    refused(
        lambda: write(out, 30, runtime),
        rh.ConfigurationError,
        "), but this job starts from scratch",
        'mode="overwrite"',
        at="rows.sink_to",
    )
    assert pl.read_parquet(out).height == 30
    write(out, 30, runtime, mode="append")
    assert pl.read_parquet(out).height == 60
    write(out, 20, runtime, mode="overwrite")
    assert pl.read_parquet(out).height == 20
    (out / "mine.parquet").touch()
    refused(
        lambda: write(out, 30, runtime, mode="overwrite"),
        rh.ConfigurationError,
        'contains files of another origin (mine.parquet), which mode="overwrite" does not delete',
        "delete them yourself if you do not need them, or choose another folder",
        at="rows.sink_to",
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_successive_attempts_and_drivers_are_one_run(mode: str, tmp_path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=400, rate_per_s=200, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.files.sink(tmp_path / f"{mode}-{seed}", mode=mode))  # type: ignore[arg-type]
        return rows

    for seed in range(4):
        done = testing.simulate(
            numbers, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5)
        )
        assert done.out.num_rows == 400
        # What a worker stages that has outlived its driver stays below a hidden folder.
        published = pl.read_parquet(tmp_path / f"{mode}-{seed}" / "*.parquet")
        assert published["n"].sort().to_list() == list(range(400))
