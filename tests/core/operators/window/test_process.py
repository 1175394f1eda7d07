"""Process functions over windows: their arguments, results and errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.errors import UserFunctionError
from rheos.core.graph.functions import WindowContext, WindowFunction
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.windows import Sliding, Tumbling, Window
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.process import WindowProcessOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from tests.core.operators.window.harness import (
    Bench,
    Oracle,
    context,
    deltas_wherever_they_can_be,
    state_on_disk,
    timeline,
)

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
SAID = pa.schema([("who", pa.string()), ("start", pa.int64()), ("values", pa.list_(pa.int64()))])


class Say(WindowFunction):
    """Emits its arguments."""

    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        yield {"who": ctx.key, "start": ctx.window.start_ms, "values": [record.v for record in records]}


def bench_of(
    fn: WindowFunction,
    window: Window,
    *,
    schema: pa.Schema = SCHEMA,
    keys: tuple[str, ...] = ("k",),
    out: pa.Schema = SAID,
    record: type | None = None,
    gives: type | None = None,
    lateness_ms: int = 0,
    batch_rows: int = 1000,
) -> Bench:
    spec = WindowSpec(window, lateness_ms, {}, fn=fn, record=record, late_tag="late")

    def make(subtask: int, parallelism: int) -> WindowOperator:
        ctx = context(
            schema,
            keys,
            {MAIN: out, "late": schema},
            subtask=subtask,
            parallelism=parallelism,
            batch_rows=batch_rows,
            records={MAIN: gives} if gives else None,
        )
        return WindowProcessOperator(ctx, spec)

    return Bench(make, keys, schema)


def said(rows: list[dict[str, Any]]) -> list[tuple[Any, int, list[int]]]:
    return [(row["who"], row["start"], row["values"]) for row in rows]


def test_records_are_sorted_by_time_for_any_arrival_order() -> None:
    bench = bench_of(Say(), Tumbling("5ms"))
    bench.rows(list(reversed(list(timeline("aba.b.a.bb")))))
    rows = bench.end()
    assert said(rows) == [
        ("a", 0, [0, 2]),
        ("b", 0, [1, 4]),
        ("a", 5, [6]),
        ("b", 5, [8, 9]),
    ]
    assert [row["__ts"] for row in rows] == [4, 4, 9, 9]
    assert {row["__wm"] for row in rows} == {MIN_TIMESTAMP_MS}


def test_sliding_windows_pass_a_record_several_times() -> None:
    bench = bench_of(Say(), Sliding("4ms", every="2ms"))
    bench.rows(list(timeline("a..a.a")))
    assert said(bench.end()) == [("a", -2, [0]), ("a", 0, [0, 3]), ("a", 2, [3, 5]), ("a", 4, [5])]


@dataclass
class Leg:
    airline: str
    stops: list[str]
    gate: dict[str, int] | None
    fare: float | None


@dataclass
class Journey:
    airline: str
    stops: list[str]
    ends: datetime


class Journeys(WindowFunction):
    def process(self, records: list[Leg], ctx: WindowContext) -> Iterator[Journey]:
        ends = datetime.fromtimestamp(ctx.window.end_ms / 1000, UTC)
        stops = [f"{'>'.join(leg.stops)} {leg.gate} {leg.fare}" for leg in records]
        yield Journey(ctx.key, stops, ends)


LEG = pa.schema(
    [
        ("airline", pa.string()),
        ("stops", pa.list_(pa.string())),
        ("gate", pa.map_(pa.string(), pa.int64())),
        ("fare", pa.float64()),
    ]
)
JOURNEY = pa.schema(
    [
        ("airline", pa.string()),
        ("stops", pa.list_(pa.string())),
        ("ends", pa.timestamp("us", "UTC")),
    ]
)


@given(order=st.permutations(range(5)), cut=st.integers(0, 5), restart=st.booleans())
def test_records_of_one_time_are_in_the_order_of_all_their_columns(
    order: list[int], cut: int, restart: bool
) -> None:
    legs = [
        {"stops": ["A", "B"], "gate": [("x", 1)], "fare": 1.0},
        {"stops": ["A", "B"], "gate": [("x", 2)], "fare": 1.0},
        {"stops": ["A", "B"], "gate": None, "fare": 2.0},
        {"stops": ["A", "B"], "gate": None, "fare": None},
        {"stops": ["A", "C"], "gate": [], "fare": 0.5},
    ]
    bench = bench_of(
        Journeys(),
        Tumbling("1s"),
        schema=LEG,
        keys=("airline",),
        out=JOURNEY,
        record=Leg,
        gives=Journey,
    )
    rows = [{"airline": "LH", "ts": 5} | legs[i] for i in order]
    bench.rows(rows[:cut])
    if restart:
        bench.restart(2)
    bench.rows(rows[cut:])
    (journey,) = bench.end()
    assert journey["ends"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert journey["stops"] == [
        "A>B {'x': 1} 1.0",
        "A>B {'x': 2} 1.0",
        "A>B None 2.0",
        "A>B None None",
        "A>C {} 0.5",
    ]


class PerRecord(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        for record in records:
            yield {"who": repr(ctx.key), "start": ctx.window.start_ms, "values": [record.v]}


def test_keys_of_several_columns_are_tuples_and_outputs_leave_in_bounded_batches() -> None:
    schema = pa.schema([("k", pa.string()), ("day", pa.date32()), ("v", pa.int64())])
    bench = bench_of(PerRecord(), Tumbling("5ms"), schema=schema, keys=("k", "day"), batch_rows=2)
    day = datetime(2024, 2, 29, tzinfo=UTC).date()
    bench.rows([{"k": "a", "day": day, "v": ts, "ts": ts} for ts in range(7)])
    key = repr(("a", day))
    rows = bench.end()
    assert said(rows) == [(key, 0 if v < 5 else 5, [v]) for v in range(7)]
    assert [row["__ts"] for row in rows] == [4] * 5 + [9] * 2


class Silent(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        return None  # type: ignore[return-value]


def test_a_function_may_return_nothing() -> None:
    bench = bench_of(Silent(), Tumbling("5ms"))
    bench.rows(list(timeline("ab")))
    assert bench.end() == []


class Once(WindowFunction):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        self.seen.append(ctx.key)
        return [{"who": "all", "start": len(self.seen), "values": []}]


def test_subtasks_do_not_share_the_users_object() -> None:
    mine = Once()
    bench = bench_of(mine, Tumbling("5ms"))
    bench.restart(2)
    bench.rows(list(timeline("abcdefgh"[:5])))
    assert sorted(start for _, start, _ in said(bench.end()))[:2] == [1, 1]
    assert mine.seen == []


def test_a_late_row_emits_the_window_of_its_key_again() -> None:
    bench = bench_of(Say(), Tumbling("5ms"), lateness_ms=10)
    bench.rows(list(timeline("aba")))
    assert len(bench.watermark(4)) == 2
    assert said(bench.rows([{"k": "a", "v": 9, "ts": 1, "wm": 4}])) == [("a", 0, [0, 9, 2])]
    bench.rows([{"k": "a", "v": 9, "ts": 1, "wm": 14}])
    assert bench.sides["late"] == [{"k": "a", "v": 9, "__ts": 1, "__wm": 14}]


class Divide(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        yield {"who": ctx.key, "start": 0, "values": []}
        yield {"who": ctx.key, "start": 1 // (records[0].v - 1), "values": []}


def test_an_error_names_the_users_line_the_key_and_the_window() -> None:
    bench = bench_of(Divide(), Tumbling("5ms"))
    bench.rows(list(timeline("aba")))
    with pytest.raises(UserFunctionError) as caught:
        bench.end()
    text = str(caught.value)
    assert __file__ in text.splitlines()[0]
    assert "operator 'per key': ZeroDivisionError" in text
    assert "key: 'b'" in text
    assert "record: 1 of the window from 0 to 5 ms, the first of which is Row(k='b', v=1)" in text


class Wrong(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        start: Any = "soon" if ctx.key == "b" else 0
        return [{"who": ctx.key, "start": start, "values": []}]


def test_a_wrong_output_names_its_key() -> None:
    bench = bench_of(Wrong(), Tumbling("5ms"))
    bench.rows(list(timeline("abc")))
    with pytest.raises(UserFunctionError, match=r"(?s)'start' should be int64.*key: 'b'"):
        bench.end()


class Number(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        return len(records)  # type: ignore[return-value]


def test_a_result_that_is_not_iterable_is_refused() -> None:
    bench = bench_of(Number(), Tumbling("5ms"))
    bench.rows(list(timeline("a")))
    with pytest.raises(UserFunctionError, match="returned int, but must yield"):
        bench.end()


@settings(max_examples=10)
@given(
    window=st.sampled_from([Tumbling("5ms", "2ms"), Sliding("6ms", "4ms"), Sliding("2ms", "3ms")]),
    rows=st.lists(
        st.fixed_dictionaries(
            {"k": st.sampled_from("abc"), "v": st.integers(0, 3), "ts": st.integers(-9, 20)}
        ),
        max_size=30,
    ),
    data=st.data(),
)
def test_windows_depend_on_the_records_alone(
    window: Window, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    oracle = Oracle(window, 0)
    for row in rows:
        oracle.take(row | {"wm": MIN_TIMESTAMP_MS}, ["k"])
    bench = bench_of(Say(), window, batch_rows=data.draw(st.integers(1, 3)))
    rest = data.draw(st.permutations(rows))
    with (
        deltas_wherever_they_can_be() if data.draw(st.booleans()) else nullcontext(),
        state_on_disk(bench) if data.draw(st.booleans()) else nullcontext(),
    ):
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            bench.rows(rest[:size])
            rest = rest[size:]
            match data.draw(st.sampled_from(["go on", "checkpoint", "restart"])):
                case "checkpoint":
                    bench.checkpoint()
                case "restart":
                    bench.restart(data.draw(st.integers(1, 3)))
        bench.end()
    expected = defaultdict(list)
    for (key, end), records in oracle.windows.items():
        for record in sorted(records, key=lambda record: (record["ts"], record["v"])):
            expected[key[0], end - window.size_ms].append(record["v"])
    assert {(key, start): values for key, start, values in said(bench.out)} == expected
    assert len(bench.out) == len(expected)
