"""The batch programs do the same in Rheos and by hand, on input with the stated properties."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark import cloudpickle

from tests.spark_versions import is_since

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ROWS, USERS = 9_000, 20


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Any]:
    """Return the modules of `benchmarks/batch.py`, by name."""
    if not is_since("4.0"):
        pytest.skip("transformWithState, which the programs by hand use: since Spark 4.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        names = ("batch", "batch_input", "batch_programs")
        modules = {name: importlib.import_module(name) for name in names}
        # The workers of this session have started without that folder.
        cloudpickle.register_pickle_by_value(modules["batch_programs"])
        yield type("Benchmark", (), modules)
        cloudpickle.unregister_pickle_by_value(modules["batch_programs"])
        for name in (*names, "batch_side"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def made(benchmark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "events"
    assert benchmark.batch_input.write(benchmark.batch_input.Input(ROWS, USERS), folder) > 0
    return folder


def test_events_are_out_of_order_but_in_order_per_user(benchmark: Any, made: Path) -> None:
    given = benchmark.batch_input.Input(ROWS, USERS)
    events = pl.read_parquet(made / "*.parquet")
    assert events.height == ROWS
    assert events["at"].n_unique() == ROWS
    behind = (events["at"].cum_max() - events["at"]).dt.total_milliseconds()
    assert 0 < behind.max() <= given.disorder_ms  # type: ignore[operator]
    ascending = events.select(pl.col("at").diff().over("user").dt.total_milliseconds().min())
    assert ascending.item() > 0
    assert set(events["kind"].unique()) == set(benchmark.batch_input.KINDS)
    assert (events["price"] * 4 % 1 == 0).all()


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        "totals",
        "process",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("grep", "running", "hourly-kind", "hourly-user")
        ),
    ],
)
def test_both_engines_write_the_same_rows(
    name: str, benchmark: Any, made: Path, spark: Any, tmp_path: Path
) -> None:
    work = benchmark.batch_programs.WORK[name]
    disorder_ms = benchmark.batch_input.Input(ROWS, USERS).disorder_ms
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    found = {}
    for writing, program in {"rheos": work.rheos, **work.by_hand}.items():
        out = tmp_path / writing
        program(benchmark.batch_programs.Run(session, str(made), str(out), 2, disorder_ms))
        found[writing] = benchmark.batch.content(name, out)
    assert len(set(map(str, found.values()))) == 1, found
    assert found["rheos"]["rows"] > 0


def test_comparison_of_content_ignores_order(benchmark: Any, tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    other = pl.DataFrame({"b": ["y", "x", "y"], "a": [2.0, 1.0, 2.0]})
    wrong = pl.DataFrame({"a": [1, 2, 1], "b": ["x", "y", "y"]})
    contents = []
    for number, frame in enumerate((rows, other, wrong)):
        folder = tmp_path / str(number)
        folder.mkdir()
        frame.write_parquet(folder / "rows.parquet")
        contents.append(benchmark.batch.content("grep", folder))
    assert contents[0] == contents[1] != contents[2]
