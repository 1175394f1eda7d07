"""A job continues a Structured Streaming query from its checkpoint: both read the rest of the input,
and their results are compared. On Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, Site
from rheos.ops.migration.moves import MoveOutcome
from rheos.ops.migration.proof import Proof, prove
from rheos.ops.migration.query_import import import_query
from rheos.ops.migration.spark_program import SparkQuery
from tests.ops.migration.queries import FIRST, REST, bytes_in, job, put, run_query, stream_of

pytestmark = pytest.mark.spark

Query = Callable[[Any], Any]
Job = Callable[[rh.DataStream], rh.DataStream]


def proved(spark: Any, tmp_path: Path, query: Query, mode: str, build: Job) -> Proof:
    """Move a query after the first part of the input, and compare both over the rest."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put(folder, "1.json", FIRST)
    run_query(query(stream_of(spark, folder)), mode, checkpoint, "first")
    put(folder, "2.json", REST)
    before = bytes_in(checkpoint)
    plan = job(folder, build).plan()
    found = import_query(spark, str(checkpoint), plan)
    assert [move.outcome for move in found.moves] == [MoveOutcome.MOVED] * 2
    started = SparkQuery(query(stream_of(spark, folder)), mode, Site("query.py", 1))
    proof = prove(found, plan, started)
    assert bytes_in(checkpoint) == before, "the checkpoint does not change"
    assert list(proof.rows_read.values()) == [5]
    return proof


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

    proof = proved(spark, tmp_path, query, "update", build)
    assert proof.holds
    assert proof.compared.same == 4
    assert max(row["n"] for row in proof.job.to_pylist() if row["item"] == "tea") == 4
    assert [*proof.explained()][1:] == [
        "  same 4, only in the query 0, only in the job 0, changed 0",
        "the job continues the query: it emits the same rows",
    ]


TUMBLING = "window(at, '10 seconds')"
SLIDING = "window(at, '10 seconds', '5 seconds')"
SESSION = "session_window(at, '5 seconds')"
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("of_query", "mode", "of_job", "counts"),
    [
        (SLIDING, "append", rh.Sliding("10s", every="5s"), "jam 11, rye 112, tea 1122"),
        (SESSION, "append", rh.Session("5s"), "jam 1, rye 2, tea 12"),
        pytest.param(TUMBLING, "append", rh.Tumbling("10s"), "jam 1, rye 2, tea 12", marks=slow),
        pytest.param(
            SLIDING,
            "update",
            rh.Sliding("10s", every="5s"),
            "jam 11, rye 112, tea 1122",
            marks=slow,
        ),
        # The query has emitted all its sessions, and the job emits each when it is complete.
        pytest.param(SESSION, "complete", rh.Session("5s"), "jam 11, rye 2, tea 112", marks=slow),
    ],
)
def test_open_windows_continue(
    spark: Any, tmp_path: Path, of_query: str, mode: str, of_job: Any, counts: str
) -> None:
    from pyspark.sql import functions as f

    def query(rows: Any) -> Any:
        windows = rows.groupBy("item", f.expr(of_query))
        return windows.agg(
            f.count("*").alias("n"),
            f.sum("price").alias("total"),
            f.avg("price").alias("mean"),
            f.sum("weight").alias("weights"),
            f.min("price").alias("least"),
        )

    def build(rows: rh.DataStream) -> rh.DataStream:
        windows = rows.key_by("item").window(of_job)
        return windows.aggregate(
            n=rh.agg.count(),
            total=rh.agg.sum("price"),
            mean=rh.agg.mean("price"),
            weights=rh.agg.sum("weight"),
            least=rh.agg.min("price"),
        )

    proof = proved(spark, tmp_path, query, mode, build)
    assert proof.holds, "\n".join(proof.explained())
    assert proof.compared.difference.key == ("item", "window_start", "window_end")
    found: dict[str, str] = {}
    for item, n in sorted((row["item"], row["n"]) for row in proof.job.to_pylist()):
        found[item] = f"{found.get(item, '')}{n}"
    assert ", ".join(f"{item} {of}" for item, of in found.items()) == counts


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
    proof = proved(spark, tmp_path, query, "append", build)
    lines, prices = "\n".join(proof.explained()), proof.job.column("price").to_pylist()
    if "within" in request.node.callspec.id:
        # Spark forgets a key only between two batches, so it drops more rows of one batch.
        assert "only in the query 0, only in the job 1, changed 0" in lines
        assert "'price': 2," in lines
        assert not proof.holds
    else:
        assert proof.holds, lines
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
