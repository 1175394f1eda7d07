"""Windows on short timelines. In the drawings a character is a millisecond, and a letter a row."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rheos.core import aggregates as agg
from rheos.core.errors import CheckpointError, InputError
from rheos.core.graph.windows import Sliding, Tumbling
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.ids import CheckpointId
from tests.core.operators.window.harness import Bench, timeline

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
COUNT = {"rows": agg.count(), "total": agg.sum("v")}


def seen(results: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    """Return key, window start and end, and row count."""
    return [
        (row["k"], millis(row["window_start"]), millis(row["window_end"]), row["rows"])
        for row in results
    ]


def millis(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def test_tumbling_windows_fire_when_the_watermark_passes_their_last_millisecond() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA)
    #                            [----)[---)[---)
    bench.rows(list(timeline("   a.b.a.....b"[3:])))
    assert bench.watermark(3) == []
    assert seen(bench.watermark(4)) == [("a", 0, 5, 2), ("b", 0, 5, 1)]
    assert bench.watermark(9) == [], "an empty window gives nothing"
    assert seen(bench.end()) == [("b", 10, 15, 1)]


def test_sliding_windows_share_their_rows() -> None:
    bench = Bench.of_aggregates(Sliding("4ms", every="2ms"), COUNT, SCHEMA)
    #                           0 2 4 6
    bench.rows(list(timeline("a..a.a")))
    assert seen(bench.end()) == [
        ("a", -2, 2, 1),
        ("a", 0, 4, 2),
        ("a", 2, 6, 2),
        ("a", 4, 8, 1),
    ]


def test_windows_may_have_an_offset_and_precede_the_epoch() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms", offset="2ms"), COUNT, SCHEMA)
    bench.rows([{"k": "a", "v": 1, "ts": ts} for ts in (-4, -3, 1, 2, 6)])
    assert seen(bench.end()) == [("a", -8, -3, 1), ("a", -3, 2, 2), ("a", 2, 7, 2)]


def test_the_size_of_windows_need_not_be_a_multiple_of_their_slide() -> None:
    bench = Bench.of_aggregates(Sliding("5ms", every="3ms"), COUNT, SCHEMA)
    bench.rows(list(timeline("aaaaaa")))
    assert seen(bench.end()) == [
        ("a", -3, 2, 2),
        ("a", 0, 5, 5),
        ("a", 3, 8, 3),
    ]


def test_rows_between_windows_are_left_out_and_counted() -> None:
    bench = Bench.of_aggregates(Sliding("2ms", every="5ms"), COUNT, SCHEMA)
    #                         [-)..[-)..
    bench.rows(list(timeline("aaaaaaaaaa")))
    assert seen(bench.end()) == [("a", 0, 2, 2), ("a", 5, 7, 2)]
    assert bench.count("outside_windows") == 6
    assert bench.count("late") == 0


def test_a_row_enters_only_the_windows_for_which_it_is_not_late() -> None:
    #   ts       0   2   4   6   8
    #   windows  [-------)               ends 4
    #                [-------)           ends 6
    #   wm 3 has closed the first one for the row at 2
    bench = Bench.of_aggregates(Sliding("4ms", every="2ms"), COUNT, SCHEMA)
    bench.rows([{"k": "a", "v": 1, "ts": 2, "wm": 2}])
    bench.rows([{"k": "a", "v": 1, "ts": 2, "wm": 3}])
    assert seen(bench.end()) == [("a", 0, 4, 1), ("a", 2, 6, 2)]
    assert bench.count("late") == 0


def test_a_row_late_for_all_windows_goes_to_the_late_output_whole() -> None:
    bench = Bench.of_aggregates(Sliding("4ms", every="2ms"), COUNT, SCHEMA)
    bench.rows(
        [
            {"k": "a", "v": 1, "ts": 2, "wm": 4},
            {"k": "a", "v": 2, "ts": 2, "wm": 5},
        ]
    )
    assert bench.sides["late"] == [{"k": "a", "v": 2, "__ts": 2, "__wm": 5}]
    assert bench.count("late") == 1
    assert bench.count("late_purged") == 0


def test_late_rows_without_a_reader_are_counted() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA, late=False)
    bench.rows([{"k": "a", "v": 1, "ts": 2, "wm": 4}, {"k": "a", "v": 1, "ts": 2, "wm": 3}])
    assert bench.count("late") == 1
    assert seen(bench.end()) == [("a", 0, 5, 1)]


def test_rows_of_a_window_purged_during_idleness_are_counted_separately() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA)
    bench.watermark(20)
    bench.rows([{"k": "a", "v": 7, "ts": 2}, {"k": "a", "v": 8, "ts": 1, "wm": 11}])
    assert [row["v"] for row in bench.sides["late"]] == [7, 8]
    assert bench.count("late") == 2
    assert bench.count("late_purged") == 1
    assert bench.end() == []


def test_lateness_keeps_windows_for_updates_of_affected_keys() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA, lateness_ms=10)
    bench.rows(list(timeline("aab..c")))
    assert seen(bench.watermark(4)) == [("a", 0, 5, 2), ("b", 0, 5, 1)]
    #   another row of a, and one of d which had none: b is not given again
    again = [{"k": "a", "v": 100, "ts": 3, "wm": 8}, {"k": "d", "v": 1, "ts": 4, "wm": 13}]
    updates = bench.rows(again)
    assert seen(updates) == [("a", 0, 5, 3), ("d", 0, 5, 1)]
    assert updates[0]["total"] == 101
    assert seen(bench.watermark(13)) == [("c", 5, 10, 1)]
    bench.watermark(14)
    assert bench.rows([{"k": "a", "v": 1, "ts": 3, "wm": 13}]) == []
    assert bench.count("late_purged") == 1


def test_an_update_reaches_every_window_that_has_fired_and_no_other() -> None:
    bench = Bench.of_aggregates(Sliding("6ms", every="2ms"), COUNT, SCHEMA, lateness_ms=3)
    bench.rows(list(timeline("a....a")))
    assert seen(bench.watermark(5)) == [("a", -4, 2, 1), ("a", -2, 4, 1), ("a", 0, 6, 2)]
    #   at ts 3 lie the windows that end at 4, 6, 8; wm 6 has closed the first
    assert seen(bench.rows([{"k": "a", "v": 1, "ts": 3, "wm": 6}])) == [("a", 0, 6, 3)]
    assert seen(bench.end()) == [("a", 2, 8, 2), ("a", 4, 10, 1)]


def test_a_large_advance_fires_only_windows_with_rows() -> None:
    day = 86_400_000
    bench = Bench.of_aggregates(Tumbling("1ms"), COUNT, SCHEMA)
    years = [0, 365 * day, 3650 * day, 36500 * day]
    bench.rows([{"k": "a", "v": 1, "ts": ts} for ts in reversed(years)])
    assert [row["__ts"] for row in bench.watermark(MAX_TIMESTAMP_MS)] == years


def test_a_row_may_be_in_very_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.core.operators.window.fixed_trigger._PAIRS", 10)
    monkeypatch.setattr("rheos.core.operators.window.fixed_trigger.GATHERED_ROWS", 3)
    bench = Bench.of_aggregates(Sliding("100ms", every="1ms"), COUNT, SCHEMA)
    bench.rows(list(timeline("ab.a")))
    ends = [(row["__ts"], row["k"]) for row in bench.end()]
    assert ends == sorted([*((ts, "a") for ts in range(103)), *((ts, "b") for ts in range(1, 101))])


def test_results_leave_in_bounded_batches_and_the_generator_can_wait() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA, batch_rows=1)
    bench.rows(list(timeline("cba..ba")))
    (operator,) = bench.subtasks
    firing = operator.on_watermark(MAX_TIMESTAMP_MS)
    came = []
    for batch, _ in firing:
        assert batch.num_rows == 1
        came += [(row["k"], row["__ts"]) for row in batch.to_pylist()]
    assert came == [("a", 4), ("b", 4), ("c", 4), ("a", 9), ("b", 9)]


def test_a_watermark_that_does_not_rise_has_no_effect() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA, lateness_ms=10)
    bench.rows(list(timeline("a")))
    assert len(bench.watermark(4)) == 1
    assert bench.watermark(4) == []
    assert bench.watermark(3) == []


def test_a_snapshot_has_the_state_at_its_barrier() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA)
    bench.rows(list(timeline("ab")))
    (operator,) = bench.subtasks
    frozen = operator.snapshot(CheckpointId(1))
    for _ in range(20):
        bench.rows(list(timeline("aabb")))
    bench.end()
    tables = {part.state: part.write() for part in frozen.parts}
    assert tables["totals"].select(["key.k", "slice_start", "rows"]).sort_by("key.k").to_pylist() == [
        {"key.k": "a", "slice_start": 0, "rows": 1},
        {"key.k": "b", "slice_start": 0, "rows": 1},
    ]
    assert "fired" in tables


def test_a_window_fired_before_a_restart_does_not_fire_again() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA, lateness_ms=100)
    bench.rows(list(timeline("abcd..abcd")))
    assert len(bench.watermark(4)) == 4
    bench.restart(3)
    assert bench.watermark(4) == []
    assert sorted(seen(bench.end())) == [(key, 5, 10, 1) for key in "abcd"]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_subtasks_with_different_watermarks_are_merged_without_loss_or_repetition(
    parallelism: int, again: bool
) -> None:
    keys = "abcdefghij"
    bench = Bench.of_aggregates(Sliding("4ms", every="2ms"), COUNT, SCHEMA, parallelism=2)
    for ts in (0, 3, 5, 8):
        bench.rows([{"k": key, "v": ts, "ts": ts} for key in keys])
    first, second = bench.subtasks
    out = bench.collect(first.on_watermark(6)) + bench.collect(second.on_watermark(2))
    assert len({row["k"] for row in out}) == len(keys)
    bench.restart(parallelism)
    if again:
        bench.restart(2)
    bench.watermark(3)
    bench.end()
    counts = {-2: 1, 0: 2, 2: 2, 4: 1, 6: 1, 8: 1}
    expected = [(key, start, start + 4, rows) for key in keys for start, rows in counts.items()]
    assert sorted(seen(bench.out)) == sorted(expected)


def test_a_null_key_is_refused_with_its_record() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA)
    with pytest.raises(InputError) as caught:
        bench.rows([{"k": "a", "v": 1, "ts": 0}, {"k": None, "v": 2, "ts": 0}])
    text = str(caught.value)
    assert text.startswith("flights.py:11: operator 'key_by': the key column 'k' is null")
    assert "'v': 2" in text
    assert ".filter(col('k').is_not_null())" in text


def test_state_of_other_windows_is_refused() -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), COUNT, SCHEMA)
    bench.rows(list(timeline("a")))
    other = Bench.of_aggregates(Tumbling("6ms"), COUNT, SCHEMA)
    bench.make = other.make
    with pytest.raises(
        CheckpointError, match=r"5 ms every 5 ms.* now declares windows of 6 ms every 6 ms"
    ):
        bench.restart(1)


@pytest.mark.parametrize(
    ("before", "after", "lacks"),
    [
        (agg.count(), agg.sum("v"), "sum.v"),
        (agg.sum("v"), agg.mean("v"), "exactly.v"),
        (agg.count("v"), agg.quantile("v", 0.5), "values.v"),
        (agg.count("v"), agg.count_distinct("v"), "distinct.v"),
    ],
)
def test_state_that_lacks_an_aggregate_is_refused(before: agg.Agg, after: agg.Agg, lacks: str) -> None:
    bench = Bench.of_aggregates(Tumbling("5ms"), {"x": before}, SCHEMA)
    bench.rows(list(timeline("a")))
    bench.make = Bench.of_aggregates(Tumbling("5ms"), {"x": after}, SCHEMA).make
    with pytest.raises(CheckpointError, match=f"lacks '{lacks}'"):
        bench.restart(1)


def test_state_outlives_an_aggregate_that_is_dropped() -> None:
    both = {"x": agg.mean("v"), "y": agg.max("v"), "z": agg.quantile("v", 0.5)}
    bench = Bench.of_aggregates(Tumbling("5ms"), both, SCHEMA)
    bench.rows(list(timeline("a.a")))
    bench.make = Bench.of_aggregates(Tumbling("5ms"), {"y": agg.max("v")}, SCHEMA).make
    bench.restart(2)
    assert [row["y"] for row in bench.end()] == [2]


def test_aggregates_of_no_values_are_null_and_count_zero() -> None:
    aggregates = {
        "rows": agg.count(),
        "count": agg.count("v"),
        "sum": agg.sum("v"),
        "min": agg.min("v"),
        "mean": agg.mean("v"),
        "median": agg.quantile("v", 0.5),
        "distinct": agg.count_distinct("v"),
    }
    bench = Bench.of_aggregates(Tumbling("5ms"), aggregates, SCHEMA)
    bench.rows([{"k": "a", "v": None, "ts": 0}, {"k": "b", "v": 3, "ts": 9}])
    bench.restart(2)
    nothing, something = sorted(bench.end(), key=lambda row: row["k"])
    assert [nothing[name] for name in aggregates] == [1, 0, None, None, None, None, 0]
    assert [something[name] for name in aggregates] == [1, 1, 3, 3, 3.0, 3.0, 1]


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_nan_and_signed_zeros_are_aggregated(first: float) -> None:
    schema = pa.schema([("k", pa.float64()), ("v", pa.float64())])
    aggregates = {
        "rows": agg.count(),
        "sum": agg.sum("v"),
        "min": agg.min("v"),
        "distinct": agg.count_distinct("v"),
        "median": agg.quantile("v", 0.5),
    }
    bench = Bench.of_aggregates(Tumbling("5ms"), aggregates, schema)
    bench.rows([{"k": first, "v": -first, "ts": 0}, {"k": math.nan, "v": math.inf, "ts": 0}])
    bench.rows([{"k": -first, "v": first, "ts": 1}, {"k": -math.nan, "v": -math.inf, "ts": 0}])
    zeros, nans = bench.end()
    assert [zeros[name] for name in aggregates] == [2, 0.0, 0.0, 1, 0.0]
    signs = [math.copysign(1, zeros[name]) for name in ("k", "sum", "min", "median")]
    assert signs == [1.0, 1.0, 1.0, 1.0]
    assert nans["rows"] == 2
    assert math.isnan(nans["k"])
    assert math.isnan(nans["sum"])
    assert nans["min"] == -math.inf
    assert math.isnan(nans["median"])


def test_keys_and_values_may_have_many_types() -> None:
    day = datetime(2024, 5, 1, tzinfo=UTC)
    columns = {
        "name": pa.array(["x", "y", "x"]).dictionary_encode(),
        "day": pa.array([day] * 3, pa.timestamp("s", "UTC")),
        "flag": pa.array([True, False, True]),
        "small": pa.array([100, 100, 100], pa.int8()),
        "big": pa.array([2**62, 2**62, 2**62], pa.int64()),
        "unsigned": pa.array([2**64 - 1] * 3, pa.uint64()),
        "half": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "when": pa.array([day] * 3, pa.timestamp("us", "UTC")),
    }
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    aggregates = {
        "flags": agg.sum("flag"),
        "smalls": agg.sum("small"),
        "small": agg.mean("small"),
        "big": agg.mean("big"),
        "unsigned": agg.mean("unsigned"),
        "half": agg.sum("half"),
        "last": agg.max("when"),
        "first": agg.min("name"),
        "names": agg.count_distinct("name"),
        "q": agg.quantile("flag", 0.5),
    }
    bench = Bench.of_aggregates(Tumbling("5ms"), aggregates, schema, keys=("name", "day"))
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(c.to_pylist() for c in columns.values()), strict=True)
    ]
    for row in rows:
        bench.rows([row | {"ts": 0}])
    bench.restart(2)
    x, y = sorted(bench.end(), key=lambda row: row["name"])
    assert (x["name"], x["day"], y["name"]) == ("x", day, "y")
    assert [x[name] for name in aggregates] == [
        2, 200, 100.0, 2.0**62, float(2**64 - 1), 3.0, day, "x", 1, 1.0,
    ]  # fmt: skip


def test_names_of_columns_do_not_collide_with_those_of_state() -> None:
    schema = pa.schema([("key_group", pa.int64()), ("slice_start", pa.int64()), ("rows", pa.float64())])
    aggregates = {
        "value": agg.sum("rows"),
        "key": agg.max("slice_start"),
        "in": agg.count_distinct("key_group"),
    }
    bench = Bench.of_aggregates(Tumbling("5ms"), aggregates, schema, keys=("key_group",))
    bench.rows([{"key_group": 7, "slice_start": 5, "rows": 0.5, "ts": ts} for ts in (0, 1, 6)])
    bench.restart(2)
    assert [(row["key_group"], row["value"], row["key"], row["in"]) for row in bench.end()] == [
        (7, 1.0, 5, 1),
        (7, 0.5, 5, 1),
    ]


def test_many_small_batches_leave_few_segments() -> None:
    bench = Bench.of_aggregates(Tumbling("1000ms"), COUNT, SCHEMA)
    (operator,) = bench.subtasks
    operator._waiting = None
    for ts in range(600):
        bench.rows([{"k": "ab"[ts % 2], "v": ts, "ts": ts}])
    whole = operator._index.whole()
    assert whole is not None
    assert len(whole.segments) <= 16
    assert seen(bench.end()) == [("a", 0, 1000, 300), ("b", 0, 1000, 300)]


def test_panes_are_purged_when_no_window_can_take_them() -> None:
    bench = Bench.of_aggregates(Sliding("20ms", every="10ms"), COUNT, SCHEMA, lateness_ms=5)
    (operator,) = bench.subtasks
    for ts in range(0, 1000, 10):
        bench.rows([{"k": key, "v": ts, "ts": ts} for key in "abc"])
        bench.watermark(ts)
        operator._absorb_waiting()
        whole = operator._index.whole()
        assert whole is not None
        assert whole.size.rows <= 3 * 4
    bench.end()
    assert operator._index.whole() is None


def test_the_results_equal_those_of_a_plain_script() -> None:
    rng = np.random.default_rng(7)
    count = 5000
    table = pl.DataFrame(
        {
            "k": rng.choice(["FRA", "MUC", "HAM"], count),
            "delay": rng.integers(-20, 240, count),
            "fare": np.round(rng.gamma(3, 40, count), 2),
            "ts": rng.integers(0, 3_600_000, count),
        }
    )
    aggregates = {
        "flights": agg.count(),
        "mean_delay": agg.mean("delay"),
        "p90": agg.quantile("delay", 0.9),
        "fares": agg.sum("fare"),
        "prices": agg.count_distinct("fare"),
    }
    schema = pa.schema([("k", pa.string()), ("delay", pa.int64()), ("fare", pa.float64())])
    bench = Bench.of_aggregates(Tumbling("10m"), aggregates, schema)
    for piece in table.iter_slices(700):
        bench.rows(piece.to_dicts())
    expected = (
        table.group_by("k", end=(pl.col("ts") // 600_000 + 1) * 600_000)
        .agg(
            pl.len().alias("flights"),
            pl.col("delay").mean().alias("mean_delay"),
            pl.col("delay").quantile(0.9, interpolation="linear").alias("p90"),
            pl.col("fare").implode().alias("fares"),
            pl.col("fare").n_unique().alias("prices"),
        )
        .with_columns(pl.col("fares").map_elements(math.fsum, return_dtype=pl.Float64))
        .sort("end", "k")
    )
    got = bench.end()
    assert [[row["k"], row["__ts"] + 1, *(row[name] for name in aggregates)] for row in got] == [
        list(row) for row in expected.rows()
    ]
    assert got[0]["__wm"] == MIN_TIMESTAMP_MS
