"""Functions of two streams, also without a key: their calls, results and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import RheosError, StateAccessError, UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS
from rheos.testing import Faults, simulate
from tests.core.operators.contexts import context

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
CALM = Faults(until_us=0)


@dataclass
class Click:
    user: str
    at: datetime


@dataclass
class Rule:
    name: str
    most: int


@dataclass
class Noted:
    what: str
    n: int


def clicks(env: rh.Environment, users: str) -> rh.DataStream:
    rows = [Click(user, START + timedelta(seconds=at)) for at, user in enumerate(users)]
    return env.from_source(rh.collection(rows, schema=Click), rh.Watermark.monotonic(on="at"))


def rules(env: rh.Environment, *given: Rule) -> rh.DataStream:
    return env.from_source(rh.collection(list(given)))


Built = rh.DataStream | Mapping[str, rh.DataStream]


def ran(build: Callable[[rh.Environment], Built], *, parallelism: int = 2) -> Mapping[str, list[Any]]:
    done = simulate(build, faults=CALM, parallelism=parallelism)
    return {
        name: sorted(map(tuple, map(dict.values, table.to_pylist())))
        for name, table in done.rows.items()
    }


# --- plain functions, and functions that map ----------------------------------------------------------


def of_click(click: Click) -> Noted:
    return Noted(click.user, 1)


def of_rule(rule: Rule) -> Noted:
    return Noted(rule.name, rule.most)


def several_of_rule(rule: Rule) -> Iterator[Noted]:
    for n in range(rule.most):
        yield Noted(rule.name, n)


def none_of_click(click: Click) -> list[Noted]:
    return []


class NumberedCheckpoint(rh.CoMapFunction):
    """Numbers the calls of both methods, which belong to one object."""

    def open(self) -> None:
        self.prefix = "a "

    def map1(self, click: Click) -> Noted:
        return Noted(self.prefix + click.user, 1)

    def map2(self, rule: Rule) -> Noted:
        return Noted(self.prefix + rule.name, rule.most)


class Repeated(rh.CoFlatMapFunction):
    seen = rh.OperatorListState(str)

    def flat_map1(self, click: Click) -> Iterator[Noted]:
        self.seen.append(click.user)
        yield Noted(click.user, len(self.seen))

    def flat_map2(self, rule: Rule) -> None: ...


@pytest.mark.parametrize(
    ("write", "found"),
    [
        (lambda both: both.map(of_click, of_rule), [("a", 1), ("b", 1), ("r", 2)]),
        (lambda both: both.flat_map(none_of_click, several_of_rule), [("r", 0), ("r", 1)]),
        (lambda both: both.map(NumberedCheckpoint()), [("a a", 1), ("a b", 1), ("a r", 2)]),
        (lambda both: both.flat_map(Repeated()), [("a", 1), ("b", 2)]),
    ],
    ids=["functions that map", "functions that give several", "a CoMapFunction", "a CoFlatMapFunction"],
)
def test_two_streams_become_one(write: Any, found: list[Any]) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        untimed = env.from_source(rh.collection([Click("a", START), Click("b", START)]))
        made: rh.DataStream = write(untimed.connect(rules(env, Rule("r", 2))))
        return made

    assert ran(build, parallelism=1)["out"] == found


# --- a function of one stream, with side outputs ------------------------------------------------------


class Sort(rh.ProcessFunction):
    side_outputs = {"others": Noted}

    def process_element(self, click: Click, ctx: rh.ProcessContext) -> Iterator[Noted]:
        if click.user == "a":
            yield Noted(click.user, ctx.timestamp - START_MS)
        else:
            ctx.output("others", Noted(click.user, ctx.timestamp - START_MS))


def test_unkeyed_functions_have_side_outputs_and_keep_event_time() -> None:
    def build(env: rh.Environment) -> Built:
        sorted_out = clicks(env, "aba").process(Sort())
        others = sorted_out.side_output("others")
        counted = others.key_by("what").window(rh.Tumbling("1s")).aggregate(n=rh.agg.count())
        return {"a": sorted_out, "windows": counted.select("what", "n", "window_start")}

    found = ran(build)
    assert found["a"] == [("a", 0), ("a", 2000)]
    assert found["windows"] == [("b", 1, START + timedelta(seconds=1))]


# --- broadcast streams --------------------------------------------------------------------------------


class Echo(rh.BroadcastProcessFunction):
    rules = rh.BroadcastState(str, int)

    def process_element(self, click: Click, ctx: rh.ProcessContext) -> None: ...

    def process_broadcast_element(self, rule: Rule, ctx: rh.ProcessContext) -> Iterator[Noted]:
        self.rules[rule.name] = rule.most
        self.rules.pop("gone", None)
        yield Noted(rule.name, len(self.rules))


def test_every_subtask_receives_every_broadcast_row() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        rows = env.from_source(rh.collection([Click("a", START)]))
        given = rules(env, Rule("x", 1), Rule("gone", 1), Rule("y", 3))
        return rows.connect(given.broadcast()).process(Echo())

    once = [("gone", 1), ("x", 1), ("y", 2)]
    assert ran(build, parallelism=3)["out"] == sorted(once * 3)


class Misused(rh.KeyedBroadcastProcessFunction):
    """Misuses state in the way that the rule tells."""

    rules = rh.BroadcastState(str, int)
    n = rh.ValueState(int, default=0)

    def __init__(self, of_click: Callable[[Any, Any], Any], of_rule: Callable[[Any, Any], Any]) -> None:
        self.of_click, self.of_rule = of_click, of_rule

    def process_element(self, click: Click, ctx: rh.KeyedContext) -> list[Noted]:
        return self.of_click(self, ctx) or []

    def process_broadcast_element(self, rule: Rule, ctx: rh.ProcessContext) -> list[Noted]:
        return self.of_rule(self, ctx) or []


def nothing(fn: Misused, ctx: Any) -> None: ...


def writes(fn: Misused, ctx: Any) -> None:
    fn.rules["x"] = 1


def writes_otherwise(fn: Misused, ctx: Any) -> None:
    fn.rules.update(x=1)


def writes_the_wrong_type(fn: Misused, ctx: Any) -> None:
    fn.rules["x"] = "a text"  # type: ignore[assignment]


def counts(fn: Misused, ctx: Any) -> None:
    fn.n.value += 1


def registers(fn: Misused, ctx: Any) -> None:
    ctx.timers.register(1)


def asks_for_the_key(fn: Misused, ctx: Any) -> list[Noted]:
    return [Noted(ctx.key, 1)]


def emits(fn: Misused, ctx: Any) -> list[Noted]:
    return [Noted("x", 1)]


@pytest.mark.parametrize(
    ("of_click", "of_rule", "kind", "what"),
    [
        (writes, nothing, StateAccessError, "broadcast state 'rules' was written where it is"),
        (writes_otherwise, nothing, StateAccessError, "was written where it is read-only"),
        (nothing, writes_the_wrong_type, StateAccessError, "but was assigned str 'a text'"),
        (nothing, counts, StateAccessError, "outside a keyed context"),
        (nothing, registers, StateAccessError, r"ctx\.timers needs a key, but there is no key here"),
        (nothing, asks_for_the_key, StateAccessError, r"ctx\.key needs a key, but there is no key"),
        (nothing, emits, UserFunctionError, "a row without event time"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_state_of_the_wrong_stream_is_an_error(
    of_click: Any, of_rule: Any, kind: Any, what: str
) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        given = rules(env, Rule("r", 1)).broadcast()
        return clicks(env, "a").key_by("user").connect(given).process(Misused(of_click, of_rule))

    with pytest.raises(RheosError, match=what) as raised:
        ran(build)
    assert isinstance(raised.value, kind)
    assert of_rule is not counts or "rows of the broadcast stream have no key" in raised.value.hint
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
    assert raised.value.record is not None
    assert ("a" in str(raised.value.key)) is (of_click is not nothing)


def test_a_broadcast_stream_without_event_time_does_not_hold_the_watermark() -> None:
    class Ends(rh.KeyedBroadcastProcessFunction):
        rules = rh.BroadcastState(str, int)

        def process_element(self, click: Click, ctx: rh.KeyedContext) -> None:
            ctx.timers.register(ctx.timestamp + 500)

        def process_broadcast_element(self, rule: Rule, ctx: rh.ProcessContext) -> None: ...

        def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Noted]:
            yield Noted(ctx.key, timestamp - START_MS)

    def build(env: rh.Environment) -> rh.DataStream:
        endless = rh.generator(
            lambda block: {"name": ["r"] * block.rows, "most": [1] * block.rows},
            rate_per_s=10,
            count=20,
            schema=pa.schema([("name", pa.string()), ("most", pa.int64())]),
        )
        given = env.from_source(endless).broadcast()
        ended = clicks(env, "abc").key_by("user").connect(given).process(Ends())
        return (
            ended.key_by("what")
            .window(rh.Tumbling("1s"))
            .aggregate(n=rh.agg.max("n"))
            .select("what", "n")
        )

    assert ran(build)["out"] == [("a", 500), ("b", 1500), ("c", 2500)]


# --- in batch -----------------------------------------------------------------------------------------


class Order(rh.KeyedCoProcessFunction):
    """Records its calls in order."""

    def process_element1(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Noted]:
        ctx.timers.register(ctx.timestamp + 5)
        yield Noted("first", ctx.timestamp)

    def process_element2(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Noted]:
        yield Noted("second", ctx.timestamp)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Noted]:
        yield Noted("timer", timestamp)


def test_in_batch_rows_and_timers_are_ordered_by_event_time() -> None:
    env = rh.Environment(1, runtime="batch")
    first, second = (clicks(env, "").key_by("user") for _ in range(2))
    first.connect(second).process(Order()).collect("out")
    [planned] = [op for op in env.plan().operators() if isinstance(op.spec, KeyedCoProcessSpec)]
    out = planned.outputs[MAIN]
    ctx = replace(context(out.schema, out.schema), ports=planned.ports, outputs={MAIN: out})
    operator = planned.spec.in_batch(ctx)
    operator.open({})
    given = [
        (0, "a", 10),
        (0, "b", 3),
        (1, "b", 8),
        (1, "b", 9),
        (1, "a", 10),
        (0, "a", 4),
        (1, "a", 30),
    ]
    called: list[Any] = []
    for until_ms in (20, MAX_TIMESTAMP_MS):
        for port, user, at in given if until_ms == 20 else ():
            hidden = {name: [0] for name in planned.ports[port].schema.names if name.startswith("__")}
            row = {"user": [user], "at": [datetime.fromtimestamp(0, UTC)], **hidden, TS: [at]}
            batch = pa.RecordBatch.from_pydict(row, schema=planned.ports[port].schema)
            assert not list(operator.on_batch(port, batch)), "all rows of a key are there first"
        for made in operator.on_watermark(until_ms):
            called += [(row["what"], row["n"]) for row in made.batch.to_pylist()]
    operator.close()
    assert called == [
        ("first", 3),
        ("first", 4),
        # A row at the time of a timer comes before it.
        ("second", 8),
        ("timer", 8),
        ("second", 9),
        ("timer", 9),
        ("first", 10),
        ("second", 10),
        ("timer", 15),
        ("second", 30),
    ]


def test_types_of_state_are_known_for_bootstrapping() -> None:
    spec = KeyedCoProcessSpec(Stated(), (None, None), ())
    assert spec.stored_types() == {"n": (int,), "names": (str, float)}


class Stated(Order):
    n = rh.ReducingState(int, max)
    names = rh.MapState(str, float)
