"""Jobs in a user's session with its own settings: results are the same, and the session is not
changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.connectors.spark import versions

pytestmark = pytest.mark.spark

SETTINGS = {
    "far": {
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.caseSensitive": "true",
    },
    "strict": {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    },
}
RUNTIMES = pytest.mark.parametrize("runtime", ["batch", "continuous"])


@dataclass
class Sale:
    shop: str
    at: int
    price: float


@dataclass
class Nth:
    shop: str
    at: int
    n: int


class Counted(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Nth]:
        self.n.value += 1
        yield Nth(sale.shop, sale.at, self.n.value)


def failing(sale: Sale) -> Sale:
    return Sale(sale.shop, sale.at, 1 / (sale.price - sale.price))


SALES = [Sale(f"shop {i % 3}", i * 60_000, i / 4) for i in range(300)]


@pytest.fixture(params=list(SETTINGS))
def session(request: pytest.FixtureRequest, spark: Any) -> Any:
    """Return a session of the user's, which shares the cluster with other tests' sessions, but no
    settings."""
    session = spark.newSession()
    for name, value in SETTINGS[request.param].items():
        session.conf.set(name, value)
    session.range(5).createOrReplaceTempView("mine")
    return session


def belongings(session: Any) -> dict[str, Any]:
    """Return everything in the session that a job might leave or remove."""
    context = session.sparkContext
    active = versions.jvm_class(session, "SparkSession").getActiveSession()
    local = context._jsc.sc().getLocalProperties()
    return {
        "settings": versions.settings(session),
        "environment": dict(context.environment),
        "local properties": dict(local),
        "tags": context.getJobTags(),
        "views": [view.name for view in session.catalog.listTables()],
        "active": str(active.isDefined()),
        "cached": len(context._jsc.getPersistentRDDs()),
    }


def job(session: Any, runtime: Any) -> tuple[rh.Environment, rh.DataStream]:
    env = rh.Environment(2, runtime=runtime, spark=session)
    watermark = rh.Watermark.monotonic(on="at")
    return env, env.from_source(rh.collection(SALES), watermark=watermark, name="sales")


@pytest.mark.thinned(4)
@RUNTIMES
def test_results_and_settings_of_the_session_are_independent(
    runtime: str, session: Any, tmp_path: Path
) -> None:
    before = belongings(session)
    env, sales = job(session, runtime)
    hours = sales.key_by("shop").window(rh.Tumbling("1h")).aggregate(total=rh.agg.sum("price"))
    hours.sink_to(rh.files.sink(tmp_path / "hours"), name="hours")
    sales.key_by("shop").process(Counted(), order="event_time").collect("counted")
    result = env.execute("sales")

    made = pl.DataFrame(SALES)
    expected = made.group_by("shop", start=pl.col("at") // 3_600_000).agg(total=pl.col("price").sum())
    found = pl.read_parquet(tmp_path / "hours").select(
        "shop", start=pl.col("window_start").dt.epoch("ms") // 3_600_000, total="total"
    )
    assert sorted(found.rows()) == sorted(expected.rows())
    counted = result.collected["counted"].to_pylist()
    assert {(row["at"], row["n"]) for row in counted} == {
        (s.at, i // 3 + 1) for i, s in enumerate(SALES)
    }
    assert belongings(session) == before
    assert session.sql("select count(*) as n from mine").first().n == 5


@pytest.mark.thinned(4)
@RUNTIMES
def test_a_failing_job_leaves_the_session_unchanged(runtime: str, session: Any) -> None:
    before = belongings(session)
    env, sales = job(session, runtime)
    sales.map(failing).name("failing").collect("failed")
    with pytest.raises(rh.UserFunctionError, match=r"test_existing_session.py:\d+: operator 'failing'"):
        env.execute("failing")
    assert belongings(session) == before
    assert session.sql("select count(*) as n from mine").first().n == 5


@pytest.mark.thinned(4)
@RUNTIMES
def test_a_job_that_is_cancelled_leaves_the_users_own_jobs_alone(runtime: str, session: Any) -> None:
    context = session.sparkContext
    context.addJobTag("of the user")
    try:
        before = belongings(session)
        env = rh.Environment(1, runtime=runtime, spark=session)
        slow = rh.generator(lambda block: {"n": block.index()}, rate_per_s=10, count=10_000, splits=1)
        env.from_source(slow).collect("numbers")
        running = env.execute_async("slow")
        assert session.range(100).count() == 100
        running.cancel()
        assert running.status().state is rh.JobState.CANCELLED
        assert belongings(session) == before
        assert session.range(100).count() == 100
    finally:
        context.clearJobTags()
