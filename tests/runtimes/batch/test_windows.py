"""Windows in two phases: rows are combined before the shuffle, with the same results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.graph.job_context import JobContext
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.batch.combining import CombinedState, CombiningOutlet
from rheos.runtimes.batch.partition_host import context_of
from rheos.runtimes.batch.tasks import CombinedOutput, Task


@dataclass
class Trip:
    city: str
    zone: int
    at: int
    fare: float
    seats: int | None


def trips(rows: int = 800, seed: int = 3) -> list[Trip]:
    """Return trips in order of time except for a few, which are late."""
    random = np.random.default_rng(seed)
    at = np.cumsum(random.integers(0, 900, rows)) + 1
    at -= np.where(random.random(rows) < 0.1, random.integers(0, 60_000, rows), 0)
    at = np.maximum(at, 1)
    # Sums of such floats depend on their order unless they are exact.
    fare = random.normal(0, 1, rows) * 10.0 ** random.integers(-8, 9, rows)
    seats = random.integers(0, 6, rows)
    return [
        Trip(f"city {c}", int(z), int(t), float(f), None if s == 5 else int(s))
        for c, z, t, f, s in zip(
            random.integers(0, 9, rows), random.integers(0, 3, rows), at, fare, seats, strict=True
        )
    ]


AGGREGATES = {
    "n": rh.agg.count(),
    "seats": rh.agg.sum("seats"),
    "fares": rh.agg.sum("fare"),
    "mean": rh.agg.mean("fare"),
    "least": rh.agg.min("fare"),
    "zones": rh.agg.count_distinct("zone"),
    "median": rh.agg.quantile("fare", 0.5),
}


def windows(stream: rh.DataStream, keys: tuple[str, ...], window: Any) -> rh.DataStream:
    windowed = stream.key_by(*keys).window(window).allowed_lateness("5s")
    return windowed.aggregate(**AGGREGATES).name("windows")


def source(env: rh.Environment, rows: list[Trip]) -> rh.DataStream:
    watermark = rh.Watermark.bounded_out_of_orderness("10s", on="at")
    return env.from_source(rh.collection(rows), watermark, name="trips")


def run(runtime: Any, build_on: Any, rows: list[Trip]) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    env = rh.Environment(2, runtime=runtime)
    build_on(source(env, rows)).collect("out")
    result = env.execute()
    latest: dict[Any, tuple[Any, ...]] = {}
    out = result.collected["out"]
    at = out.schema.names.index("n")
    for row in out.to_pylist():
        values = tuple(row.values())
        before = latest.get(values[:at])
        # With lateness a window is emitted again: its last update, with the most rows, counts.
        if before is None or before[at] < values[at]:
            latest[values[:at]] = values
    status = {o.name: o for o in result.status.operators}["windows"]
    return sorted(latest.values()), {**status.counters, "records_in": status.records_in}


BUILDS = {
    "tumbling": lambda s: windows(s, ("city",), rh.Tumbling("1m")),
    "sliding": lambda s: windows(s, ("city",), rh.Sliding("1m", every="25s")),
    "two keys": lambda s: windows(s, ("city", "zone"), rh.Tumbling("40s")),
    "by float": lambda s: windows(
        s.with_columns(size=col("fare").sign() * 0.0), ("size",), rh.Tumbling("1m")
    ),
    "united": lambda s: windows(
        s.filter(col("zone") == 0).union(s.filter(col("zone") > 0)), ("city",), rh.Tumbling("1m")
    ),
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", BUILDS)
def test_combined_windows_agree_with_the_simulated_runtime(name: str) -> None:
    rows = trips()
    out, counters = run("batch", BUILDS[name], rows)
    simulated, expected = run("simulated", BUILDS[name], rows)
    assert out == simulated
    assert counters["late"] == expected["late"] > 0
    assert counters["records_in"] == len(rows)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_reading_late_rows_does_not_change_the_windows() -> None:
    def with_late(stream: rh.DataStream) -> rh.DataStream:
        totals = BUILDS["sliding"](stream)
        totals.side_output("late").collect("late")
        return totals

    rows = trips()
    assert run("batch", with_late, rows) == run("batch", BUILDS["sliding"], rows)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_windows_accept_keys_of_any_type() -> None:
    schema = pa.schema(
        {
            "at": pa.int64(),
            "b": pa.bool_(),
            "i": pa.uint32(),
            "t": pa.large_string(),
            "x": pa.binary(),
            "f": pa.float32(),
            "d": pa.date32(),
            "m": pa.timestamp("us", "UTC"),
            "c": pa.decimal128(9, 2),
        }
    )
    rows = [
        {
            "at": n * 1_000 + 1,
            "b": n % 2 == 0,
            "i": 2**31 + n % 3,
            "t": "xyz"[n % 3],
            "x": bytes([n % 3]),
            "f": (0.0, -0.0, 1.5)[n % 3],
            "d": date(2026, 1, 1 + n % 3),
            "m": datetime(2026, 1, 1, n % 3, tzinfo=UTC),
            "c": Decimal(n % 3) / 4,
        }
        for n in range(60)
    ]
    keys = [name for name in schema.names if name != "at"]
    found: dict[str, dict[str, pa.Table]] = {}
    for runtime in ("batch", "simulated"):
        env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
        stream = env.from_source(
            rh.collection(pa.Table.from_pylist(rows, schema)), rh.Watermark.monotonic(on="at")
        )
        for key in keys:
            windowed = stream.key_by(key).window(rh.Tumbling("30s"))
            windowed.aggregate(n=rh.agg.count()).collect(key)
        found[runtime] = dict(env.execute().collected)
    for key in keys:
        order = [(key, "ascending"), ("window_end", "ascending")]
        batch, simulated = (found[runtime][key].sort_by(order) for runtime in found)
        assert batch.equals(simulated)
        assert batch.schema.field(key).type == schema.field(key).type
        assert sum(batch["n"].to_pylist()) == len(rows)


# --- without Spark --------------------------------------------------------------------------------


def planned_windows(rows: list[Trip]) -> tuple[PlannedOperator, pa.Schema]:
    env = rh.Environment(1, runtime="batch")
    BUILDS["sliding"](source(env, rows)).collect("out")
    head = env.plan().chains[1].operators[0]
    return head, head.ports[0].schema


def fired(head: PlannedOperator, combined: list[pa.RecordBatch], tmp: str) -> list[tuple[Any, ...]]:
    task = Task(JobId("j"), 0, 1, 128, 512, JobContext(), StateConfig(), CombinedOutput(head))
    ctx = context_of(task, head, 0, keyed=True, scratch=tmp)
    ctx.state_bytes = 20_000  # So that restored state spills.
    windows = head.spec.operator(ctx)
    assert isinstance(windows, WindowAggregateOperator)
    state = CombinedState(windows, iter(combined))
    assert len(list(state.notes())) == len([row for row in combined if row["state"][0].as_py() < 0])
    windows.open(state)
    state.check_read()
    outs = [out.batch for out in windows.on_watermark(MAX_TIMESTAMP_MS)]
    windows.close()
    return sorted(tuple(row.values()) for out in outs for row in out.to_pylist())


@pytest.mark.parametrize("senders", [1, 3])
def test_early_partial_results_change_nothing(senders: int, tmp_path: Any) -> None:
    rows = trips()
    head, schema = planned_windows(rows)
    columns = [
        pa.array([getattr(row, name) for row in rows], schema.field(name).type)
        for name in schema.names
        if not name.startswith("__")
    ]
    never = pa.array(np.full(len(rows), -(2**62)))
    stamps = pa.array([row.at for row in rows], pa.int64())
    batch = pa.RecordBatch.from_arrays([*columns, stamps, never][: len(schema)], schema=schema)
    task = Task(JobId("j"), 0, 1, 128, 512, JobContext(), StateConfig(), CombinedOutput(head))

    def combined(budget_bytes: int, count: int) -> list[pa.RecordBatch]:
        made = []
        for sender in range(count):
            ctx = context_of(task, head, sender, keyed=True, scratch=None)

            def make(ctx: Any = ctx) -> WindowAggregateOperator:
                operator = head.spec.operator(ctx)
                assert isinstance(operator, WindowAggregateOperator)
                return operator

            outlet = CombiningOutlet(make, ctx, budget_bytes, rows_at_once=50)
            mine = batch.take(pa.array(np.arange(sender, len(rows), count)))
            for begin in range(0, mine.num_rows, 50):
                made += outlet.rows(0, mine.slice(begin, 50))
            made += outlet.finish()
        return sorted(made, key=lambda row: row["state"][0].as_py())

    whole = combined(2**30, 1)
    early = combined(5_000, senders)
    assert len(early) > 2 * len(whole)
    found = fired(head, whole, f"{tmp_path}/whole")
    assert len(found) > 100
    assert fired(head, early, f"{tmp_path}/early") == found


def test_a_sender_without_rows_sends_only_its_note(tmp_path: Any) -> None:
    head, _ = planned_windows(trips(10))
    task = Task(JobId("j"), 0, 1, 128, 512, JobContext(), StateConfig(), CombinedOutput(head))
    ctx = context_of(task, head, 0, keyed=True, scratch=None)

    def make() -> WindowAggregateOperator:
        operator = head.spec.operator(ctx)
        assert isinstance(operator, WindowAggregateOperator)
        return operator

    (note,) = CombiningOutlet(make, ctx).finish()
    assert fired(head, [note], f"{tmp_path}/none") == []
