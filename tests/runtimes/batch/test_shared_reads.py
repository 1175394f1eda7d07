"""Chains that read the same rows are one chain in a batch job."""

from __future__ import annotations

import pytest

import rheos as rh
from rheos.core.plan.physical import PhysicalPlan, ToEdge, ToOperator
from rheos.runtimes.batch.shared_reads import with_shared_reads


def numbers(env: rh.Environment, name: str) -> rh.DataStream:
    return env.from_source(rh.collection([{"k": i % 3, "v": i} for i in range(9)]), name=name)


def check(plan: PhysicalPlan) -> None:
    """Check that every route has an edge, and every edge a route, a source and a target."""
    assert [chain.id for chain in plan.chains] == list(range(len(plan.chains)))
    for chain in plan.chains:
        inputs = {edge.id for edge in plan.edges if edge.target == chain.id}
        assert inputs == set(chain.inputs)
        routes = [r for o in chain.operators for each in o.routes.values() for r in each]
        leaving = [route.edge for route in routes if isinstance(route, ToEdge)]
        assert sorted(leaving) == sorted(edge.id for edge in plan.edges if edge.source == chain.id)
        reached = [route.index for route in routes if isinstance(route, ToOperator)]
        assert sorted(reached) == list(range(1, len(chain.operators)))
    assert all(edge.source < edge.target for edge in plan.edges)


def names(plan: PhysicalPlan) -> list[str]:
    return [chain.name for chain in plan.chains]


def test_readers_of_one_union_are_one_chain() -> None:
    env = rh.Environment(2, runtime="batch")
    both = numbers(env, "a").union(numbers(env, "b"))
    both.filter("v > 1").name("some").collect("x")
    both.filter("v > 2").name("few").key_by("k").running(n=rh.agg.count()).name("count").collect("y")
    numbers(env, "c").collect("z")
    plan = env.plan()
    joined = with_shared_reads(plan)
    check(joined)
    assert len(plan.chains) == 6
    assert sorted(names(joined)) == sorted(
        ["a", "b", "union -> some -> x -> few", "count -> y", "c -> z"]
    )
    assert len(joined.edges) == 3


def test_readers_of_different_unions_stay_separate() -> None:
    env = rh.Environment(2, runtime="batch")
    a, b, c = (numbers(env, name) for name in "abc")
    a.union(b).filter("v > 1").collect("x")
    a.union(c).filter("v > 2").collect("y")
    a.key_by("k").running(n=rh.agg.count()).collect("by k")
    a.key_by("v").running(n=rh.agg.count()).collect("by v")
    plan = env.plan()
    assert with_shared_reads(plan) is plan


@pytest.mark.spark
def test_many_filters_of_a_union_take_no_more_tasks_than_one(spark: object) -> None:
    env = rh.Environment(2, runtime="batch")
    both = numbers(env, "a").union(numbers(env, "b"))
    for least in range(9):
        both.filter(rh.col("v") >= least).collect(f"from {least}")
    plan = env.explain(format="spark")
    assert plan.count("Spark's plan of chain") == 1
    result = env.execute()
    assert {name: rows.num_rows for name, rows in result.collected.items()} == {
        f"from {least}": 2 * (9 - least) for least in range(9)
    }
    assert {o.name: o.records_out for o in result.status.operators if o.name in "ab"} == {
        "a": 9,
        "b": 9,
    }
