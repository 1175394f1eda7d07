"""The main example computes the oracle's complete result, on every runtime and at every parallelism."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.equivalence import flights_oracle

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.py"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("runtime", "parallelism"),
    [("batch", 1), ("batch", 3), ("continuous", 1), ("continuous", 3)],
)
def test_the_example_agrees_with_the_oracle(
    runtime: str, parallelism: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    run_example(
        monkeypatch,
        "--speed=max",
        f"--runtime={runtime}",
        f"--parallelism={parallelism}",
        f"--out={out}",
    )
    assert_same_rows(pl.read_parquet(out / "windows"), flights_oracle.windows())
    assert_same_rows(pl.read_parquet(out / "late"), flights_oracle.late())
    assert_same_rows(pl.read_parquet(out / "alerts"), flights_oracle.alerts())


def test_the_oracle_has_rows_of_every_kind() -> None:
    """Late and partly late departures, alerts, and windows of every airport exist, so no comparison
    is of empty results."""
    rows = flights_oracle.per_window()
    per_departure = rows.group_by("row").agg(all=pl.col("late").all(), some=pl.col("late").any())
    assert rows["row"].n_unique() == 26_483
    assert per_departure["all"].sum() == flights_oracle.late().height == 78
    assert per_departure.filter(pl.col("some") & ~pl.col("all")).height == 106
    assert set(flights_oracle.windows()["origin"]) == {"EWR", "JFK", "LGA"}
    alerts = flights_oracle.alerts()
    assert alerts["alert"].value_counts().sort("alert").rows() == [("cleared", 71), ("raised", 71)]


def run_example(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run `python examples/flights.py ...` in this process."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def assert_same_rows(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Compare rows as multisets; the units of timestamps may differ."""
    columns = expected.columns
    assert_frame_equal(
        found.sort(columns), expected.sort(columns), check_dtypes=False, check_exact=True
    )
