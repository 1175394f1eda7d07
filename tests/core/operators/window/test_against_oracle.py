"""Results depend only on the records, whatever the batches, the interleaving and the restarts."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core import aggregates as agg
from rheos.core.graph.windows import Sliding, Tumbling, Window
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from tests.core.operators.window.harness import (
    Bench,
    Oracle,
    deltas_wherever_they_can_be,
    state_on_disk,
)

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.float64())])
AGGREGATES = {
    "rows": agg.count(),
    "n_count": agg.count("n"),
    "n_sum": agg.sum("n"),
    "n_mean": agg.mean("n"),
    "v_sum": agg.sum("v"),
    "v_mean": agg.mean("v"),
    "v_min": agg.min("v"),
    "k_max": agg.max("k"),
    "median": agg.quantile("v", 0.5),
    "p90": agg.quantile("n", 0.9),
    "users": agg.count_distinct("n"),
}

windows: st.SearchStrategy[Window] = st.one_of(
    st.builds(
        lambda size, offset: Tumbling(f"{size}ms", f"{offset}ms"),
        st.integers(1, 12),
        st.integers(0, 15),
    ),
    st.builds(
        lambda size, every, offset: Sliding(f"{size}ms", f"{every}ms", f"{offset}ms"),
        st.integers(1, 12),
        st.integers(1, 12),
        st.integers(0, 15),
    ),
)

rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from("abcd"),
        "n": st.none() | st.integers(-3, 3) | st.integers(-(2**40), 2**40),
        "v": st.none() | st.floats(-1e3, 1e3) | st.sampled_from([0.1, 1e200, -1e200, 5e-324]),
        "ts": st.integers(-20, 40),
    }
)


class Split:
    """Source split that returns its rows in order, each with the watermark before it."""

    def __init__(self, rows: list[dict[str, Any]], bound: int) -> None:
        self.watermark = MIN_TIMESTAMP_MS
        self.rows = []
        for row in rows:
            self.rows.append(row | {"wm": self.watermark})
            self.watermark = max(self.watermark, row["ts"] - bound - 1)
        self.watermark = MIN_TIMESTAMP_MS

    def next(self, count: int) -> list[dict[str, Any]]:
        given, self.rows = self.rows[:count], self.rows[count:]
        if self.rows:
            self.watermark = self.rows[0]["wm"]
        elif given:
            self.watermark = max(self.watermark, given[-1]["wm"])
        return given


def millis(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@settings(max_examples=8)
@given(
    window=windows,
    lateness=st.integers(0, 8),
    of_splits=st.lists(st.lists(rows, max_size=14), min_size=1, max_size=3),
    bound=st.integers(0, 6),
    batch_rows=st.sampled_from([1, 2, 1000]),
    data=st.data(),
)
def test_results_depend_on_the_records_alone(
    window: Window,
    lateness: int,
    of_splits: list[list[dict[str, Any]]],
    bound: int,
    batch_rows: int,
    data: st.DataObject,
) -> None:
    splits = [Split(split, bound) for split in of_splits]
    oracle = Oracle(window, lateness)
    for split in splits:
        for row in split.rows:
            oracle.take(row, ["k"])

    bench = Bench.of_aggregates(window, AGGREGATES, SCHEMA, lateness_ms=lateness, batch_rows=batch_rows)
    with (
        deltas_wherever_they_can_be() if data.draw(st.booleans()) else nullcontext(),
        state_on_disk(bench) if data.draw(st.booleans()) else nullcontext(),
    ):
        play(bench, splits, data)

    fired: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    # With lateness a window may fire again: the last result counts.
    last: dict[tuple[Any, int], dict[str, Any]] = {}
    for row in bench.out:
        assert millis(row["window_end"]) - millis(row["window_start"]) == window.size_ms
        assert row["__ts"] == millis(row["window_end"]) - 1
        assert row["__wm"] == MIN_TIMESTAMP_MS
        where = (row["k"],), millis(row["window_end"])
        last[where] = {name: row[name] for name in AGGREGATES}
        fired[row["k"], row["window_end"]].append(row["rows"])
    for counts in fired.values():
        assert counts == sorted(set(counts)), "each firing has more rows than the one before"
        assert lateness or len(counts) == 1
    assert last == oracle.results(AGGREGATES)

    def canonical(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr((row["k"], row["n"], row["v"])) for row in rows)

    assert canonical(bench.sides["late"]) == canonical(oracle.late)
    assert bench.count("late") == len(oracle.late)
    assert bench.count("late_purged") == 0
    assert bench.count("outside_windows") == oracle.outside


def play(bench: Bench, splits: list[Split], data: st.DataObject) -> None:
    while open_splits := [split for split in splits if split.rows]:
        action = data.draw(st.sampled_from(["rows"] * 3 + ["watermark", "restart", "kept", "lost"]))
        if action == "rows":
            given: list[dict[str, Any]] = []
            for _ in range(data.draw(st.integers(1, 2))):
                given += data.draw(st.sampled_from(open_splits)).next(data.draw(st.integers(1, 8)))
            bench.rows(given)
        elif action == "watermark":
            ended_aside = min(split.watermark for split in open_splits)
            assert_ascending(bench.watermark(ended_aside))
        elif action != "restart":
            bench.checkpoint(kept=action == "kept")
        else:
            bench.restart(data.draw(st.integers(1, 3)))
    if data.draw(st.booleans()):
        bench.restart(data.draw(st.integers(1, 3)))
    bench.end()


def assert_ascending(results: list[dict[str, Any]]) -> None:
    by_key = defaultdict(list)
    for row in results:
        by_key[row["k"]].append(row["window_end"])
    assert all(ends == sorted(set(ends)) for ends in by_key.values())
