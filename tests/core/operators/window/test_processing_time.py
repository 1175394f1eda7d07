"""Windows of processing time: in columns, as with their default trigger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.checkpoint.compatibility import compare, refusals
from rheos.core.errors import UnrestorableError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.windows import Window
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.ids import OperatorId
from rheos.testing import Harness
from tests.core.operators.window.harness import Bench, aggregate_schema, context

WINDOWS = {
    "tumbling": rh.Tumbling("100ms", time="processing_time"),
    "shifted": rh.Tumbling("100ms", offset="30ms", time="processing_time"),
    "sliding": rh.Sliding("100ms", every="30ms", time="processing_time"),
    "with gaps": rh.Sliding("30ms", every="100ms", gaps=True, time="processing_time"),
    "cumulating": rh.Cumulating("90ms", step="30ms", time="processing_time"),
    "session": rh.Session("50ms", time="processing_time"),
    "of a zone": rh.Tumbling("1h", zone="Europe/Berlin", time="processing_time"),
}
ZONED = {
    "hops of a zone": rh.Sliding("3h", every="1h", zone="Europe/Berlin", time="processing_time"),
    "steps of a zone": rh.Cumulating("1d", step="1h", zone="Europe/Berlin", time="processing_time"),
}
AGGREGATES: Mapping[str, Any] = {
    "n": rh.agg.count(),
    "total": rh.agg.sum("v"),
    "first": rh.agg.first("v"),
    "all": rh.agg.collect("v"),
    "median": rh.agg.quantile("v", 0.5),
    "last": rh.col("v").last(),
}
COLUMNS = {"k": str, "v": int, "at": datetime}
SAID = {"k": str, "start": int, "end": int, "values": str}
GIVEN, CLOCK, RESTART = "given", "clock", "restart"


class Values(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[dict[str, Any]]:
        values = ",".join(str(record.v) for record in records)
        yield {"k": ctx.key, "start": ctx.window.start_ms, "end": ctx.window.end_ms, "values": values}


def program(window: Window, trigger: rh.Trigger | None) -> Any:
    def build(rows: rh.DataStream) -> dict[str, rh.DataStream]:
        windows = rows.key_by("k").window(window)
        if trigger is not None:
            windows = windows.trigger(trigger)
        return {
            "aggregates": windows.aggregate(**AGGREGATES),
            "functions": windows.process(Values(), returns=SAID),
        }

    return build


# Times are multiples of 10 ms, so no row arrives in the last ms of a window, after the trigger.
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just(GIVEN),
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=6),
        ),
        st.tuples(st.just(CLOCK), st.integers(1, 20)),
        st.tuples(st.just(RESTART), st.none()),
    ),
    min_size=3,
    max_size=20,
)


def outputs(window: Any, trigger: rh.Trigger | None, steps: Sequence[Any], event_time: bool) -> Any:
    """Return the sorted output of each step."""
    found, arrived = [], 0
    on = "at" if event_time else None
    with Harness(program(window, trigger), COLUMNS, event_time=on) as harness:
        for step, by in steps:
            if step == GIVEN:
                rows = []
                for key, value in by:
                    arrived += 1
                    at = datetime.fromtimestamp(value * 1000 + arrived, UTC)
                    rows.append({"k": key, "v": value, "at": at})
                harness.give(*rows)
            elif step == CLOCK:
                harness.advance(f"{by * 10}ms")
            else:
                harness.restart()
            found.append([sorted(map(repr, harness.take(name))) for name in harness.outputs])
    return found


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(sorted(WINDOWS)), STEPS, st.booleans())
def test_columns_have_the_results_of_the_default_trigger(
    name: str, steps: Sequence[Any], event_time: bool
) -> None:
    steps = [*steps, (CLOCK, 360_000)]
    window = WINDOWS[name]
    expected = outputs(window, rh.triggers.processing_time(), steps, event_time)
    assert outputs(window, None, steps, event_time) == expected


# --- subtasks ---------------------------------------------------------------------------------------


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def now_ns(self) -> int:
        return self.ms * 1_000_000

    def monotonic_us(self) -> int:
        return self.ms * 1000


SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
SUMS = {"n": rh.agg.count(), "total": rh.agg.sum("v")}


class ClockBench(Bench):
    """Subtasks of windows of processing time, and their clock."""

    @classmethod
    def of(cls, window: Window, parallelism: int = 1) -> ClockBench:
        clock, spec = SetClock(), WindowSpec(window, 0, SUMS)
        out = {MAIN: aggregate_schema(SCHEMA, ["k"], SUMS)}

        def make(subtask: int, parallelism: int) -> Any:
            ctx = context(SCHEMA, ["k"], out, subtask=subtask, parallelism=parallelism)
            return spec.operator(replace(ctx, clock=clock))

        bench = cls(make, ["k"], SCHEMA, parallelism)
        bench.clock = clock
        return bench

    clock: SetClock

    def give(self, keys: str) -> None:
        self.rows([{"k": key, "v": at, "ts": 0} for at, key in enumerate(keys)])

    def wake(self, *, only: int | None = None) -> list[dict[str, Any]]:
        """Wake the subtasks that are due, or the one with this number."""
        came = []
        for operator in self.subtasks:
            due = operator.next_processing_time_ms()
            if due is not None and due <= self.clock.ms and only in (None, operator.ctx.subtask):
                came += self.collect(operator.on_processing_time(self.clock.ms))
        return came


def results(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return key, start, end and aggregates, sorted."""
    ms = [
        {**row, **{n: row[n].timestamp() * 1000 for n in row if n.startswith("window_")}}
        for row in rows
    ]
    return sorted(
        (row["k"], row["window_start"], row["window_end"], row["n"], row["total"]) for row in ms
    )


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["tumbling", "sliding", "cumulating", "session"]),
    st.lists(
        st.tuples(
            st.text("abcdefgh", min_size=1, max_size=8),
            # Multiples of the minimum time between wake-ups, which each subtask has for itself.
            st.integers(0, 24).map(lambda rests: 5 * rests),
            st.sampled_from([None, 1, 2, 3]),
            st.booleans(),
        ),
        min_size=1,
        max_size=10,
    ),
)
def test_each_window_fires_once_at_any_parallelism(name: str, steps: Sequence[Any]) -> None:
    alone, bench = ClockBench.of(WINDOWS[name]), ClockBench.of(WINDOWS[name], 2)
    for keys, ms, parallelism, is_slow in steps:
        for each in (alone, bench):
            each.give(keys)
            each.clock.ms += ms
        # In the others the clock of the barrier is later than that of a slow subtask.
        bench.wake(only=0 if is_slow else None)
        if parallelism is not None:
            bench.restart(parallelism)
        bench.wake()
        alone.wake()
        assert results(bench.out) == results(alone.out)
    for each in (alone, bench):
        each.clock.ms += 200
        each.wake()
        assert all(operator.next_processing_time_ms() is None for operator in each.subtasks)
    assert results(bench.out) == results(alone.out)
    if name in ("tumbling", "session"):
        assert sum(row["n"] for row in bench.out) == sum(len(keys) for keys, *_ in steps)


def test_a_window_fires_once_when_its_last_ms_is_over() -> None:
    bench = ClockBench.of(WINDOWS["tumbling"])
    bench.give("a")
    bench.clock.ms = 99
    assert bench.wake() == []
    bench.give("aa")
    bench.clock.ms = 100
    assert results(bench.wake()) == [("a", 0, 100, 3, 1)]
    bench.give("a")
    bench.clock.ms = 200
    assert results(bench.wake()) == [("a", 100, 200, 1, 0)]


def test_windows_that_end_shortly_after_others_fire_together() -> None:
    bench = ClockBench.of(WINDOWS["session"])
    fired = []
    for ms in range(80):
        bench.clock.ms = ms
        if ms < 20:
            bench.give(chr(ord("a") + ms))
        if came := bench.wake():
            fired.append((ms, len(came)))
    assert fired == [(50, 1), (55, 5), (60, 5), (65, 5), (70, 4)]


def test_a_row_after_the_end_of_a_window_that_has_not_fired_is_not_in_it() -> None:
    bench = ClockBench.of(WINDOWS["session"])
    for ms, key in enumerate("ab"):
        bench.clock.ms = ms
        bench.give(key)
    bench.clock.ms = 50
    assert results(bench.wake()) == [("a", 0, 50, 1, 0)]
    bench.clock.ms = 52
    assert bench.wake() == []
    bench.give("b")
    bench.clock.ms = 200
    assert results(bench.wake()) == [("b", 1, 51, 1, 0), ("b", 52, 102, 1, 0)]


def test_windows_that_ended_while_the_job_was_down_fire_at_once() -> None:
    bench = ClockBench.of(WINDOWS["session"])
    bench.give("ab")
    bench.checkpoint()
    bench.clock.ms = 10_000
    bench.restore(bench.chains, 2)
    assert results(bench.wake()) == [("a", 0, 50, 1, 0), ("b", 0, 50, 1, 1)]


def test_rows_are_not_late_if_the_clock_goes_back() -> None:
    bench = ClockBench.of(WINDOWS["tumbling"])
    bench.clock.ms = 150
    bench.give("a")
    bench.clock.ms = 200
    assert len(bench.wake()) == 1
    bench.clock.ms = 20
    bench.give("a")
    bench.clock.ms = 300
    assert results(bench.wake()) == [("a", 200, 300, 1, 0)]
    assert bench.count("late") == 0


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([*sorted(WINDOWS), "hops of a zone", "steps of a zone"]),
    st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=4), st.integers(0, 60), st.booleans()),
        min_size=1,
        max_size=10,
    ),
)
def test_open_windows_are_counted_when_the_input_ends(name: str, steps: Sequence[Any]) -> None:
    window, unit = WINDOWS.get(name) or ZONED[name], 60_000 if "zone" in name else 1
    ended, fired = ClockBench.of(window), ClockBench.of(window)
    for bench in (ended, fired):
        # Shortly before the clocks of Berlin go forward from 02:00 to 03:00.
        bench.clock.ms = 1_774_743_600_000
        for keys, after, is_restarted in steps:
            bench.give(keys)
            bench.clock.ms += after * unit
            bench.wake()
            if is_restarted:
                bench.restart(1)
    fired.wake()
    open_windows = -len(fired.out)
    fired.clock.ms += 40 * 3_600_000
    fired.wake()
    open_windows += len(fired.out)
    [operator] = ended.subtasks
    assert ended.collect(operator.on_end()) == []
    assert ended.count("dropped_processing_timers") == open_windows
    assert operator.next_processing_time_ms() is None


def test_open_windows_are_counted_without_pairs_of_row_and_window() -> None:
    bench = ClockBench.of(rh.Sliding("1h", every="5ms", time="processing_time"))
    for _ in range(20):
        bench.give("abcdefgh")
        bench.clock.ms += 1000
    [operator] = bench.subtasks
    # There are more than 100 million pairs, of 160 rows of state.
    assert bench.collect(operator.on_end()) == []
    ends_of_a_row, ends_of_a_second = 3_600_000 // 5, 1000 // 5
    assert bench.count("dropped_processing_timers") == 8 * (ends_of_a_row + 19 * ends_of_a_second)


# --- changes of the program -------------------------------------------------------------------------


def states(window: Window, trigger: rh.Trigger | None = None, *, function: bool = False) -> Any:
    env = rh.Environment(runtime="simulated")
    rows = env.from_source(
        rh.collection([{"k": "a", "v": 1, "at": 1}]),
        watermark=rh.Watermark.bounded_out_of_orderness("1s", on="at"),
    )
    windows = rows.key_by("k").window(window)
    if trigger is not None:
        windows = windows.trigger(trigger)
    if function:
        windows.process(Values(), returns=SAID).uid("w").collect("n")
    else:
        windows.aggregate(n=rh.agg.count()).uid("w").collect("n")
    id = OperatorId("w")
    return {id: state_shapes(env.plan().operators())[id]}


def test_state_of_the_other_clock_is_refused() -> None:
    by_event_time = rh.Tumbling("100ms")
    [finding, *_] = compare(states(by_event_time), states(WINDOWS["tumbling"]), {})
    assert (finding.refused, finding.text) == (True, "was event_time, is now processing_time")
    bench = Bench.of_aggregates(by_event_time, SUMS, SCHEMA)
    bench.rows([{"k": "a", "v": 1, "ts": 5}])
    bench.checkpoint()
    with pytest.raises(UnrestorableError, match=r"now declares windows .* in processing time"):
        ClockBench.of(WINDOWS["tumbling"]).restore(bench.chains, 1)


@pytest.mark.parametrize("function", [False, True])
def test_state_of_a_trigger_is_refused_with_the_way_to_keep_it(function: bool) -> None:
    window = WINDOWS["tumbling"]
    before = states(window, rh.triggers.processing_time(), function=function)
    error = refusals(compare(before, states(window, function=function), {}), allow_dropped=False)
    assert error is not None
    assert "keep their trigger, such as .trigger(rh.triggers.processing_time())" in str(error.hint)
    assert refusals(compare(before, before, {}), allow_dropped=False) is None


def test_state_of_a_trigger_may_be_dropped_as_the_hint_for_sql_says() -> None:
    window = WINDOWS["session"]
    changes = list(compare(states(window, rh.triggers.processing_time()), states(window), {}))
    error = refusals(changes, allow_dropped=False)
    assert error is not None
    assert "SQL has no triggers, so there the windows can only start empty" in str(error.hint)
    assert refusals(changes, allow_dropped=True) is None


def test_rows_keep_the_order_of_their_arrival_after_a_restart() -> None:
    steps = [(GIVEN, [("a", 0), ("a", 2)]), (RESTART, None), (GIVEN, [("a", 1)]), (CLOCK, 20)]
    [*_, [aggregates, functions]] = outputs(WINDOWS["tumbling"], None, steps, event_time=False)
    assert "'first': 0" in aggregates[0]
    assert "'last': 1" in aggregates[0]
    assert "'values': '0,2,1'" in functions[0]


@pytest.mark.parametrize("trigger", [None, rh.triggers.processing_time()])
@pytest.mark.parametrize("name", ["tumbling", "session"])
def test_no_row_is_late_by_event_time(name: str, trigger: rh.Trigger | None) -> None:
    with Harness(program(WINDOWS[name], trigger), COLUMNS, event_time="at") as harness:
        harness.watermark(datetime(2100, 1, 1, tzinfo=UTC))
        harness.give({"k": "a", "v": 1, "at": datetime(2099, 1, 1, tzinfo=UTC)})
        harness.advance("200ms")
        assert len(harness.take("aggregates")) == 1
