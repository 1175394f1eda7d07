"""A job continues a Structured Streaming query from its checkpoint: both read the rest of the input,
and their results are compared. On Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError
from rheos.ops.migration.query_import import MoveOutcome, import_query
from tests.ops.migration.queries import FIRST, REST, bytes_in, job, put, run_job, run_query, stream_of

pytestmark = pytest.mark.spark

Query = Callable[[Any], Any]
Job = Callable[[rh.DataStream], rh.DataStream]


def moved(
    spark: Any, tmp_path: Path, query: Query, mode: str, build: Job
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows for the rest of the input: those of the query, and those of the job."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put(folder, "1.json", FIRST)
    run_query(query(stream_of(spark, folder)), mode, checkpoint, "first")
    put(folder, "2.json", REST)
    before = bytes_in(checkpoint)
    found = import_query(spark, str(checkpoint), job(folder, build).plan())
    assert [move.outcome for move in found.moves] == [MoveOutcome.MOVED] * 2
    savepoint = found.write(str(tmp_path / "savepoint"))
    assert bytes_in(checkpoint) == before, "the checkpoint does not change"
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    of_query = run_query(query(stream_of(spark, folder)), mode, copy, "rest")
    return of_query, run_job(folder, build, savepoint)


def test_running_aggregates_continue(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    names = ["item", "n", "total", "mean", "least", "name", "most", "weights", "weight"]

    def query(rows: Any) -> Any:
        return rows.groupBy("item").agg(
            f.count("*").alias("n"),
            f.sum("price").alias("total"),
            f.avg("price").alias("mean"),
            f.min("price").alias("least"),
            f.max("at").alias("name"),
            f.max("weight").alias("most"),
            f.sum("weight").alias("weights"),
            f.avg("weight").alias("weight"),
        )

    def build(rows: rh.DataStream) -> rh.DataStream:
        made = rows.key_by("item").running(
            n=rh.agg.count(),
            total=rh.agg.sum("price"),
            mean=rh.agg.mean("price"),
            least=rh.agg.min("price"),
            name=rh.agg.max("at"),
            most=rh.agg.max("weight"),
            weights=rh.agg.sum("weight"),
            weight=rh.agg.mean("weight"),
        )
        return made.select(*names)

    of_query, of_job = moved(spark, tmp_path, query, "update", build)
    last = {row["item"]: row for row in sorted(of_job, key=lambda row: row["n"])}
    expected = {row["item"]: row for row in of_query}
    for row in expected.values():
        row["name"] = row["name"].astimezone(UTC)
    assert last == expected
    assert last["tea"]["n"] == 4


def test_open_windows_continue(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    def query(rows: Any) -> Any:
        windows = rows.groupBy("item", f.window("at", "10 seconds"))
        made = windows.agg(
            f.count("*").alias("n"),
            f.sum("price").alias("total"),
            f.avg("price").alias("mean"),
            f.sum("weight").alias("weights"),
            f.min("price").alias("least"),
        )
        start = f.unix_millis(f.col("window.start")).alias("start_ms")
        return made.select("item", start, "n", "total", "mean", "weights", "least")

    def build(rows: rh.DataStream) -> rh.DataStream:
        windows = rows.key_by("item").window(rh.Tumbling("10s"))
        return windows.aggregate(
            n=rh.agg.count(),
            total=rh.agg.sum("price"),
            mean=rh.agg.mean("price"),
            weights=rh.agg.sum("weight"),
            least=rh.agg.min("price"),
        )

    of_query, of_job = moved(spark, tmp_path, query, "append", build)
    expected = {(row["item"], row.pop("start_ms")): row for row in of_query}
    found = {}
    for row in of_job:
        start_ms = int(row.pop("window_start").timestamp() * 1000)
        row.pop("window_end")
        found[row["item"], start_ms] = row
    # The input of the job ends, so its last window is complete; Spark's never is.
    assert {key: row for key, row in found.items() if row["item"] != "oat"} == expected
    assert [row["n"] for key, row in found.items() if key[0] == "tea"] == [2, 1]


@pytest.mark.parametrize(
    ("query", "build"),
    [
        (lambda rows: rows.dropDuplicates(["item"]), lambda rows: rows.key_by("item").dedup()),
        (
            lambda rows: rows.dropDuplicatesWithinWatermark(["item"]),
            lambda rows: rows.key_by("item").dedup(within="5s"),
        ),
        (
            lambda rows: rows.dropDuplicates(["item", "at"]),
            lambda rows: rows.key_by("item", "at").dedup(within="5s"),
        ),
    ],
    ids=["for ever", "within the watermark", "with event time"],
)
def test_duplicates_stay_known(
    spark: Any, tmp_path: Path, query: Query, build: Job, request: Any
) -> None:
    of_query, of_job = moved(spark, tmp_path, query, "append", build)
    prices, expected = ({row["price"] for row in rows} for rows in (of_job, of_query))
    if "within" in request.node.callspec.id:
        # Spark forgets a key only between two batches, so it drops more rows of one batch.
        assert prices - expected == {2}
        expected.add(2)
    assert prices == expected
    assert (8 in prices) == ("event time" in request.node.callspec.id)


def test_what_does_not_match_is_refused_with_the_reason(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put(folder, "1.json", FIRST)
    counts = stream_of(spark, folder).groupBy("item").count()
    run_query(counts, "update", checkpoint, "counts")

    def problem(build: Job) -> tuple[str, str]:
        found = import_query(spark, str(checkpoint), job(folder, build).plan())
        with pytest.raises(ConfigurationError, match="1 parts of the checkpoint cannot be moved"):
            found.write(str(tmp_path / "none"))
        assert not (tmp_path / "none").exists()
        (refused,) = found.refused
        return refused.reason, refused.hint

    reason, hint = problem(lambda rows: rows.key_by("price").running(n=rh.agg.count()))
    assert reason == "the job has no operator of the form key_by('item').running(...)"
    assert hint == "add key_by('item').running(...), with the names of the query's columns"
    reason, hint = problem(lambda rows: rows.key_by("item").running(n=rh.agg.mean("price")))
    assert "the checkpoint has the fields count, the job has n=mean(price)" in reason
    assert hint == "write the aggregates in the order of the query; avg is mean here"
    reason, _ = problem(lambda rows: rows.key_by("item").dedup())
    assert "no operator of the form" in reason
