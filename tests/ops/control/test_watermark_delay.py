"""Finding the split that delays a watermark, from metrics alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rheos.core.errors import ConfigurationError
from rheos.core.metrics.history_files import HistorySegment, HistoryView
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.readings import Reading
from rheos.ops.control.watermark_delay import DelayedEdge, WatermarkDelay, held_back
from tests.cli.stand_ins import outline

EMPTY = HistorySegment("", "coarse", 0, [], [], [])


def found(*readings: Reading, history: HistoryView | None = None, **changes: Any) -> WatermarkDelay:
    """Return the watermark delay of the map downstream of the source "clicks"."""
    plan = outline()
    metrics = MetricsReport(
        job="job",
        name="job",
        at_ms=5_000,
        attempt=1,
        operators={"source-1": "clicks", "map-1": "map"},
        chains={"0": ["source-1"], "1": ["map-1"]},
        edges={"0": ("0", "1")},
        readings=list(readings),
    )
    return held_back(changes.get("plan", plan), metrics, history or HistoryView.nothing(), "map-1")


def split(name: str, subtask: int, mark: int | None, stands: int, idle: int = 0) -> list[Reading]:
    at = ("source-1", name, str(subtask))
    mine = [Reading("split_stands_ms", at, stands), Reading("split_idle", at, idle)]
    return mine if mark is None else [*mine, Reading("split_watermark_ms", at, mark)]


def mark(operator: str, subtask: int, ms: int) -> Reading:
    return Reading("watermark_ms", (operator, str(subtask)), ms)


def test_the_split_furthest_behind_delays_the_watermark() -> None:
    held = found(
        *split("a", 0, 90, 7_000), *split("b", 1, 500, 3), mark("map-1", 0, 90), mark("map-1", 1, 90)
    )
    assert (held.watermark_ms, held.subtask) == (90, None)
    (holding,) = held.holding
    assert (holding.source, holding.split, holding.subtask) == ("clicks", "a", 0)
    assert (holding.watermark_ms, holding.stands_ms) == (90, 7_000)
    assert (held.delayed, held.idle) == ((), ())


def test_an_empty_split_delays_the_watermark_and_an_idle_one_does_not() -> None:
    held = found(*split("quiet", 0, None, 60_000, 1), *split("b", 0, 10, 5), *split("c", 1, 10, 6))
    assert [holding.split for holding in held.holding] == ["b", "c"]
    assert [idle.split for idle in held.idle] == ["quiet"]
    held = found(*split("empty", 0, None, 60_000), *split("b", 0, 10, 5))
    assert [(holding.split, holding.watermark_ms) for holding in held.holding] == [("empty", None)]


def test_waiting_splits_and_late_rows_are_counted() -> None:
    held = found(
        Reading("waiting_splits", ("source-1", "0"), 2),
        Reading("waiting_splits", ("source-1", "1"), 3),
        Reading("counter", ("map-1", "late", "0"), 4),
        Reading("counter", ("map-1", "late", "1"), 1),
        Reading("counter", ("map-1", "other", "1"), 1),
    )
    assert (held.waiting_splits, held.late, held.late_goes_to) == (5, 5, None)


def test_an_edge_with_buffered_rows_is_reported() -> None:
    held = found(
        mark("source-1", 0, 900),
        mark("source-1", 1, 800),
        mark("map-1", 0, 300),
        mark("map-1", 1, 700),
        Reading("queued_batches", ("0", "0"), 6),
        Reading("busy_ms", ("1", "0"), 1.0, 970.0),
        Reading("busy_ms", ("1", "1"), 1.0, 10.0),
    )
    assert (held.watermark_ms, held.subtask) == (300, 0)
    assert held.delayed == (DelayedEdge("clicks", "map", 800, 300, 6, 0.97),)


def test_an_edge_without_buffered_rows_is_not_reported() -> None:
    """Watermarks differ there because subtasks report at different moments."""
    assert found(mark("source-1", 0, 900), mark("map-1", 0, 880)).delayed == ()


@pytest.mark.parametrize(
    ("marks", "since"),
    [([10.0, 20.0, 20.0], 2_000), ([20.0, 20.0, 20.0], 1_000), ([20.0, 20.0, 10.0], None)],
)
def test_the_history_shows_since_when_the_watermark_is_constant(
    marks: list[float], since: int | None
) -> None:
    fine = HistorySegment(
        "job", "fine", 1_000, ["watermark_ms\tmap-1"], [1_000, 2_000, 3_000], [[m] for m in marks]
    )
    held = found(mark("map-1", 0, 20), history=HistoryView(fine, EMPTY))
    assert held.since_ms == since


def test_sources_not_upstream_are_ignored() -> None:
    plan = outline()
    apart: PlanOutline = msgspec.structs.replace(plan, edges=[])
    assert found(*split("a", 0, 90, 7_000), plan=apart).holding == ()


def test_an_operator_is_found_by_id_or_name() -> None:
    metrics = MetricsReport("job", "job", 0, 1, {}, {}, {}, [])
    assert held_back(outline(), metrics, HistoryView.nothing(), "map").operator.id == "map-1"
    with pytest.raises(ConfigurationError, match=r"no operator 'mop'.*\n.*map-1 \(map\)"):
        held_back(outline(), metrics, HistoryView.nothing(), "mop")
