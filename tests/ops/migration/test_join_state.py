"""A job continues a stream-stream join: rows of the checkpoint find partners among later rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError, Site
from rheos.core.operators.joins.interval_join import IntervalJoinSpec
from rheos.core.protocol.elements import TS
from rheos.ops.migration.join_state import JoinSideEncoder
from rheos.ops.migration.proof import prove
from rheos.ops.migration.query_import import import_query
from rheos.ops.migration.spark_program import SparkQuery
from tests.ops.migration.queries import FIRST, REST, put, run_query

PRICES = {"item": str, "price": int, "at": datetime}
WEIGHTS = {"name": str, "weight": float, "weighed": datetime}


def put_rows(folder: Path, file: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    put(folder / "prices", file, [{name: row[name] for name in PRICES} for row in rows])
    renamed = [{"name": row["item"], "weight": row["weight"], "weighed": row["at"]} for row in rows]
    put(folder / "weights", file, renamed)


def query(spark: Any, folder: Path) -> Any:
    from pyspark.sql import functions as f

    def rows_of(name: str, columns: str, at: str) -> Any:
        return spark.readStream.schema(columns).json(str(folder / name)).withWatermark(at, "5 seconds")

    prices = rows_of("prices", "item string, price bigint, at timestamp", "at")
    weights = rows_of("weights", "name string, weight double, weighed timestamp", "weighed")
    close = "item = name and weighed >= at - interval 5 seconds and weighed <= at + interval 30 seconds"
    return prices.join(weights, f.expr(close))


def job(folder: Path, how: Any = "inner") -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="continuous")

    def rows_of(name: str, schema: dict[str, type], at: str) -> rh.DataStream:
        source = rh.files.source(str(folder / name), format="jsonl", schema=schema)
        in_order = rh.Watermark.bounded_out_of_orderness("5s", on=at)
        return env.from_source(source, watermark=in_order, uid=name)

    prices = rows_of("prices", PRICES, "at").key_by("item")
    weights = rows_of("weights", WEIGHTS, "weighed").key_by("name")
    joined = prices.interval_join(weights, between=("-5s", "30s"), how=how).uid("moved")
    joined.sink_to(rh.collect_sink(), name="out")
    return env


@pytest.mark.spark
def test_rows_of_both_sides_find_later_partners(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put_rows(folder, "1.json", FIRST)
    assert len(run_query(query(spark, folder), "append", checkpoint, "first")) == 5
    put_rows(folder, "2.json", REST)
    (refused,) = import_query(spark, str(checkpoint), job(folder, "left").plan()).refused
    assert "only inner joins are moved" in refused.reason
    plan = job(folder).plan()
    moved = import_query(spark, str(checkpoint), plan)
    assert [move.reason for move in moved.moves][-1] == "the rows of both sides"
    proof = prove(moved, plan, SparkQuery(query(spark, folder), "append", Site("query.py", 1)))
    assert proof.holds, "\n".join(proof.explained())
    pairs = {(row["price"], row["weight"]) for row in proof.job.to_pylist()}
    assert {(4, 0.25), (6, 1.0), (10, 0.2)} <= pairs


def test_the_rows_of_a_side_have_the_key_of_the_query(tmp_path: Path) -> None:
    planned = next(
        each for each in job(tmp_path).plan().operators() if isinstance(each.spec, IntervalJoinSpec)
    )
    encoder = JoinSideEncoder("left", planned.ports[0], ["join key 0"], 128)

    def row(key: str) -> pa.RecordBatch:
        at = datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC)
        row = {"item": "tea", "price": 3, "at": at, "join key 0": key}
        return pa.RecordBatch.from_pylist([row, row])

    table = encoder.tables(row("tea"))["left"]
    assert table.column_names == ["key_group", "item", "price", "at", TS]
    assert table.column(TS).to_pylist() == [-1, -1]
    with pytest.raises(InputError, match="joins the left side by 'item', but the values"):
        encoder.tables(row("jam"))
