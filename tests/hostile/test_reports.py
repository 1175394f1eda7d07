"""Impossible metrics in a worker's report are refused, because they would be kept and shown."""

from __future__ import annotations

from math import inf, nan

import msgspec
import pytest

from rheos.core.metrics import reports
from rheos.core.metrics.reports import MAX_NAME, ReportShape, report_problem
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Progress
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.readings import Reading
from rheos.runtimes.driver.metrics_keeper import MetricsKeeper
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from tests.cli.stand_ins import STATUS
from tests.runtimes.driver.test_master import Target, plan_of

SHAPE = ReportShape(frozenset({"map", "sink"}), frozenset({"0"}), frozenset({"7"}), 2)
TRUE = Progress(
    attempt=Attempt(1),
    subtask=1,
    step_us=5,
    records_in={"map": 3},
    records_out={"map": 3},
    watermark_ms={"map": -5},
    busy_us=1,
    blocked_us=1,
    counters={"map/late": 1},
    accumulated={"map/ms": Accumulated(1, 1.0, 1.0, 1.0, {3: 1})},
    gauges={"map/depth": nan},
    readings=[
        Reading("busy_ms", ("0",), 5.5),
        Reading("sent_rows", ("7",), 5),
        Reading("memory_bytes", (), 5),
        Reading("split_lag_rows", ("map", "a/b.csv"), 5),
        Reading("commit_duration_ms", ("sink",), Accumulated(1, 5.0, 5.0, 5.0, {40: 1})),
    ],
)


def changed(**fields: object) -> Progress:
    return msgspec.structs.replace(TRUE, **fields)


def with_reading(*reading: object) -> Progress:
    return changed(readings=[Reading(*reading)])  # type: ignore[arg-type]


def test_a_valid_report_is_accepted() -> None:
    assert report_problem(TRUE, SHAPE) is None


def test_places_that_were_valid_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_PLACES", 2)
    shape = ReportShape(SHAPE.operators, SHAPE.chains, SHAPE.edges, 2)
    for split in "abc":
        assert report_problem(with_reading("split_lag_rows", ("map", split), 5), shape) is None
    assert shape.places == {("split_lag_rows", ("map", split)) for split in "ab"}
    for split in "ac":
        refused = with_reading("split_lag_rows", ("map", split), inf)
        assert report_problem(refused, shape) == "split_lag_rows cannot be inf"
    unknown = with_reading("split_lag_rows", ("other", "a"), 5)
    assert "not in the plan" in (report_problem(unknown, shape) or "")
    assert len(shape.places) == 2


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (changed(subtask=2), "subtask 2 does not exist"),
        (changed(subtask=-1), "subtask -1 does not exist"),
        (changed(records_in={"spy": 3}), "no operator 'spy'"),
        (changed(watermark_ms={"spy": 3}), "no operator 'spy'"),
        (changed(records_out={"map": -3}), "a row count is negative"),
        (changed(counters={"spy/late": 3}), "no operator for 'spy/late'"),
        (changed(gauges={"map/": 3.0}), "no operator for 'map/'"),
        (changed(counters={"map/" + "x" * (MAX_NAME + 1): 3}), "no operator for 'map/xx"),
        (
            changed(accumulated={"map/x": Accumulated(buckets=dict.fromkeys(range(5000), 1))}),
            "buckets",
        ),
        (with_reading("spy_ms", (), 3), "do not report a metric 'spy_ms'"),
        (with_reading("uptime_s", (), 3), "do not report a metric 'uptime_s'"),
        (with_reading("rows_in", (), 3), "1 labels"),
        (with_reading("memory_bytes", ("0",), 3), "0 labels"),
        (with_reading("sent_rows", ("8",), 3), "edge '8'"),
        (with_reading("busy_ms", ("8",), 3), "chain '8'"),
        (with_reading("keys", ("spy",), 3), "operator 'spy'"),
        (with_reading("split_lag_rows", ("map", "x" * (MAX_NAME + 1)), 3), "split"),
        (with_reading("busy_ms", ("0",), -1.0), "cannot be -1"),
        (with_reading("busy_ms", ("0",), nan), "cannot be nan"),
        (with_reading("memory_bytes", (), inf), "cannot be inf"),
        (with_reading("memory_bytes", (), Accumulated()), "is a gauge"),
        (with_reading("commit_duration_ms", ("sink",), 3), "is a histogram"),
        (with_reading("commit_duration_ms", ("sink",), Accumulated(-1)), "not a histogram"),
        (with_reading("busy_ms", ("0",), 1.0, 5.0), "contains a rate, which only the driver"),
    ],
)
def test_impossible_reports_are_refused(report: Progress, why: str) -> None:
    assert why in (report_problem(report, SHAPE) or "")


def test_a_report_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_READINGS", 12)
    assert report_problem(TRUE, SHAPE) is None
    assert "more than 12 readings" in (report_problem(changed(readings=TRUE.readings * 2), SHAPE) or "")


def test_a_refused_report_is_counted_and_changes_nothing() -> None:
    taken = SubtaskReports(plan_of(Target()))
    keeper = MetricsKeeper(plan_of(Target()), JobId("job"), taken)
    taken.begin(2)
    keeper.begin(Attempt(1), 0)
    before = keeper.now(STATUS, 0, 0).readings
    assert not taken.take(TRUE, 0, 0), "the plan has no such operators"
    after = keeper.now(STATUS, 0, 0).readings
    assert [r for r in after if r not in before] == [Reading("reports_refused", (), 1)]
