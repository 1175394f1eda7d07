"""Sums of integers are exact, or an error names key and window; they never overflow silently."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.core.aggregates.contract import input_name
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.errors import InputError
from rheos.core.graph.windows import Tumbling
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.pane_columns import END
from rheos.core.protocol.elements import WatermarkMark
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example
from rheos.testing.harness import replay
from tests.core.operators.window.harness import Bench

MOST, LEAST = 2**63 - 1, -(2**63)
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])

NUMBERS = st.integers(LEAST, MOST) | st.sampled_from([MOST, LEAST, 1, -1, 0, 2**62, -(2**62)])


def row(k: str, v: int | None, at: int) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at}


def outcome(values: list[int]) -> int | None:
    """Return the sum; None if it does not fit."""
    return sum(values) if LEAST <= sum(values) <= MOST else None


def test_intermediate_sums_may_exceed_64_bits() -> None:
    script = [
        row("a", MOST, 1),
        row("b", LEAST, 2),
        row("a", MOST, 3),
        WatermarkMark(3),
        row("a", None, 4),
        row("b", LEAST, 5),
        row("a", LEAST, 6),
        WatermarkMark(6),
        row("b", 2**62, 7),
        row("a", LEAST, 8),
        row("b", MOST, 9),
        row("b", 2**62, 9),
    ]

    def windowed(rows: rh.DataStream) -> rh.DataStream:
        windows = rows.key_by("k").window(rh.Sliding("20ms", every="10ms"))
        return windows.aggregate(total=rh.agg.sum("v"), mean=rh.agg.mean("v"))

    came = check_example(OperatorExample(windowed, SCHEMA, script, on="at"))["out"]
    assert {(r["k"], r["total"], r["mean"]) for r in came} == {
        ("a", -2, -0.5),
        ("b", -1, -0.2),
    }


@given(st.lists(NUMBERS, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_sums_of_sums_are_those_of_whole_numbers(values: list[int], random: Any) -> None:
    schema, windows = pa.schema([("v", pa.int64())]), windows_of(rh.Tumbling("1s"))
    totals = Tables(["key.k"], {"total": rh.agg.sum("v")}, schema, windows).totals

    def state(some: list[int]) -> pl.DataFrame:
        if len(some) < 2 or random.random() < 0.3:
            rows = {"key.k": ["a"] * len(some), END: [10] * len(some), input_name("v"): some}
            return totals.partial(pl.DataFrame(rows), [END])
        cut = random.randrange(1, len(some))
        return totals.merge([state(some[:cut]), state(some[cut:])], [END])

    random.shuffle(values)
    try:
        found = totals.finish(state(values))["total"][0]
    except SumTooLarge:
        found = None
    assert found == outcome(values)


def bench() -> Bench:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    return Bench.of_aggregates(Tumbling("10ms"), {"total": rh.agg.sum("v")}, schema)


def test_a_window_whose_sum_does_not_fit_is_named_with_its_key() -> None:
    windows = bench()
    windows.rows(
        [
            {"k": "small", "v": 1, "ts": 12, "wm": 0},
            {"k": "large", "v": MOST, "ts": 13, "wm": 0},
            {"k": "large", "v": 1, "ts": 14, "wm": 0},
        ]
    )
    with pytest.raises(InputError) as caught:
        windows.watermark(19)
    assert str(caught.value) == (
        "flights.py:12: operator 'per key': the sum of 'v' exceeds 64 bits in the window from 10 to "
        "20 ms\n"
        "  key: 'large'\n"
        "  what to do: cast the column first, to pl.Decimal(38, 0), or to pl.Float64 if 15 digits "
        "are enough: .with_columns(pl.col('v').cast(pl.Decimal(38, 0)))"
    )


def test_a_sum_beyond_64_bits_is_stored_and_shown_as_unknown() -> None:
    windows = bench()
    windows.rows(
        [
            {"k": "a", "v": MOST, "ts": 1, "wm": 0},
            {"k": "a", "v": 5, "ts": 2, "wm": 0},
            {"k": "b", "v": 7, "ts": 2, "wm": 0},
        ]
    )
    (stored,) = windows.checkpoint()["totals"]
    state = sorted(stored.to_pylist(), key=lambda row: str(row["key.k"]))
    assert [(r["summed.v"], r["sum.v"], r["beyond.v"]) for r in state] == [
        (2, LEAST + 4, 1),
        (1, 7, 0),
    ]
    (operator,) = windows.subtasks
    planned = SimpleNamespace(
        id="w", name="w", site=None, spec=operator._spec, ports=operator.ctx.ports
    )
    shapes = state_shapes([planned])["w"]
    shown = layout_of("totals", shapes).rows(stored).to_pylist()
    assert {(r["k"], r["sum_v"], r["mean_v"]) for r in shown} == {("a", None, 2.0**62), ("b", 7, 7.0)}


def test_state_of_a_release_without_the_high_part_is_read() -> None:
    windows = bench()
    windows.rows([{"k": "a", "v": MOST - 5, "ts": 1, "wm": 0}])
    windows.checkpoint()
    older = {
        subtask: {
            state: (
                kind,
                [
                    table.drop_columns([c for c in table.column_names if "beyond" in c])
                    for table in tables
                ],
            )
            for state, (kind, tables) in chains.items()
        }
        for subtask, chains in windows.chains.items()
    }
    windows.restore(older, 1)
    windows.rows([{"k": "a", "v": 5, "ts": 2, "wm": 0}])
    assert [row["total"] for row in windows.end()] == [MOST]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), NUMBERS), min_size=1, max_size=12),
    st.lists(st.integers(1, 11), max_size=3),
)
def test_a_running_sum_ends_at_the_first_row_where_it_does_not_fit(
    rows: list[tuple[str, int]], cuts: list[int]
) -> None:
    expected, wrong, sums = [], None, dict.fromkeys("abc", 0)
    for number, (key, value) in enumerate(rows):
        sums[key] += value
        if outcome([sums[key]]) is None:
            wrong = number
            break
        expected.append(sums[key])
    script: list[Any] = []
    for number, (key, value) in enumerate(rows):
        # Rows between watermarks come together.
        script += [WatermarkMark(number)] * (number in cuts) + [row(key, value, number)]
    example = OperatorExample(
        lambda stream: stream.key_by("k").running(total=rh.agg.sum("v")), SCHEMA, script
    )
    if wrong is None:
        assert [r["total"] for r in replay(example)["out"]] == expected
        return
    with pytest.raises(InputError) as caught:
        replay(example)
    assert caught.value.what == "the sum of 'v' exceeds 64 bits"
    assert caught.value.key == repr(rows[wrong][0])
    assert caught.value.record == str(row(*rows[wrong], wrong))


@pytest.mark.parametrize("kind", [pa.uint64(), pa.int64(), pa.int32(), pa.bool_()])
def test_running_sums_and_means_of_any_integers(kind: pa.DataType) -> None:
    schema = pa.schema([("k", pa.string()), ("v", kind)])
    script = [{"k": "a", "v": value} for value in (1, 0, 1)]
    example = OperatorExample(
        lambda rows: rows.key_by("k").running(total=rh.agg.sum("v"), mean=rh.agg.mean("v")),
        schema,
        [{"k": "a", "v": bool(r["v"])} if kind == pa.bool_() else r for r in script],
    )
    came = check_example(example)["out"]
    assert sorted(r["total"] for r in came) == [1, 1, 2]
    if kind == pa.uint64():
        with pytest.raises(InputError, match="exceeds 64 bits"):
            replay(OperatorExample(example.transform, schema, [{"k": "a", "v": 2**63}]))


def test_large_unsigned_integers_in_windows() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.uint64())])
    windows = Bench.of_aggregates(Tumbling("10ms"), {"total": rh.agg.sum("v")}, schema)
    windows.rows([{"k": "a", "v": 2**63, "ts": 1, "wm": 0}])
    with pytest.raises(InputError, match="exceeds 64 bits"):
        windows.watermark(9)
