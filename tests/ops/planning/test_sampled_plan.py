"""A sample runs the job's plan with sinks that discard, and counts keys on the way."""

from __future__ import annotations

import pytest
from polars import DataFrame

import rheos as rh
from rheos.connectors.blackhole import BlackholeSink
from rheos.connectors.generator import GeneratorSource
from rheos.core.errors import ConfigurationError
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.ops.planning.key_counts import COUNTED, HEAVIEST, KeyCounter
from rheos.ops.planning.paced_source import PacedSource
from rheos.ops.planning.sampled_plan import (
    SourcePace,
    counted_edge,
    planned_chains,
    planned_edges,
    sampled_plan,
)
from rheos.runtimes.job import JobConfig, JobResult
from rheos.runtimes.simulated.runtime import SimulatedRuntime


def plan() -> PhysicalPlan:
    env = rh.Environment(parallelism=1, runtime="simulated")
    rows = env.from_source(
        rh.collection([{"k": n % 10 if n % 2 else 0} for n in range(100)]), name="rows"
    )
    counts = rows.filter(rh.col("k") >= 0).key_by("k").running(n=rh.agg.count())
    counts.collect("counts")
    return env.plan()


def run(sampled: PhysicalPlan) -> JobResult:
    return SimulatedRuntime().submit(sampled, JobConfig(JobId("sample"))).wait()


def test_sinks_discard_their_rows() -> None:
    sinks = [each.spec for each in sampled_plan(plan()).operators() if isinstance(each.spec, SinkSpec)]
    assert [sink.sink for sink in sinks] == [BlackholeSink()]
    assert run(sampled_plan(plan())).collected == {}


def test_the_heaviest_key_of_each_keyed_edge_is_counted() -> None:
    sampled = sampled_plan(plan(), counts_keys=True)
    [counter] = [each for each in sampled.operators() if counted_edge(str(each.id)) is not None]
    result = run(sampled)
    assert result.counter(counter.name, COUNTED) == 100
    assert result.counter(counter.name, HEAVIEST) == 50
    by_name = {each.name: each.records_in for each in result.status.operators}
    assert by_name["running"] == 100


def test_a_generator_has_no_rate() -> None:
    env = rh.Environment(parallelism=1, runtime="continuous")
    numbers = rh.generator(lambda block: {"n": block.number()}, rate_per_s=10, schema={"n": int})
    env.from_source(numbers).collect("numbers")
    source = sampled_plan(env.plan()).operators()[0].spec.reads_from
    assert isinstance(source, GeneratorSource)
    assert source.rate_per_s is None
    assert source.fn == numbers.fn


def test_sources_have_the_rates_of_a_slow_phase() -> None:
    collection = plan()
    paces = {str(each.id): SourcePace(100.0, 4) for each in collection.operators()}
    source = sampled_plan(collection, paces=paces).operators()[0].spec.reads_from
    assert isinstance(source, PacedSource)
    assert source.rate_per_s == 25
    assert len(run(sampled_plan(collection, paces=paces)).status.operators) == 4


def test_the_plan_names_keyed_chains_and_exchanges() -> None:
    source, keyed = planned_chains(plan(), {})
    assert (source.name, source.keyed) == ("rows -> filter", False)
    assert keyed.keyed
    assert "test_sampled_plan.py" in keyed.site
    assert [edge.remote for edge in planned_edges(plan())] == [True]


def test_a_source_with_one_reader_is_refused_at_its_line() -> None:
    env = rh.Environment(parallelism=1, runtime="continuous")
    env.from_source(rh.socket.source("127.0.0.1:1"), name="lines").collect("lines")
    with pytest.raises(ConfigurationError, match=r"test_sampled_plan\.py.*cannot be read for a sample"):
        sampled_plan(env.plan())


def test_counts_of_many_keys_are_bounded_and_the_heavy_ones_stay() -> None:
    counter = KeyCounter(max_keys=100)
    for first in range(0, 1000, 50):
        counter.add(DataFrame({"k": [-1] * 50 + list(range(first, first + 50))}))
    assert counter.heaviest == 1000
    assert counter.rows == 2000
    assert len(counter._counts) <= 100
