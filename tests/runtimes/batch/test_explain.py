"""Spark's plan of a batch job, and a job's rows as a DataFrame: neither runs anything by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.connectors.collect import CollectSink
from rheos.connectors.spark.versions import arrow_table
from rheos.runtimes.batch.lazy_dataframes import to_dataframe

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@dataclass
class Sale:
    shop: str
    at: int
    price: float


SALES = [Sale("ulm", 1_000, 2.0), Sale("rom", 2_000, 3.0), Sale("ulm", 9_000, 4.0)]


def sales(env: rh.Environment) -> rh.DataStream:
    return env.from_source(rh.collection(SALES), rh.Watermark.monotonic(on="at"), name="sales")


def counted(path: Path) -> Any:
    def note(sale: Sale) -> Sale:
        with path.open("a") as file:
            file.write(f"{sale.at}\n")
        return sale

    return note


def test_explain_shows_sparks_plans_and_runs_nothing(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    env = rh.Environment(2, runtime="batch")
    noted = sales(env).map(counted(calls))
    noted.key_by("shop").running(n=rh.agg.count()).collect("running")
    noted.key_by("shop").window(rh.Tumbling("5s")).aggregate(n=rh.agg.count()).collect("windows")
    shown = env.explain(format="spark")
    assert shown.count("Spark's plan of chain") == 2
    steps = (
        "hashpartitioning(bucket",
        "Arguments: [bucket",
        "Arguments: [state",
        "MapInArrow",
        "InMemory",
    )
    for step in steps:
        assert step in shown
    assert "AdaptiveSparkPlan" in shown
    assert not calls.exists()
    assert 'explain(format="spark")' in env.explain()
    env.execute()
    assert len(calls.read_text().split()) == len(SALES)


def test_other_runtimes_have_no_spark_plan() -> None:
    env = rh.Environment(2, runtime="simulated")
    sales(env).collect("sales")
    with pytest.raises(rh.ProgramError, match='format="spark" shows a Spark plan, which only a'):
        env.explain(format="spark")
    assert "spark" not in env.explain()


def frame_of(spark: Any, env: rh.Environment, stream: rh.DataStream) -> Any:
    stream.sink_to(CollectSink())
    return to_dataframe(spark, env.plan())


def test_a_dataframe_of_a_job_can_be_joined_and_is_lazy(spark: Any, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    env = rh.Environment(2, runtime="batch")
    totals = (
        sales(env)
        .map(counted(calls))
        .key_by("shop")
        .window(rh.Tumbling("5s"))
        .aggregate(sum=rh.agg.sum("price"))
    )
    frame = frame_of(spark, env, totals)
    assert not calls.exists()
    assert frame.columns == ["shop", "window_start", "window_end", "sum"]
    towns = spark.createDataFrame([("ulm", "de"), ("rom", "it")], "shop string, land string")
    found = frame.join(towns, "shop").select("land", "sum").collect()
    assert sorted(map(tuple, found)) == [("de", 2.0), ("de", 4.0), ("it", 3.0)]
    assert len(calls.read_text().split()) == len(SALES)


def test_rows_read_by_two_branches_are_computed_once(spark: Any, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    env = rh.Environment(2, runtime="batch")
    noted = sales(env).map(counted(calls))
    dear, cheap = noted.filter(col("price") > 2), noted.filter(col("price") <= 2)
    frame = frame_of(spark, env, dear.union(cheap, dear))
    assert not calls.exists()
    assert frame.count() == 5
    assert frame.count() == 5
    assert len(calls.read_text().split()) == len(SALES)


def test_an_error_in_a_dataframe_names_its_line(spark: Any) -> None:
    def halve(sale: Sale) -> Sale:
        return Sale(sale.shop, sale.at, sale.price / (sale.price - 3.0))

    env = rh.Environment(1, runtime="batch")
    frame = frame_of(spark, env, sales(env).map(halve))
    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        frame.collect()
    assert f"{__file__}:" in str(caught.value)
    assert "price=3.0" in str(caught.value)


def test_a_dataframe_of_a_keyed_function_has_declared_types(spark: Any) -> None:
    class Firsts(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, default=0)

        def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Sale]:
            self.seen.value += 1
            if self.seen.value == 1:
                yield sale

    env = rh.Environment(1, runtime="batch")
    frame = frame_of(spark, env, sales(env).key_by("shop").process(Firsts()))
    assert frame.schema.simpleString() == "struct<shop:string,at:bigint,price:double>"
    assert arrow_table(frame).sort_by("at")["shop"].to_pylist() == ["ulm", "rom"]
    assert pa.types.is_int64(arrow_table(frame).schema.field("at").type)
