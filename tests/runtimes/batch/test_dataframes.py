"""Translation of a plan into DataFrames: what is cached, and how many tasks it takes."""

from __future__ import annotations

from typing import Any

import pytest

import rheos as rh
from rheos.core.plan.physical import ToEdge
from rheos.core.protocol.ids import JobId
from rheos.runtimes.batch.dataframes import Translation
from rheos.runtimes.batch.results import handed_over
from tests.spark_versions import needs_spark


def keyed(env: rh.Environment) -> rh.DataStream:
    rows = [{"k": str(i % 3), "v": i, "at": i * 1000} for i in range(30)]
    return env.from_source(rh.collection(rows), watermark=rh.Watermark.monotonic(on="at"))


def test_rows_for_several_edges_are_sent_once() -> None:
    env = rh.Environment(2, runtime="batch")
    rows = keyed(env)
    rows.key_by("k").running(n=rh.agg.count()).collect("by k")
    rows.key_by("v").running(n=rh.agg.count()).collect("by v")
    few = rows.filter("v < 5")
    few.key_by("k").running(n=rh.agg.count()).collect("few by k")
    few.key_by("v").running(n=rh.agg.count()).collect("few by v")
    rows.collect("rows")
    plan = env.plan()
    session: Any = None
    translation = Translation(session, handed_over(plan), JobId("job"), 0, 1, lambda _, frame: frame)
    source, by_k, by_v, few_by_k, few_by_v = plan.chains

    def ways_out(chain: Any) -> list[int]:
        routes = (r for operator in chain.operators for each in operator.routes.values() for r in each)
        return sorted(route.edge for route in routes if isinstance(route, ToEdge) and route.edge >= 0)

    into = {edge.target: edge.id for edge in plan.edges}
    assert ways_out(source) == sorted(into.values())
    assert ways_out(translation._sending(source)) == sorted([into[by_k.id], into[few_by_k.id]])
    assert translation._leaves_by(into[by_v.id]) == into[by_k.id]
    assert translation._leaves_by(into[few_by_v.id]) == into[few_by_k.id]


@pytest.mark.spark
@needs_spark("4.0", "fewer partitions in the last stage of a cached plan")
def test_a_small_result_that_is_read_twice_takes_few_tasks(spark: Any) -> None:
    """Cached results are computed under adaptive execution, too: 200 partitions of thirty rows
    become one."""
    store = spark._jsc.sc().statusStore()

    def jobs() -> dict[int, int]:
        found, each = {}, store.jobsList(None).iterator()
        while each.hasNext():
            job = each.next()
            found[job.jobId()] = job.numCompletedTasks()
        return found

    before = jobs()
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        env = rh.Environment(2, runtime="batch")
        counts = keyed(env).key_by("k").running(n=rh.agg.count())
        counts.key_by("v").running(m=rh.agg.count()).collect("a")
        counts.key_by("n").window(rh.Tumbling("10s")).aggregate(m=rh.agg.count()).collect("b")
        result = env.execute()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    assert result.collected["a"].num_rows == 30
    tasks = {id: number for id, number in jobs().items() if id not in before}
    assert sum(tasks.values()) < 60, tasks
