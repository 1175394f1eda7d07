"""Windows in two phases emit, step by step, the same as windows over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.api.whole_stream_windows import ALL
from rheos.core import aggregates as agg
from rheos.core.aggregates import Agg
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.windows import Cumulating, Sliding, Tumbling, Window
from rheos.core.operators.contract import OutputType, PortType
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.two_phases import (
    MergedWindowOperator,
    MergedWindowSpec,
    WindowCombineOperator,
    WindowCombineSpec,
    partials_of,
)
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from tests.core.operators.window.harness import HIDDEN, Bench, aggregate_schema, context

KEYS = (ALL,)
SCHEMA = pa.schema([("window_all", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])
AGGREGATES: dict[str, Agg] = {
    "rows": agg.count(),
    "n_sum": agg.sum("n"),
    "v_sum": agg.sum("v"),
    "v_mean": agg.mean("v"),
    "v_min": agg.min("v"),
    "spread": agg.stddev("v"),
    "different": agg.count_distinct("n"),
    "about": agg.approx_count_distinct("n"),
    "most": agg.top_k("v", 2, of=["n", "v"]),
}
SUMS = {name: AGGREGATES[name] for name in ("rows", "n_sum", "v_sum", "v_min")}
COUNT: dict[str, Agg] = {"rows": agg.count()}


@dataclass
class TwoPhases(Bench):
    """Operator whose rows pass the first phase, batch by batch, and whose partial aggregates pass the
    second."""

    combines: WindowCombineOperator = field(init=False)

    @classmethod
    def of(
        cls, window: Window, aggregates: Mapping[str, Agg], lateness_ms: int, batch_rows: int
    ) -> TwoPhases:
        spec = WindowSpec(window, lateness_ms, aggregates)
        results = {MAIN: aggregate_schema(SCHEMA, KEYS, aggregates)}
        of_rows = context(SCHEMA, KEYS, results, batch_rows=batch_rows)
        hidden = [pa.field(*pair) for pair in HIDDEN]
        rows = PortType(StreamType(SCHEMA, True), KEYS, pa.schema([*SCHEMA, *hidden]))
        partials = StreamType(partials_of(spec, ALL, rows.schema).schema, False)

        def make(subtask: int, parallelism: int) -> WindowOperator:
            port = PortType(partials, KEYS, partials.schema)
            ctx = replace(of_rows, ports=(port,), counters={})
            return MergedWindowOperator(ctx, MergedWindowSpec(spec, rows))

        bench = cls(make, KEYS, SCHEMA)
        first = replace(
            of_rows,
            ports=(replace(rows, keys=()),),
            outputs={MAIN: OutputType(partials, partials.schema)},
            counters={},
        )
        bench.combines = WindowCombineOperator(first, WindowCombineSpec(spec, ALL))
        return bench

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        came = []
        for partials, _ in self.combines.on_batch(0, self.batch(rows)):
            assert partials.schema == self.combines.ctx.outputs[MAIN].schema
            came += self.collect(self.subtasks[0].on_batch(0, partials))
        return came

    def count(self, name: str) -> int:
        return super().count(name) + self.combines.ctx.counters.get(name, 0)


windows: st.SearchStrategy[Window] = st.sampled_from(
    [
        Tumbling("7ms", "2ms"),
        Sliding("9ms", every="4ms"),
        Sliding("3ms", every="5ms"),
        Cumulating("12ms", step="4ms"),
    ]
)
row = st.fixed_dictionaries(
    {
        "window_all": st.just(0),
        "n": st.none() | st.integers(-3, 3) | st.just(2**40),
        "v": st.none()
        | st.integers(-20, 20).map(lambda n: n / 8)
        | st.sampled_from([-0.0, 0.1, 1e200]),
        "ts": st.integers(0, 40),
        "behind": st.integers(-2, 12),
    }
)
steps = st.lists(
    st.lists(row, min_size=1, max_size=6) | st.integers(0, 40) | st.sampled_from(["restart", "kept"]),
    max_size=14,
)


@settings(max_examples=8)
@given(
    window=windows,
    aggregates=st.sampled_from([AGGREGATES, SUMS, COUNT]),
    lateness_ms=st.sampled_from([0, 5]),
    batch_rows=st.sampled_from([1, 1000]),
    steps=steps,
)
def test_two_phases_have_the_results_of_one(
    window: Window,
    aggregates: Mapping[str, Agg],
    lateness_ms: int,
    batch_rows: int,
    steps: list[list[dict[str, Any]] | int | str],
) -> None:
    one = Bench.of_aggregates(
        window,
        aggregates,
        SCHEMA,
        keys=KEYS,
        lateness_ms=lateness_ms,
        late=False,
        batch_rows=batch_rows,
    )
    two = TwoPhases.of(window, aggregates, lateness_ms, batch_rows)
    for step in steps:
        for bench in (one, two):
            match step:
                case int():
                    bench.watermark(step)
                case "restart":
                    bench.restart(1)
                case "kept":
                    bench.checkpoint()
                case _:
                    # A split that was idle is behind the watermark: what it brings may be purged.
                    bench.rows([{**row, "wm": row["ts"] - row["behind"]} for row in step])
        # With smaller batches a window that had fired gives its result as often as there are partials.
        assert _last(two.out) == _last(one.out)
        if batch_rows > 1:
            assert _all(two.out) == _all(one.out)
    one.end()
    two.end()
    assert _last(two.out) == _last(one.out)
    for name in ("late", "late_purged", "outside_windows"):
        assert two.count(name) == one.count(name)


def _all(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def _last(rows: list[dict[str, Any]]) -> dict[Any, str]:
    return {row["window_end"]: repr(row) for row in rows}


def test_a_batch_becomes_a_row_for_each_pane() -> None:
    two = TwoPhases.of(Tumbling("10ms"), AGGREGATES, 0, 1000)
    rows = [{"window_all": 0, "n": ts % 3, "v": 0.5, "ts": ts} for ts in range(20)]
    (partials,) = [out.batch for out in two.combines.on_batch(0, two.batch(rows))]
    assert partials.num_rows == 2
    assert partials.column("rows").to_pylist() == [10, 10]


def test_intermediate_sums_may_exceed_64_bits() -> None:
    two = TwoPhases.of(Tumbling("10ms"), SUMS, 0, 1000)
    for n in (2**62, 2**62, 2**62, -(2**62), -(2**62)):
        two.rows([{"window_all": 0, "n": n, "v": None, "ts": 1, "wm": MIN_TIMESTAMP_MS}])
    (out,) = two.end()
    assert out["n_sum"] == 2**62


@pytest.mark.parametrize("late_by", [3, 50])
def test_rows_are_late_where_they_are_combined(late_by: int) -> None:
    two = TwoPhases.of(Tumbling("10ms"), SUMS, 0, 1000)
    two.rows([{"window_all": 0, "n": 1, "v": 1.0, "ts": 5, "wm": 5 + late_by}] * 3)
    late = 3 if late_by == 50 else 0
    assert two.combines.ctx.counters.get("late", 0) == late
    assert sum(row["rows"] for row in two.end()) == 3 - late
