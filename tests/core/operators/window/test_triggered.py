"""Windows with triggers, evictors and assigners: timelines that the harness replays in every mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.streams import DataStream
from rheos.core.errors import InputError, ProgramError, SchemaError, UserFunctionError
from rheos.core.protocol.elements import WatermarkMark
from rheos.testing import OperatorExample, check_example

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
SAID = {"k": str, "start": int, "end": int, "values": str}
LENGTH = rh.Tumbling("10ms")
FIRE, CONTINUE = rh.TriggerResult.FIRE, rh.TriggerResult.CONTINUE


class Say(rh.WindowFunction):
    """Emits its arguments."""

    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterable[Any]:
        values = ",".join(str(record.v) for record in records)
        yield {"k": ctx.key, "start": ctx.window.start_ms, "end": ctx.window.end_ms, "values": values}


def decisions(text: str) -> list[Any]:
    """Parse a timeline: "a3 b5 |9 a12" are rows of keys a and b at 3, 5 and 12, whose values are their
    numbers from 1 on, and a watermark of 9."""
    script: list[Any] = []
    for word in text.split():
        if word[0] == "|":
            script.append(WatermarkMark(int(word[1:])))
        else:
            number = 1 + sum(isinstance(step, dict) for step in script)
            script.append({"k": word[0], "v": number, "at": int(word[1:])})
    return script


def said(*results: str) -> list[dict[str, Any]]:
    """Parse the output of `Say`: "a 0-10 1,2"."""
    found = []
    for result in results:
        key, window, values = result.split()
        start, end = map(int, window.split("-"))
        found.append({"k": key, "start": start, "end": end, "values": values})
    return found


def check(
    build: Callable[[DataStream], Any], text: str, *results: str, late: Sequence[int] | None = None
) -> None:
    def outputs(rows: DataStream) -> Any:
        out = build(rows)
        return {"out": out} if late is None else {"out": out, "late": out.side_output("late")}

    script = decisions(text)
    wanted = {"out": said(*results)}
    if late is not None:
        wanted["late"] = [row for row in script if isinstance(row, dict) and row["v"] in late]
    check_example(OperatorExample(outputs, SCHEMA, script, on="at"), wanted)


def fired_by(
    trigger: rh.Trigger, window: Any = LENGTH, evictor: rh.Evictor | None = None, lateness: str = "0s"
) -> Callable[[DataStream], DataStream]:
    def build(rows: DataStream) -> DataStream:
        windows = rows.key_by("k").window(window).trigger(trigger)
        if lateness != "0s":
            windows = windows.allowed_lateness(lateness)
        if evictor is not None:
            windows = windows.evictor(evictor)
        return windows.process(Say(), returns=SAID)

    return build


# --- built-in triggers ----------------------------------------------------------------------------


def test_a_count_trigger_fires_repeatedly_and_keeps_the_rows() -> None:
    check(
        fired_by(rh.triggers.count(2)),
        "a1 b2 a3 a4 a5 |20 a21",
        "a 0-10 1,3",
        "a 0-10 1,3,4,5",
    )


def test_purged_windows_start_empty() -> None:
    check(
        fired_by(rh.triggers.purging(rh.triggers.count(2))), "a1 a3 a4 a5", "a 0-10 1,2", "a 0-10 3,4"
    )


def test_windows_fire_early_and_late() -> None:
    trigger = rh.triggers.event_time(early=rh.triggers.count(2), late=rh.triggers.count(2))
    check(
        fired_by(trigger, lateness="20ms"),
        "a1 a2 a3 |12 a4 |15 a5 a6 |40 a7",
        "a 0-10 1,2",
        "a 0-10 1,2,3",
        # The count before the end is that of the early firings alone.
        "a 0-10 1,2,3,4,5",
        late=[7],
    )


def test_event_time_fires_again_for_each_row_after_the_end() -> None:
    check(
        fired_by(rh.triggers.event_time(), lateness="5ms"),
        "a1 |9 a2 a3 |14 a4",
        "a 0-10 1",
        "a 0-10 1,2",
        "a 0-10 1,2,3",
        late=[4],
    )


def test_continuous_event_time_fires_at_each_interval_and_at_the_end() -> None:
    check(
        fired_by(rh.triggers.continuous_event_time("4ms")),
        "a1 |3 a2 a5 |8 a9 |20",
        "a 0-10 1,2,3",
        "a 0-10 1,2,3",
        "a 0-10 1,2,3,4",
    )


def test_a_delta_trigger_fires_when_a_value_has_changed_enough() -> None:
    trigger = rh.triggers.delta(lambda row: row.at, 3)
    check(fired_by(trigger), "a1 a3 a5 a6 a9", "a 0-10 1,2,3", "a 0-10 1,2,3,4,5")


# --- triggers of one's own ------------------------------------------------------------------------


class SoonAfter(rh.Trigger):
    """Fires 3 ms after the first record, and again after five records."""

    first = rh.ValueState(int)
    numbers = rh.ListState(int)

    def on_element(self, record: Any, ctx: rh.TriggerContext) -> rh.TriggerResult:
        self.numbers.append(record.v)
        if self.first.value is None:
            self.first.value = record.at
            ctx.timers.register(record.at + 3)
        return FIRE if len(self.numbers) == 5 else CONTINUE

    def on_event_time(self, timestamp: int, ctx: rh.TriggerContext) -> rh.TriggerResult:
        return FIRE if timestamp == self.first.value + 3 else CONTINUE

    def on_merge(self, ctx: rh.TriggerContext) -> None:
        firsts: list[int] = []
        numbers: list[int] = []
        for _ in ctx.merged():
            firsts.append(self.first.value)
            numbers += self.numbers
        mine = [] if self.first.value is None else [self.first.value]
        self.first.value = min(firsts + mine)
        self.numbers.extend(numbers)
        if self.first.value + 3 > ctx.watermark:
            ctx.timers.register(self.first.value + 3)


def test_a_trigger_has_state_and_timers_by_key_and_window() -> None:
    check(
        fired_by(SoonAfter()),
        "a1 b1 a3 |4 a5 a6 a7 a11 |14",
        "a 0-10 1,3",
        "b 0-10 2",
        "a 0-10 1,3,4,5,6",
        "a 10-20 7",
    )


def test_merging_windows_merge_content_state_and_timers() -> None:
    check(
        fired_by(SoonAfter(), rh.Session("4ms")),
        "a1 a8 b2 a5 a9 |5 a10 |30",
        # a1 and a8 are sessions of their own until a5 comes; the first of them is due at 4.
        "b 2-6 3",
        "a 1-13 1,4,2,5",
        "a 1-14 1,4,2,5,6",
    )


def test_sessions_may_have_a_built_in_trigger() -> None:
    check(
        fired_by(rh.triggers.event_time(early=rh.triggers.count(3)), rh.Session("4ms")),
        "a1 a9 a5 |20 a22 |40",
        "a 1-13 1,3,2",
        "a 1-13 1,3,2",
        "a 22-26 4",
    )


# --- evictors -------------------------------------------------------------------------------------


def test_evictors_determine_the_remaining_rows() -> None:
    text = "a1 a2 a7 a8 |20"
    end = rh.triggers.event_time()
    check(fired_by(end, evictor=rh.evictors.count(2)), text, "a 0-10 3,4")
    check(fired_by(end, evictor=rh.evictors.time("2ms")), text, "a 0-10 3,4")
    check(fired_by(end, evictor=rh.evictors.delta(lambda row: row.v, 3)), text, "a 0-10 2,3,4")


def test_bounds_of_evictors_are_exclusive_as_in_flink() -> None:
    text = "a1 a2 a7 a8 |20"
    end = rh.triggers.event_time()
    check(fired_by(end, evictor=rh.evictors.time("1ms")), text, "a 0-10 4")
    check(fired_by(end, evictor=rh.evictors.time("6ms")), text, "a 0-10 3,4")
    check(fired_by(end, evictor=rh.evictors.delta(lambda row: row.v, 2)), text, "a 0-10 3,4")
    check(fired_by(end, evictor=rh.evictors.count(4)), text, "a 0-10 1,2,3,4")


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("numbers", [[1.0], [3, 1, 2, 2], [0, math.nan, 1], [2, 0, math.nan]])
def test_evictors_against_flinks_rules(bound: int, numbers: list[float]) -> None:
    """Compare with the loops of Flink 2's CountEvictor, TimeEvictor and DeltaEvictor."""
    elements = [rh.Element(number, 10 * at) for at, number in enumerate(numbers)]
    of: Any = None
    flink = {
        rh.evictors.count(bound): elements[max(len(elements) - bound, 0) :],
        rh.evictors.time(timedelta(milliseconds=10 * bound)): [
            e for e in elements if not e.timestamp <= elements[-1].timestamp - 10 * bound
        ],
        rh.evictors.delta(lambda number: number, bound): [
            e for e in elements if not abs(e.record - numbers[-1]) >= bound
        ],
    }
    for evictor, kept in flink.items():
        assert evictor.evict_before(list(elements), of) == kept, str(evictor)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: rh.evictors.count(-1),
        lambda: rh.evictors.count(True),
        lambda: rh.evictors.delta(abs, math.nan),
        lambda: rh.evictors.delta(abs, "3"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_bound_is_refused(wrong: Any) -> None:
    with pytest.raises(rh.ProgramError, match=r"test_triggered\.py"):
        wrong()


def test_rows_evicted_after_the_result_are_missing_in_the_next() -> None:
    check(
        fired_by(rh.triggers.count(2), evictor=rh.evictors.count(1, after=True)),
        "a1 a2 a3 a4",
        "a 0-10 1,2",
        "a 0-10 2,3,4",
    )


# --- windows of one's own, and without an end -----------------------------------------------------


class Around(rh.WindowAssigner):
    """Assigns two windows to each record: one that ends 5 ms after the next multiple of 10, and its
    own; none to a record at 0."""

    def assign(self, record: Any, timestamp: int, ctx: Any) -> list[rh.TimeWindow]:
        if timestamp == 0:
            return []
        tens = timestamp - timestamp % 10
        return [rh.TimeWindow(tens, tens + 15), rh.TimeWindow(timestamp, timestamp + 1)]


class Runs(rh.WindowAssigner):
    """Assigns sessions whose gap is the value."""

    merges = True

    def assign(self, record: Any, timestamp: int, ctx: Any) -> list[rh.TimeWindow]:
        return [rh.TimeWindow(timestamp, timestamp + record.v)]


def of(window: Any) -> Callable[[DataStream], DataStream]:
    return lambda rows: rows.key_by("k").window(window).process(Say(), returns=SAID)


def test_an_assigner_assigns_windows_to_each_record() -> None:
    check(
        of(Around()),
        "a0 a1 a3 |4 a2 |14 a4 a12",
        "a 1-2 2",
        "a 3-4 3",
        "a 0-15 2,4,3",
        # The windows of their own of a2 and a12 were over when they came, and so were all of a4.
        "a 10-25 6",
        late=[5],
    )


def test_an_assigner_may_have_merging_windows() -> None:
    check(of(Runs()), "a1 a2 a9 a5 |30", "a 1-4 1,2", "a 5-12 4,3")


@pytest.mark.parametrize(
    "gap",
    [pl.duration(milliseconds=rh.col("v")), lambda row: f"{row.v}ms"],
)
def test_the_gap_of_sessions_may_depend_on_rows(gap: Any) -> None:
    check(of(rh.Session(gap)), "a1 a2 a9 a5 |30", "a 1-4 1,2", "a 5-12 4,3")


def test_a_gap_must_be_positive() -> None:
    with pytest.raises(InputError, match="the gap of the session is 0 ms") as raised:
        check(of(rh.Session(rh.col("v") - 1)), "a1")
    assert raised.value.record == "Row(k='a', v=1, at=1)"


def test_global_windows_are_fired_by_a_trigger() -> None:
    def build(rows: DataStream) -> DataStream:
        windows = rows.key_by("k").window(rh.GlobalWindows()).trigger(rh.triggers.count(2))
        return windows.aggregate(n=rh.agg.count(), most=rh.agg.max("v"))

    rows = [{"k": "a", "n": 2, "most": 3}, {"k": "a", "n": 4, "most": 5}]
    check_example(OperatorExample(build, SCHEMA, decisions("a1 b1 a9 a2 a2"), on="at"), {"out": rows})


def test_count_windows_need_no_event_time() -> None:
    def tumbling(rows: DataStream) -> DataStream:
        return rows.key_by("k").window(rh.CountTumbling(2)).aggregate(total=rh.agg.sum("v"))

    def sliding(rows: DataStream) -> DataStream:
        return rows.key_by("k").window(rh.CountSliding(3, every=2)).aggregate(total=rh.agg.sum("v"))

    rows = decisions("a1 a2 b3 a4 a5 b6 a7")
    for build, second in ((tumbling, 9), (sliding, 11)):
        wanted = [{"k": "a", "total": 3}, {"k": "a", "total": second}, {"k": "b", "total": 9}]
        check_example(OperatorExample(build, SCHEMA, rows), {"out": wanted})


# --- what is computed -----------------------------------------------------------------------------


@dataclass
class Pair:
    k: str
    v: int
    at: int


@dataclass
class Spread:
    low: int
    high: int


@dataclass
class Wide:
    k: str
    end: int
    wide: int


class Range(rh.AggregateFunction[Spread]):
    def create_accumulator(self) -> Spread:
        return Spread(10**9, -1)

    def add(self, record: Pair, accumulator: Spread) -> Spread:
        accumulator.low = min(accumulator.low, record.v)
        accumulator.high = max(accumulator.high, record.v)
        return accumulator

    def get_result(self, accumulator: Spread) -> Spread:
        return accumulator

    def merge(self, a: Spread, b: Spread) -> Spread:
        return Spread(min(a.low, b.low), max(a.high, b.high))


class WithWindow(rh.WindowFunction):
    def process(self, records: list[Spread], ctx: rh.WindowContext) -> Iterator[Wide]:
        [spread] = records
        yield Wide(ctx.key, ctx.window.end_ms, spread.high - spread.low)


def larger(a: Pair, b: Pair) -> Pair:
    return a if a.v >= b.v else b


@pytest.mark.parametrize(
    ("window", "evictor"), [(rh.Tumbling("10ms"), rh.evictors.count(2)), (rh.Session("5ms"), None)]
)
def test_an_aggregate_function_may_have_a_window_function(
    window: Any, evictor: rh.Evictor | None
) -> None:
    def build(rows: DataStream) -> Any:
        windows = rows.key_by("k").window(window)
        if evictor is not None:
            windows = windows.evictor(evictor)
        return windows.aggregate(Range(), process=WithWindow())

    wide = 4 if evictor is None else 1
    first = 10 if isinstance(window, rh.Tumbling) else 13
    check_example(
        OperatorExample(build, SCHEMA, decisions("a1 b2 a3 a7 a8 |50"), on="at"),
        {
            "out": [
                {"k": "b", "end": 10 if first == 10 else 7, "wide": 0},
                {"k": "a", "end": first, "wide": wide},
            ][:: -1 if first == 10 else 1]
        },
    )


def test_reduce_returns_a_record_of_the_stream() -> None:
    def build(rows: DataStream) -> DataStream:
        return rows.key_by("k").window(LENGTH).reduce(larger)

    check_example(
        OperatorExample(build, SCHEMA, decisions("a1 b2 a3 a15 |50"), on="at"),
        {
            "out": [
                {"k": "a", "v": 3, "at": 3},
                {"k": "b", "v": 2, "at": 2},
                {"k": "a", "v": 4, "at": 15},
            ]
        },
    )


# --- errors ---------------------------------------------------------------------------------------


class Bad(rh.Trigger):
    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def on_element(self, record: Any, ctx: rh.TriggerContext) -> Any:
        if self.gives is None:
            raise ValueError("no")
        return self.gives


class BadEvictor(rh.Evictor):
    def evict_before(self, elements: Any, ctx: Any) -> Any:
        return 7 // 0 if elements[0].record.v == 1 else [1]


class Records(rh.Evictor):
    def evict_before(self, elements: Any, ctx: Any) -> Any:
        return [element.record for element in elements]


class BadAssigner(rh.WindowAssigner):
    def assign(self, record: Any, timestamp: int, ctx: Any) -> Any:
        if record.v == 1:
            raise ValueError("none")
        return [(5, 5)]


@pytest.mark.parametrize(
    ("build", "what", "own_line"),
    [
        (fired_by(Bad(None)), "ValueError: no", True),
        (fired_by(Bad("fire")), "the trigger returned 'fire'", False),
        (
            fired_by(rh.triggers.count(1), evictor=Records()),
            "the evictor returned Row.*, but must",
            False,
        ),
        (fired_by(rh.triggers.count(1), evictor=BadEvictor()), "ZeroDivisionError", True),
        (of(BadAssigner()), "ValueError: none", True),
    ],
)
def test_errors_have_line_record_key_and_window(build: Any, what: str, own_line: bool) -> None:
    with pytest.raises(UserFunctionError, match=what) as raised:
        check(build, "a1 a2 |20")
    error = raised.value
    assert error.site is not None
    assert error.site.file == __file__
    assert error.key == "'a'"
    assert "Row(k='a', v=1, at=1)" in str(error.record)


def windows(window: Any) -> Any:
    env = rh.Environment()
    source = rh.collection([{"k": "a", "v": 1, "at": 1}])
    rows = env.from_source(source, watermark=rh.Watermark.monotonic(on="at"))
    return rows.key_by("k").window(window)


class NoMerge(rh.AggregateFunction[int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, record: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> Wide:
        return Wide("", 0, accumulator)


class Untyped(NoMerge):
    def create_accumulator(self):  # type: ignore[no-untyped-def]
        return 0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (
            lambda: windows(rh.Session("1s")).trigger(Bad(None)).aggregate(n=rh.agg.count()),
            "Bad does not support merging, but",
        ),
        (
            lambda: (
                windows(rh.Session("1s"))
                .trigger(rh.triggers.purging(rh.triggers.event_time(early=Bad(None))))
                .aggregate(n=rh.agg.count())
            ),
            "Bad does not support merging, but",
        ),
        (lambda: windows(rh.Session("1s")).aggregate(NoMerge()), "NoMerge has no merge"),
        (lambda: windows(rh.GlobalWindows()).aggregate(n=rh.agg.count()), "never end"),
        (lambda: windows(rh.CountTumbling(0)), "at least 1"),
        (
            lambda: (
                windows(rh.CountTumbling(2)).evictor(rh.evictors.count(1)).aggregate(n=rh.agg.count())
            ),
            "count windows have a fixed trigger and evictor",
        ),
        (lambda: windows(rh.CountTumbling(2)).allowed_lateness("1s"), "no row is late"),
        (lambda: windows(LENGTH).trigger(Bad), "takes an instance"),
        (lambda: windows(LENGTH).trigger(7), "takes a Trigger, not 7"),
        (lambda: windows(LENGTH).evictor(Bad(None)), "takes an Evictor"),
        (lambda: windows(rh.Tumbling("1s", time="wall")), "'wall' is not known"),  # type: ignore[arg-type]
        (lambda: windows(rh.Session(7)), "the gap of a session must be a duration, or an expression"),
        (lambda: windows(rh.Session(rh.col("k"))), "the gap of a session must be a duration or an"),
        (lambda: windows(rh.Cumulating("1h", step="7m")), "equal steps"),
        (lambda: rh.triggers.count(0), "at least 1"),
        (lambda: rh.triggers.purging(3), "is not a trigger"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_refused_at_their_line(call: Callable[[], Any], what: str) -> None:
    with pytest.raises(ProgramError, match=what) as raised:
        call()
    assert raised.value.site is not None
    assert raised.value.site.file == __file__


def test_the_type_of_an_accumulator_is_required() -> None:
    with pytest.raises(SchemaError, match="does not declare the type of its accumulator"):
        windows(LENGTH).aggregate(Untyped())


# --- early results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trigger",
    [
        rh.triggers.count(3),
        rh.triggers.event_time(early=rh.triggers.count(2), late=rh.triggers.count(1)),
        rh.triggers.event_time(early=rh.triggers.continuous_event_time("2ms")),
        rh.triggers.purging(rh.triggers.continuous_event_time("3ms")),
    ],
    ids=str,
)
def test_early_results_of_one_split_do_not_depend_on_the_size_of_batches(trigger: rh.Trigger) -> None:
    draw = Random(7)
    times = [max(0, at + draw.randint(-6, 0)) for at in range(300)]
    rows = [{"k": draw.choice("ab"), "v": v, "at": at} for v, at in enumerate(times)]
    found = []
    for batch_rows in (1, 7, 1000):
        env = rh.Environment(1, runtime="simulated", batch_rows=batch_rows)
        stream = env.from_source(
            rh.collection(pa.Table.from_pylist(rows, SCHEMA)),
            watermark=rh.Watermark.bounded_out_of_orderness("3ms", on="at"),
        )
        windows = stream.key_by("k").window(LENGTH).allowed_lateness("4ms").trigger(trigger)
        windows.process(Say(), returns=SAID).collect("out")
        found.append(env.execute("early").collected["out"].to_pylist())
    assert len(found[0]) > 60
    assert found[0] == found[1] == found[2]
