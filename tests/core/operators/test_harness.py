"""A golden example of each keyed operator, replayed as a whole, row by row, restored and rescaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

import rheos as rh
from rheos.core.operators.running import RunningOperator
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart
from rheos.testing import OperatorExample, Right, check_example
from tests.core.operators.rows import SCHEMA, Row, row, values


@dataclass
class Told:
    k: str
    n: int
    what: str


SCRIPT = [
    row("a", 1, 10),
    row("b", 2, 12),
    row("a", 3, 11),
    WatermarkMark(10),
    row("c", 4, 15),
    row("b", 5, 13),
    WatermarkMark(14),
    row("a", 6, 12),
    row("c", 7, 31),
    WatermarkMark(30),
    row("b", 8, 33),
    row("c", 9, 32),
]


class Collecting(rh.KeyedProcessFunction):
    """Uses every kind of state, mutates a list in place, and sets timers."""

    n = rh.ValueState(int, default=0)
    seen = rh.ListState(int)
    by_value = rh.MapState(int, int)

    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Told]:
        self.n.value += 1
        self.seen.append(row.v)
        self.by_value[row.v] = ctx.timestamp
        ctx.timers.register(ctx.timestamp + 5)
        yield Told(row.k, self.n.value, str(list(self.seen)))

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Told]:
        yield Told(ctx.key, len(self.by_value), f"timer {timestamp}")
        if timestamp % 2:
            self.seen.clear()


def test_process_in_the_order_of_arrival() -> None:
    example = OperatorExample(
        lambda rows: rows.key_by("k").process(Collecting()), SCHEMA, SCRIPT, on="at"
    )
    out = check_example(example)["out"]
    assert [r["what"] for r in out if r["k"] == "b"] == [
        "[2]",
        "[2, 5]",
        "timer 17",
        "timer 18",
        "[8]",
        "timer 38",
    ]


def test_process_in_the_order_of_event_time() -> None:
    def ordered(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
        told = rows.key_by("k").process(Collecting(), order="event_time")
        return {"out": told, "late": told.side_output("late")}

    came = check_example(OperatorExample(ordered, SCHEMA, SCRIPT, on="at"))
    assert values(came["late"], "k", "v") == [("a", 6)]
    assert [r["what"] for r in came["out"] if r["k"] == "c"] == [
        "[4]",
        "timer 20",
        "[4, 7]",
        "[4, 7, 9]",
        "timer 36",
        "timer 37",
    ]


class BothSides(rh.KeyedCoProcessFunction):
    """Records its calls in order."""

    seen = rh.ListState(str)

    def process_element1(self, row: Row, ctx: rh.KeyedContext) -> None:
        self.seen.append(f"first {row.v}")
        ctx.timers.register(ctx.timestamp + 5)

    def process_element2(self, row: Row, ctx: rh.KeyedContext) -> None:
        self.seen.append(f"second {row.v}")

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Told]:
        yield Told(ctx.key, timestamp, ", ".join(self.seen))
        self.seen.clear()


def test_two_connected_streams_in_the_order_of_event_time() -> None:
    def ordered(first: rh.DataStream, second: rh.DataStream) -> Mapping[str, rh.DataStream]:
        both = first.key_by("k").connect(second.key_by("k"))
        told = both.process(BothSides(), order="event_time")
        return {"out": told, **{tag: told.side_output(tag) for tag in ("late_left", "late_right")}}

    script = [
        Right(row("a", 1, 10)),
        row("a", 2, 10),
        Right(row("b", 3, 13)),
        Right(row("a", 4, 16)),
        row("b", 5, 11),
        WatermarkMark(10),
        Right(row("a", 6, 10)),
        row("a", 7, 9),
        row("a", 8, 16),
        Right(row("a", 9, 14)),
        Right(row("a", 11, 15)),
        WatermarkMark(15),
        Right(row("b", 12, 17)),
    ]
    came = check_example(OperatorExample(ordered, SCHEMA, script, on="at", right=SCHEMA, right_on="at"))
    assert sorted(values(came["out"], "k", "n", "what")) == [
        # Of one time the first stream's come first, and a timer after all rows of its time.
        ("a", 15, "first 2, second 1, second 9, second 11"),
        ("a", 21, "first 8, second 4"),
        ("b", 16, "first 5, second 3"),
    ]
    assert values(came["late_left"], "v") == [(7,)]
    assert values(came["late_right"], "v") == [(6,)]


def test_event_time_assigned_downstream_of_the_source() -> None:
    later = rh.Watermark.bounded_out_of_orderness("3ms", on="v")
    came = check_example(OperatorExample(lambda rows: rows.with_event_time(later), SCHEMA, SCRIPT))
    assert values(came["out"], "v", "__ts") == [(v, v) for v in range(1, 10)]


def test_reduce() -> None:
    def largest(a: Row, b: Row) -> Row:
        return a if a.v >= b.v else b

    came = check_example(OperatorExample(lambda rows: rows.key_by("k").reduce(largest), SCHEMA, SCRIPT))
    assert values(came["out"], "k", "v") == [
        ("a", 1),
        ("a", 3),
        ("a", 6),
        ("b", 2),
        ("b", 5),
        ("b", 8),
        ("c", 4),
        ("c", 7),
        ("c", 9),
    ]


def test_running_aggregates() -> None:
    def running(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("k").running(
            n=rh.agg.count(), s=rh.agg.sum("v"), low=rh.agg.min("v"), mean=rh.agg.mean("v")
        )

    came = check_example(OperatorExample(running, SCHEMA, SCRIPT))
    assert values(came["out"], "k", "n", "s", "low", "mean")[:3] == [
        ("a", 1, 1, 1, 1.0),
        ("a", 2, 4, 1, 2.0),
        ("a", 3, 10, 1, 10 / 3),
    ]


@pytest.mark.parametrize(
    ("window", "lateness"),
    [
        (rh.Tumbling("10ms"), "4ms"),
        (rh.Sliding("10ms", every="5ms"), "0ms"),
        pytest.param(rh.Tumbling("10ms"), "0ms", marks=pytest.mark.slow),
        pytest.param(rh.Sliding("10ms", every="5ms"), "4ms", marks=pytest.mark.slow),
    ],
)
def test_windows(window: rh.Tumbling | rh.Sliding, lateness: str) -> None:
    def windowed(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
        counts = (
            rows.key_by("k")
            .window(window)
            .allowed_lateness(lateness)
            .aggregate(n=rh.agg.count(), s=rh.agg.sum("v"), d=rh.agg.count_distinct("v"))
        )
        return {"out": counts, "late": counts.side_output("late")}

    last_by = () if lateness == "0ms" else ("k", "window_end")
    check_example(OperatorExample(windowed, SCHEMA, SCRIPT, on="at", last_by=last_by))


def test_a_tumbling_window_by_hand() -> None:
    def windowed(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
        counts = rows.key_by("k").window(rh.Tumbling("5ms")).aggregate(s=rh.agg.sum("v"))
        return {"out": counts, "late": counts.side_output("late")}

    came = check_example(OperatorExample(windowed, SCHEMA, SCRIPT, on="at"))
    assert values(came["late"], "k", "v") == [("a", 6)]
    ends = [(r["k"], round(r["window_end"].timestamp() * 1000), r["s"]) for r in came["out"]]
    assert sorted(ends) == [("a", 15, 4), ("b", 15, 7), ("b", 35, 8), ("c", 20, 4), ("c", 35, 16)]


class Listing(rh.WindowFunction):
    def process(self, records: list[Row], ctx: rh.WindowContext) -> Iterator[Told]:
        yield Told(ctx.key, ctx.window.end_ms, str([record.v for record in records]))


def test_a_window_function() -> None:
    came = check_example(
        OperatorExample(
            lambda rows: rows.key_by("k").window(rh.Tumbling("10ms")).process(Listing()),
            SCHEMA,
            SCRIPT,
            on="at",
        )
    )
    assert values(came["out"], "k", "n", "what") == [
        ("a", 20, "[1, 3, 6]"),
        ("b", 20, "[2, 5]"),
        ("b", 40, "[8]"),
        ("c", 20, "[4]"),
        ("c", 40, "[7, 9]"),
    ]


@pytest.mark.usefixtures("all_replays")
def test_the_harness_finds_state_that_is_not_restored() -> None:
    class Forgetful(rh.KeyedProcessFunction):
        def __init__(self) -> None:
            self.n: dict[str, int] = {}

        def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Told]:
            self.n[row.k] = self.n.get(row.k, 0) + 1
            yield Told(row.k, self.n[row.k], "")

    example = OperatorExample(lambda rows: rows.key_by("k").process(Forgetful()), SCHEMA, SCRIPT)
    with pytest.raises(AssertionError, match="restored at every pause"):
        check_example(example)


@pytest.mark.usefixtures("all_replays")
def test_the_harness_finds_an_incomplete_savepoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(self: RunningOperator, snapshot: Snapshot) -> list[SnapshotPart]:
        return [replace(part, mode=PartMode.FULL) for part in snapshot.parts]

    monkeypatch.setattr(RunningOperator, "savepoint", told)
    keys = [row(key, 1, 10) for key in "abcdefgh"]
    script = [*keys, WatermarkMark(10), row("a", 1, 20), WatermarkMark(20), *keys]
    example = OperatorExample(
        lambda rows: rows.key_by("k").running(n=rh.agg.count()), SCHEMA, script, on="at"
    )
    with pytest.raises(AssertionError, match="from savepoints"):
        check_example(example)


def test_an_example_has_exactly_one_operator() -> None:
    example = OperatorExample(lambda rows: rows.filter("v > 1").filter("v > 2"), SCHEMA, SCRIPT)
    with pytest.raises(rh.ProgramError, match="one operator"):
        check_example(example)
