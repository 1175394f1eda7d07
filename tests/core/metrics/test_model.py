"""Metrics of a job from readings: rates, one value for several subtasks, JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import METRICS, Kind, Merge, Unit
from rheos.core.metrics.model import (
    across_subtasks,
    event_time_skew,
    growth_per_s,
    merged,
    metrics_object,
    subtask_readings,
)
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Progress
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.ids import Attempt
from rheos.core.protocol.readings import Reading
from rheos.core.task.traffic import RunOutcome, SpentTime
from tests.cli.stand_ins import METRICS as SHOWN


def report(at_s: float, rows: int, watermark_ms: int = 5, **more: object) -> Progress:
    said = {"records_in": {"map": rows}, "records_out": {}, "counters": {"map/late": rows}} | more
    return Progress(
        attempt=Attempt(1),
        subtask=1,
        step_us=int(at_s * 1e6),
        watermark_ms={"map": watermark_ms},
        busy_us=int(at_s * 5e5),
        blocked_us=0,
        **said,  # type: ignore[arg-type]
    )


def values(readings: list[Reading]) -> dict[tuple[str, tuple[str, ...]], object]:
    return {(r.metric, r.at): r.value for r in readings}


def rates(readings: list[Reading]) -> dict[str, float | None]:
    return {r.metric: r.per_s for r in readings}


def test_names_of_metrics_end_with_their_units() -> None:
    ends = {Unit.MS: "_ms", Unit.EPOCH_MS: "_ms", Unit.BYTES: "_bytes", Unit.SECONDS: "_s"}
    for metric in METRICS.values():
        if metric.unit in ends:
            assert metric.name.endswith(ends[metric.unit]), metric.name


def test_a_subtask_is_the_last_label_of_its_readings() -> None:
    found = values(subtask_readings(report(1, 30), None, now_ms=105))
    assert found["rows_in", ("map", "1")] == 30
    assert found["counter", ("map", "late", "1")] == 30
    assert found["slot_busy_ms", ("1",)] == 500
    assert found["watermark_lag_ms", ("map", "1")] == 100


@pytest.mark.parametrize("watermark_ms", [MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS])
def test_a_minimum_or_maximum_watermark_is_not_a_time(watermark_ms: int) -> None:
    found = rates(subtask_readings(report(1, 3, watermark_ms), None, now_ms=105))
    assert not {"watermark_ms", "watermark_lag_ms"} & found.keys()


def test_counters_come_with_their_growth_per_second() -> None:
    found = rates(subtask_readings(report(3, 90), report(1, 30), now_ms=0))
    assert found["rows_in"] == 30
    assert found["slot_busy_ms"] == 500
    assert found["watermark_ms"] is None
    assert rates(subtask_readings(report(3, 90), None, now_ms=0))["rows_in"] is None
    assert rates(subtask_readings(report(3, 90), report(3, 90), now_ms=0))["rows_in"] is None


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0.1, 10))
def test_growth_is_never_negative(before: int, now: int, elapsed_s: float) -> None:
    """A counter that is less than it was belongs to a new attempt: all of it is growth."""
    grown = growth_per_s(f.ROWS_IN, before, now, elapsed_s)
    assert grown is not None
    assert grown * elapsed_s == pytest.approx(now - before if now >= before else now)


NUMBERS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=9)


@given(NUMBERS, st.sampled_from(Merge))
def test_several_numbers_are_merged_into_one(numbers: list[float], how: Merge) -> None:
    one = merged(how, numbers)
    if how is Merge.SUM:
        assert one == sum(numbers)
    else:
        assert min(numbers) <= one <= max(numbers)
    if how is Merge.LAST:
        assert one == numbers[-1]


@given(NUMBERS, st.sampled_from([fig for fig in METRICS.values() if fig.scope.of_subtask]))
def test_subtasks_are_merged_as_the_metric_declares(numbers: list[float], metric: f.Metric) -> None:
    place = tuple("x" for _ in metric.scope.labels[:-1])
    made = [Reading(metric.name, (*place, str(i)), n, 1.0) for i, n in enumerate(numbers)]
    if metric.kind is Kind.HISTOGRAM:
        made = [Reading(r.metric, r.at, Accumulated(1, 1.0, 1.0, 1.0, {16: 1})) for r in made]
    (one,) = across_subtasks(made)
    assert (one.metric, one.at) == (metric.name, place)
    if isinstance(one.value, Accumulated):
        assert one.value.n == one.value.buckets[16] == len(numbers)
    else:
        assert one.value == merged(metric.across, numbers)
        assert one.per_s == len(numbers)


def test_skew_covers_all_splits_of_a_source() -> None:
    marks = [("a", "s1", "0", 100), ("a", "s2", "1", 700), ("a", "s3", "1", 400), ("b", "s", "0", 9)]
    found = event_time_skew([Reading("split_watermark_ms", (o, s, n), ms) for o, s, n, ms in marks])
    assert values(found) == {("event_time_skew_ms", ("a",)): 600, ("event_time_skew_ms", ("b",)): 0}


def test_json_has_units_labels_and_quantiles() -> None:
    shown = json.loads(json.dumps(metrics_object(SHOWN)))
    assert shown["operators"] == {"source-1": "clicks", "map-1": "map"}
    assert shown["metrics"]["rows_in"] == {
        "unit": "rows",
        "kind": "counter",
        "readings": [
            {"operator": "map-1", "subtask": "0", "value": 30, "per_s": 10.0},
            {"operator": "map-1", "subtask": "1", "value": 50, "per_s": 20.0},
        ],
    }
    (added,) = shown["metrics"]["accumulated"]["readings"]
    assert (added["name"], added["n"], added["most"]) == ("ms", 3, 3.0)
    assert {"p50", "p95", "p99"} <= added.keys()


@given(
    st.lists(
        st.tuples(st.sampled_from(RunOutcome), st.integers(0, 50), st.integers(0, 50)), max_size=30
    )
)
def test_time_is_counted_exactly_once(turns: list[tuple[RunOutcome, int, int]]) -> None:
    spent, now_us, queued_us, before = SpentTime(), 0, 0, RunOutcome.WORKED
    for ran, waited_us, took_us in turns:
        spent.turn(ran, now_us + waited_us, now_us + waited_us + took_us)
        now_us += waited_us + took_us
        queued_us += waited_us if before is RunOutcome.WORKED else 0
        before = ran
    assert spent.busy_us + spent.blocked_us + spent.idle_us + queued_us == now_us
    assert spent.busy_us == sum(took for ran, _, took in turns if ran.worked)
