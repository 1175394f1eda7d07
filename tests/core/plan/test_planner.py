"""From graphs to plans: chains, edges, hidden columns, ids."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle

import rheos as rh
from rheos.core.plan import explain
from rheos.core.plan.physical import Exchange, PhysicalPlan, PlannedOperator, ToEdge, ToOperator
from rheos.core.plan.planner import make_plan
from tests.api.programs import Validate, environment, events


def plan_of(env: rh.Environment) -> PhysicalPlan:
    return make_plan(env._program.graph(), name="job", parallelism=2, max_parallelism=8)


def chains(plan: PhysicalPlan) -> list[str]:
    return [chain.name for chain in plan.chains]


def operator(plan: PhysicalPlan, name: str) -> PlannedOperator:
    return next(operator for operator in plan.operators() if operator.name == name)


def hidden(plan: PhysicalPlan, name: str, tag: str = "") -> list[str]:
    names = operator(plan, name).outputs[tag].schema.names
    return [name for name in names if name.startswith("__")]


def test_operators_without_keys_are_one_chain() -> None:
    env = environment()
    events(env).filter("value > 0").select("user").collect("out")
    plan = plan_of(env)
    assert chains(plan) == ["events -> filter -> select -> out"]
    assert not plan.edges
    first, *_, last = plan.chains[0].operators
    assert first.routes == {"": (ToOperator(1),)}
    assert last.routes == {}
    assert last.outputs == {}


def test_keys_begin_a_chain_after_a_hash_edge() -> None:
    env = environment()
    events(env).key_by("user", "kind").process(Validate()).collect("out")
    plan = plan_of(env)
    assert chains(plan) == ["events", "process(Validate) -> out"]
    (edge,) = plan.edges
    assert edge.exchange is Exchange.HASH
    assert edge.keys == ("user", "kind")
    assert (edge.source, edge.target, edge.target_port) == (0, 1, 0)
    assert plan.chains[1].inputs == (edge.id,)
    assert operator(plan, "events").routes == {"": (ToEdge(edge.id),)}
    assert operator(plan, "process(Validate)").ports[0].keys == ("user", "kind")


def test_a_chain_may_be_a_tree() -> None:
    env = environment()
    rows = events(env)
    rows.filter("value > 0").name("large").collect("a")
    rows.collect("b")
    rows.key_by("user").process(Validate()).collect("c")
    plan = plan_of(env)
    assert chains(plan) == ["events -> large -> a -> b", "process(Validate) -> c"]
    assert operator(plan, "events").routes[""] == (ToOperator(1), ToOperator(3), ToEdge(0))
    assert operator(plan, "large").routes[""] == (ToOperator(2),)


def test_a_union_is_several_edges_into_one_port() -> None:
    env = environment()
    one, other = events(env, name="one"), events(env, name="other")
    one.union(other, one.filter("value > 0")).select("user").collect("out")
    plan = plan_of(env)
    # The filter reads another column, so the inputs of the union drop it.
    assert chains(plan) == [
        "one -> filter -> one columns -> filter columns",
        "other",
        "select -> out",
    ]
    assert [(e.source, e.target, e.target_port) for e in plan.edges] == [
        (0, 2, 0),
        (1, 2, 0),
        (0, 2, 0),
    ]
    assert {edge.exchange for edge in plan.edges} == {Exchange.FORWARD}
    assert len(operator(plan, "select").ports) == 1


def test_a_keyed_union_hashes_each_of_its_inputs() -> None:
    env = environment()
    nested = events(env, name="a").union(events(env, name="b").union(events(env, name="c")))
    nested.key_by("user").process(Validate()).collect("out")
    plan = plan_of(env)
    assert chains(plan) == ["a", "b", "c", "process(Validate) -> out"]
    assert [edge.exchange for edge in plan.edges] == [Exchange.HASH] * 3
    assert {edge.keys for edge in plan.edges} == {("user",)}


def test_a_stream_united_with_itself_has_two_edges() -> None:
    env = environment()
    rows = events(env)
    rows.union(rows).collect("out")
    plan = plan_of(env)
    assert chains(plan) == ["events", "out"]
    assert len(plan.edges) == 2


def test_another_parallelism_begins_a_chain_with_round_robin() -> None:
    env = environment()
    narrow = events(env).filter("value > 0").set_parallelism(1).name("narrow")
    narrow.select("user").set_parallelism(1).name("alike").sink_to(rh.print_sink("a"), parallelism=1)
    narrow.key_by("user").process(Validate()).set_parallelism(9).collect("b")
    plan = plan_of(env)
    assert chains(plan) == ["events", "narrow -> alike -> print", "process(Validate)", "b"]
    assert [chain.widest for chain in plan.chains] == [None, 1, 9, None]
    assert [plan.width(chain.id) for chain in plan.chains] == [2, 1, 2, 2]
    assert [edge.exchange for edge in plan.edges] == [
        Exchange.REBALANCE,
        Exchange.HASH,
        Exchange.REBALANCE,
    ]
    assert [edge.peers(1, 2) for edge in plan.edges] == [range(2)] * 3
    told = explain.text(plan)
    assert "chain 1, in 1 subtask, reads chain 0 round-robin" in told
    assert "chain 1: narrow (rebalance)" in told


def test_edges_and_routes_point_forward() -> None:
    env = environment()
    rows = events(env)
    counts = rows.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
    counts.side_output("late").union(rows).key_by("kind").process(Validate()).collect("a")
    counts.collect("b")
    plan = plan_of(env)
    assert all(edge.source < edge.target for edge in plan.edges)
    assert [chain.id for chain in plan.chains] == list(range(len(plan.chains)))
    for chain in plan.chains:
        for index, planned in enumerate(chain.operators):
            for route in (route for routes in planned.routes.values() for route in routes):
                assert isinstance(route, ToEdge) or route.index > index


def test_only_streams_that_are_read_are_planned() -> None:
    env = environment()
    rows = events(env)
    rows.filter("value > 0").name("unused")
    alerts = rows.key_by("user").process(Validate(), order="event_time")
    alerts.side_output("late").collect("late")
    plan = plan_of(env)
    assert chains(plan) == ["events", "process(Validate) -> late"]
    assert set(operator(plan, "process(Validate)").outputs) == {"late"}


def test_streams_without_event_time_have_no_hidden_columns() -> None:
    env = environment()
    events(env, timed=False).key_by("user").process(Validate()).collect("out")
    plan = plan_of(env)
    assert hidden(plan, "events") == []
    assert hidden(plan, "process(Validate)") == []


def test_the_watermark_of_a_row_reaches_the_operator_that_needs_it() -> None:
    env = environment()
    rows = events(env)
    near = rows.filter("value > 0").name("near")
    near.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()).name("counts").collect(
        "a"
    )
    rows.select("user").name("aside").collect("b")
    plan = plan_of(env)
    assert hidden(plan, "events") == ["__ts", "__wm"]
    assert hidden(plan, "near") == ["__ts", "__wm"]
    assert hidden(plan, "aside") == ["__ts"]
    assert hidden(plan, "counts") == ["__ts"]
    assert operator(plan, "aside").ports[0].schema.names[-2:] == ["__ts", "__wm"]


def test_windows_of_windows_forward_the_hidden_column() -> None:
    env = environment()
    minutes = events(env).key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
    hours = minutes.key_by("user").window(rh.Tumbling("1h")).aggregate(n=rh.agg.sum("n"))
    minutes.name("minutes")
    hours.name("hours").collect("out")
    plan = plan_of(env)
    assert hidden(plan, "minutes") == ["__ts", "__wm"]
    assert hidden(plan, "hours") == ["__ts"]


def test_all_inputs_of_a_union_have_the_same_hidden_columns() -> None:
    env = environment()
    one, other = events(env, name="one"), events(env, name="other").filter("value > 0")
    one.union(other).collect("united")
    one.key_by("user").process(Validate(), order="event_time").collect("ordered")
    plan = plan_of(env)
    assert hidden(plan, "one") == ["__ts", "__wm"]
    assert hidden(plan, "filter") == ["__ts", "__wm"]
    assert hidden(plan, "other") == ["__ts", "__wm"]


def test_a_process_in_arrival_order_forwards_hidden_columns() -> None:
    env = environment()
    alerts = events(env).key_by("user").process(Validate())
    alerts.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()).collect("out")
    plan = plan_of(env)
    assert hidden(plan, "events") == ["__ts", "__wm", "__swm"]
    assert hidden(plan, "process(Validate)") == ["__ts", "__wm"]


def test_the_streams_watermark_is_sent_only_to_a_process_in_arrival_order() -> None:
    env = environment()
    rows = events(env)
    rows.filter("value > 0").key_by("user").process(Validate()).uid("arrival").collect("one")
    rows.key_by("user").process(Validate(), order="event_time").collect("other")
    counts = rows.key_by("user").window(rh.Tumbling("1m")).aggregate(value=rh.agg.count())
    at = rh.col("window_end").dt.cast_time_unit("us")
    counts.name("counts")
    typed = counts.select("user", "value", kind="user", at=at)
    typed.key_by("user").process(Validate()).collect("third")
    plan = plan_of(env)
    assert hidden(plan, "events") == ["__ts", "__wm", "__swm"]
    assert hidden(plan, "filter") == ["__ts", "__swm"]
    assert hidden(plan, "counts") == ["__ts", "__swm"]
    assert hidden(plan, "process(Validate)") == ["__ts"]


def test_event_time_is_assigned_in_the_chain_of_its_source_or_refused() -> None:
    env = environment()
    rows = events(env).filter("value > 0")
    rows.with_event_time(rh.Watermark.monotonic(on="at")).key_by("user").process(Validate()).collect(
        "out"
    )
    plan = plan_of(env)
    assert chains(plan)[0] == "events -> filter -> with_event_time"
    assert hidden(plan, "events") == hidden(plan, "filter") == ["__ts", "__split"]
    assert hidden(plan, "with_event_time") == ["__ts", "__swm"]
    rows.set_parallelism(1)
    with pytest.raises(
        rh.ProgramError,
        match="this operator, or one upstream, has its own parallelism or chain",
    ):
        plan_of(env)


def test_ids_do_not_depend_on_names() -> None:
    def ids(*, named: bool) -> list[str]:
        env = environment()
        rows = events(env, name="named" if named else "events")
        kept = rows.filter("value > 0").filter("value > 1")
        if named:
            kept.name("kept")
        kept.key_by("user").process(Validate()).uid("alerts").collect("out")
        kept.map(lambda row: row, returns={"n": int}).collect("other")
        return [operator.id for operator in plan_of(env).operators()]

    assert ids(named=True) == ids(named=False)
    assert ids(named=False) == [
        "source-1",
        "filter-1",
        "filter-2",
        "map-1",
        "sink-2",
        "alerts",
        "sink-1",
    ]


def test_a_derived_id_does_not_collide_with_uids() -> None:
    env = environment()
    events(env).filter("value > 0").uid("filter-2").filter("value > 1").collect("out")
    ids = [operator.id for operator in plan_of(env).operators()]
    assert len(set(ids)) == len(ids)


def test_a_plan_can_be_pickled() -> None:
    env = environment()
    rows = events(env).with_columns("value * 2 AS twice").map(lambda row: row, returns={"user": str})
    rows.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()).collect("out")
    plan = plan_of(env)
    copy = cloudpickle.loads(cloudpickle.dumps(plan))
    assert chains(copy) == chains(plan)
    assert copy.edges == plan.edges
