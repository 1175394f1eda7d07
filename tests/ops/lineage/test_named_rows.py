"""The input rows that lineage names are exactly those that led to the output row.

The oracle is in the programs: every input row has a bit of its own, and each computed row carries
the bits of its inputs. So each output row itself shows those rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.ops.lineage.answer import ExplainedRow
from tests.ops.lineage.traced import explained

_ROWS = 50


@dataclass
class Event:
    bit: int
    user: str
    kind: str
    at: int


@dataclass
class Made:
    user: str
    bits: int
    at: int


def events(draw: random.Random, first_bit: int = 0) -> list[dict[str, Any]]:
    """Return rows of several splits, out of order, some of them late."""
    at, rows = 0, []
    for n in range(first_bit, first_bit + _ROWS):
        at += draw.randrange(0, 6)
        rows.append(
            {
                "bit": 1 << n % 62,
                "user": draw.choice("abc"),
                "kind": draw.choice(["put", "put", "put", "take"]),
                "at": max(0, at - draw.choice([0, 0, 2, 5, 20])),
            }
        )
    return rows


def source(env: rh.Environment, draw: random.Random, name: str = "in") -> rh.DataStream:
    rows = rh.collection(events(draw), Event)
    return env.from_source(rows, rh.Watermark.bounded_out_of_orderness("4ms", on="at"), name=name)


def bits(row: ExplainedRow, *sources: str) -> int:
    found = 0
    for input in row.inputs:
        if not sources or input.source in sources:
            assert not found & input.row["bit"], "no row is named twice"
            found |= input.row["bit"]
    return found


def check(build: Callable[[rh.Environment], rh.DataStream], folder: Path, least: int = 5) -> None:
    """Check that exactly the rows named for each output row led to it."""
    rows = explained(lambda env: {"out": build(env)}, folder)["out"]
    assert len(rows) >= least, "the program gives rows"
    for row in rows:
        assert row.exact, row.steps
        assert bits(row) == row.row["bits"], row.row


WINDOWS = {
    "tumbling": rh.Tumbling("20ms"),
    "sliding": rh.Sliding("20ms", every="5ms"),
    "session": rh.Session("5ms"),
    "cumulating": rh.Cumulating("40ms", step="10ms"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lateness", ["0ms", "10ms"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_name_rows_that_are_not_late(
    kind: str, lateness: str, seed: int, tmp_path: Path
) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        rows = source(env, random.Random(seed)).filter(rh.col("kind") == "put").key_by("user")
        windows = rows.window(WINDOWS[kind]).allowed_lateness(lateness)
        return windows.aggregate(bits=rh.agg.sum("bit"))

    check(build, tmp_path)


class BitsOf(rh.WindowFunction):
    def process(self, records: list[Event], ctx: rh.WindowContext) -> Iterator[Made]:
        yield Made(ctx.key, sum(r.bit for r in records), ctx.window.end_ms)
        for record in records:
            if record.kind == "take":
                yield Made(ctx.key, sum(r.bit for r in records), record.at)


@pytest.mark.parametrize("kind", WINDOWS)
def test_window_functions_name_their_rows(kind: str, tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        return source(env, random.Random(7)).key_by("user").window(WINDOWS[kind]).process(BitsOf())

    check(build, tmp_path)


def test_two_phase_windows_name_their_rows(tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        rows = source(env, random.Random(3))
        return rows.window_all(rh.Sliding("20ms", every="10ms")).aggregate(bits=rh.agg.sum("bit"))

    check(build, tmp_path)


def test_running_aggregates_and_reduce_name_their_rows(tmp_path: Path) -> None:
    def running(env: rh.Environment) -> rh.DataStream:
        return source(env, random.Random(1)).key_by("user").running(bits=rh.agg.sum("bit"))

    check(running, tmp_path / "1")

    def reduced(env: rh.Environment) -> rh.DataStream:
        rows = source(env, random.Random(2)).map(lambda r: Made(r.user, r.bit, r.at), returns=Made)
        return rows.key_by("user").reduce(lambda a, b: Made(a.user, a.bits | b.bits, b.at))

    check(reduced, tmp_path / "2")


def test_a_match_names_its_rows(tmp_path: Path) -> None:
    pattern = (
        rh.pattern.begin("put")
        .where(rh.col("kind") == "put")
        .followed_by("take")
        .where(rh.col("kind") == "take")
        .within("20ms")
    )

    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        found = source(env, random.Random(9)).key_by("user").detect(pattern)
        bits = rh.col("put").struct.field("bit") + rh.col("take").struct.field("bit")
        begun = rh.col("put").struct.field("bit")
        return {
            "out": found.select(bits=bits),
            "over": found.side_output("timed_out").select(bits=begun),
        }

    for rows in explained(build, tmp_path).values():
        assert rows
        for row in rows:
            assert row.exact
            assert bits(row) == row.row["bits"]


# --- functions with state and timers ------------------------------------------------------------------


class Basket(rh.KeyedProcessFunction):
    """Function that emits the items put since the last one was taken, or some time after the first."""

    basket = rh.ListState(int)
    until = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Made]:
        if event.kind == "take":
            yield Made(event.user, sum(self.basket) | event.bit, event.at)
            self.basket.clear()
            return
        self.basket.append(event.bit)
        if not self.until.value:
            self.until.value = event.at + 30
            ctx.timers.register(event.at + 30)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Made]:
        yield Made(ctx.key, sum(self.basket), timestamp)
        self.basket.clear()
        self.until.clear()


class Latest(rh.KeyedProcessFunction):
    """Function that overwrites values and map items: overwritten ones no longer count."""

    last = rh.MapState(str, int)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Made]:
        if event.kind == "put":
            self.last[event.kind] = event.bit
            return
        yield Made(event.user, event.bit | self.last.get("put", 0), event.at)
        self.last["taken"] = event.bit


class Total(rh.KeyedProcessFunction):
    bits = rh.ReducingState(int, lambda a, b: a | b)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Made]:
        if event.kind == "put":
            self.bits.add(event.bit)
        else:
            yield Made(event.user, (self.bits.value or 0) | event.bit, event.at)


class InPlace(rh.KeyedProcessFunction):
    """Function that changes a value in place."""

    bits = rh.ValueState(list[int], default=[])

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Made]:
        self.bits.value.append(event.bit)
        yield Made(event.user, sum(self.bits.value), event.at)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ["arrival", "event_time"])
@pytest.mark.parametrize("function", [Latest, Total, InPlace])
def test_functions_name_the_rows_in_their_state(
    function: type[rh.KeyedProcessFunction], order: Any, seed: int, tmp_path: Path
) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        return source(env, random.Random(seed)).key_by("user").process(function(), order=order)

    check(build, tmp_path)


def test_a_timer_also_names_the_row_that_set_it(tmp_path: Path) -> None:
    """The row that set the timer may have been taken from the basket since."""
    out = explained(
        lambda env: {"out": source(env, random.Random(5)).key_by("user").process(Basket())}, tmp_path
    )["out"]
    by_timer = [row for row in out if row.steps[-1].firings]
    assert 0 < len(by_timer) < len(out)
    for row in out:
        (firing,) = row.steps[-1].firings or [None]
        if firing is None:
            assert bits(row) == row.row["bits"]
        else:
            set_by = [i for i in row.inputs if i.event_time_ms == firing.timer_ms - 30]
            assert set_by, "the row that set it is among them"
            assert firing.timer_ms == row.row["at"]
            assert firing.key == {"user": row.row["user"]}
            assert firing.watermark_ms is not None
            assert firing.watermark_ms >= firing.timer_ms
            extra = bits(row) & ~row.row["bits"]
            assert extra in (0, *(i.row["bit"] for i in set_by))


# --- several streams ----------------------------------------------------------------------------------


def two(env: rh.Environment, seed: int) -> tuple[rh.DataStream, rh.DataStream]:
    draw = random.Random(seed)
    streams = []
    for name in ("left", "right"):
        stream = source(env, draw, name)
        streams.append(stream.map(lambda r: Made(r.user, r.bit, r.at), returns=Made))
    left, right = streams
    renamed = right.select(who=rh.col("user"), there=rh.col("bits"), when=rh.col("at"))
    return left, renamed


JOINS = {
    "interval": lambda one, other: one.interval_join(other, between=("-5ms", "5ms")),
    "left": lambda one, other: one.interval_join(other, between=("-1ms", "1ms"), how="left"),
    "full": lambda one, other: one.interval_join(other, between=("-1ms", "1ms"), how="full"),
    "temporal": lambda one, other: one.temporal_join(other, how="left"),
    "window": lambda one, other: one.window_join(other, rh.Tumbling("10ms"), how="full"),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("join", JOINS)
def test_joins_name_both_rows(join: str, seed: int, tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        left, right = two(env, seed)
        return JOINS[join](left.key_by("user"), right.key_by("who"))

    rows = explained(lambda env: {"out": build(env)}, tmp_path)["out"]
    assert len(rows) > 10
    for row in rows:
        assert row.exact
        assert bits(row, "left") == (row.row["bits"] or 0), row.row
        assert bits(row, "right") == (row.row["there"] or 0), row.row


def test_equal_rows_are_told_apart_in_joins(tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        left, right = (
            env.from_source(
                rh.collection([{"user": "a", "at": 1}] * 2), rh.Watermark.monotonic(on="at"), name=name
            )
            for name in ("left", "right")
        )
        return left.key_by("user").interval_join(
            right.select(who=rh.col("user"), when=rh.col("at")).key_by("who"), between=("0ms", "0ms")
        )

    rows = explained(lambda env: {"out": build(env)}, tmp_path)["out"]
    pairs = {tuple((i.source, i.place) for i in row.inputs) for row in rows}
    assert (len(rows), len(pairs)) == (4, 4)


class Both(rh.CoGroupFunction):
    def co_group(self, left: list[Any], right: list[Any], ctx: rh.WindowContext) -> Iterator[Made]:
        yield Made(ctx.key, sum(r.bits for r in left), sum(r.there for r in right))


def test_co_group_names_rows_of_both_sides(tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        left, right = two(env, 4)
        return left.key_by("user").co_group(right.key_by("who"), rh.Tumbling("20ms"), Both())

    rows = explained(lambda env: {"out": build(env)}, tmp_path)["out"]
    for row in rows:
        assert row.exact
        assert (bits(row, "left"), bits(row, "right")) == (row.row["bits"], row.row["at"])


class Rules(rh.KeyedBroadcastProcessFunction):
    """Function that emits rows with the newest rule of their user."""

    rules = rh.BroadcastState(str, int)

    def process_element(self, made: Made, ctx: rh.KeyedContext) -> Iterator[Made]:
        yield Made(made.user, made.bits, self.rules.get(made.user, 0))

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        self.rules[rule.who] = rule.there


def test_broadcast_state_names_the_row_that_wrote_it(tmp_path: Path) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        left, right = two(env, 6)
        return left.key_by("user").connect(right.broadcast()).process(Rules())

    rows = explained(lambda env: {"out": build(env)}, tmp_path)["out"]
    assert any(row.row["at"] for row in rows)
    for row in rows:
        assert row.exact
        assert (bits(row, "left"), bits(row, "right")) == (row.row["bits"], row.row["at"])


def test_union_batch_functions_and_late_output_name_their_rows(tmp_path: Path) -> None:
    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        draw = random.Random(8)
        one, other = source(env, draw, "one"), source(env, draw, "other")
        rows = one.union(other).flat_map(lambda r: [Event(*r)] * (r.kind == "put"), returns=Event)
        windows = rows.key_by("user").window(rh.Tumbling("10ms")).aggregate(bits=rh.agg.count())
        return {"out": windows, "late": windows.side_output("late")}

    out = explained(build, tmp_path)
    assert out["late"]
    for row in out["late"]:
        (input,) = row.inputs
        assert {name: input.row[name] for name in ("bit", "user", "at")} == {
            name: row.row[name] for name in ("bit", "user", "at")
        }
    for row in out["out"]:
        assert len(row.inputs) == row.row["bits"]
        assert all(input.row["kind"] == "put" for input in row.inputs)
