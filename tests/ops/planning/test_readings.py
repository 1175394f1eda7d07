"""Phases, state and skew are computed from reports of metrics."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.readings import Reading
from rheos.ops.planning.key_counts import COUNTED, HEAVIEST
from rheos.ops.planning.measurement import ChainLoad, EdgeLoad, KeyCurve
from rheos.ops.planning.readings import (
    COMPILED_ROWS,
    StateLifetime,
    busy_share,
    compiled_chains,
    core_wait_share,
    elapsed_s,
    heaviest_share,
    latency_ms,
    phase_of,
    source_rows,
    states_of,
)


def report(values: Mapping[tuple[f.Metric, tuple[str, ...]], float]) -> MetricsReport:
    """A report of a job with a source, an exchange and a keyed chain in two slots."""
    return MetricsReport(
        job="job",
        name="job",
        at_ms=0,
        attempt=1,
        operators={"rows": "rows", "count": "count", "out": "out"},
        chains={"0": ["rows"], "1": ["count", "out"]},
        edges={"0": ("0", "1")},
        readings=[Reading(metric.name, at, value) for (metric, at), value in values.items()],
    )


BEFORE = report({(f.CPU, ("0",)): 100, (f.BUSY, ("0", "0")): 10, (f.ROWS_OUT, ("rows", "0")): 50})
AFTER = report(
    {
        (f.CPU, ("0",)): 500,
        (f.CPU, ("1",)): 200,
        (f.BUSY, ("0", "0")): 110,
        (f.BUSY, ("1", "0")): 300,
        (f.BUSY, ("0", "1")): 200,
        (f.SLOT_BUSY, ("0",)): 900,
        (f.SLOT_BUSY, ("1",)): 100,
        (f.ROWS_OUT, ("rows", "0")): 150,
        (f.ROWS_OUT, ("rows", "1")): 200,
        (f.ROWS_IN, ("count", "1")): 290,
        (f.SENT_ROWS, ("0", "0")): 300,
        (f.SENT_BATCHES, ("0", "0")): 3,
        (f.SENT_BYTES, ("0", "0")): 2400,
        (f.STATE_BYTES, ("count", "0")): 1000,
        (f.STATE_BYTES, ("rows", "0")): 70,
        (f.KEYS, ("count", "0")): 10,
        (f.COUNTER, ("key-count-0", COUNTED, "0")): 80,
        (f.COUNTER, ("key-count-0", HEAVIEST, "0")): 10,
        (f.COUNTER, ("key-count-0", COUNTED, "1")): 20,
        (f.COUNTER, ("key-count-0", HEAVIEST, "1")): 15,
    }
)


def test_processor_time_is_divided_by_busy_time() -> None:
    phase = phase_of(BEFORE, AFTER, 2, 1024, 2.0)
    assert phase.source_rows == 300
    assert phase.chains == (ChainLoad(0, 300, 100_000 + 200_000), ChainLoad(1, 290, 300_000))
    assert phase.edges == (EdgeLoad(0, 300, 3, 2400),)


def test_latencies_are_those_of_markers_between_two_reports() -> None:
    def taken(path: str, *values: float) -> Reading:
        found = Distribution()
        for value in values:
            found.add(value)
        return Reading(f.LATENCY.name, ("rows", path, "0"), found.value)

    before = msgspec.structs.replace(AFTER, readings=[taken("out", 900.0)])
    after = msgspec.structs.replace(
        AFTER, readings=[taken("out", 900.0, 10.0, 20.0), taken("other", 4.0)]
    )
    assert latency_ms(before, after) == pytest.approx(20.0, rel=0.04)
    assert latency_ms(None, after) == pytest.approx(900.0, rel=0.04)
    assert latency_ms(None, AFTER) is None


def test_chains_with_compiled_functions_are_found_by_their_counter() -> None:
    counted = report({(f.COUNTER, ("count", COMPILED_ROWS, "1")): 5.0})
    assert compiled_chains(counted) == {1}
    assert compiled_chains(AFTER) == set()


def test_a_phase_from_the_beginning_has_all_rows() -> None:
    assert phase_of(None, AFTER, 2, 1024, 2.0).source_rows == source_rows(AFTER) == 350
    assert busy_share(None, AFTER, 1.0) == 0.9


def test_state_of_sources_is_left_out_and_growth_is_per_row() -> None:
    early = report({(f.STATE_BYTES, ("count", "0")): 400, (f.ROWS_OUT, ("rows", "0")): 50})
    [state] = states_of(early, AFTER, {"count": StateLifetime(1000)})
    assert (state.operator, state.size_bytes, state.keys, state.lifetime_ms) == (
        "count",
        1000,
        10,
        1000,
    )
    assert state.growth_bytes_per_row == 600 / 300
    [constant] = states_of(AFTER, AFTER, {})
    assert constant.growth_bytes_per_row == 0
    [unknown] = states_of(None, AFTER, {})
    assert unknown.growth_bytes_per_row == 0


def test_the_share_of_the_heaviest_key_is_a_bound_over_all_slots() -> None:
    assert heaviest_share(AFTER) == 25 / 100
    assert heaviest_share(BEFORE) is None


def test_the_time_between_reports_of_slots_leaves_out_their_age() -> None:
    early, late = (report({(f.REPORT_AGE, (slot,)): age for slot in "01"}) for age in (200.0, 50.0))
    later = msgspec.structs.replace(late, at_ms=1000)
    assert elapsed_s(early, later) == 1.15


def test_slots_wait_for_a_core_for_a_share_of_their_working_time() -> None:
    waited = report({(f.CORE_WAIT, ("0",)): 40.0, (f.SLOT_BUSY, ("0",)): 100.0})
    assert core_wait_share(None, waited) == 0.4
    assert core_wait_share(waited, waited) == 0


def test_bytes_of_a_key_come_from_the_rows_of_the_same_checkpoint() -> None:
    # The reports have more rows and keys than the checkpoint, whose delta repeats most of its keys.
    early, late = (
        report(
            {
                (f.ROWS_OUT, ("rows", "0")): rows,
                (f.STATE_BYTES, ("count", "0")): entries * 20.0,
                (f.STATE_ROWS, ("count", "0")): entries,
                (f.WRITTEN, ("0",)): 1700.0,
            }
        )
        for rows, entries in ((200.0, 90.0), (400.0, 180.0))
    )
    curve = KeyCurve(0, (100.0, 400.0), (90.0, 110.0))
    [state] = states_of(early, late, {}, [curve])
    assert (state.bytes_per_key, state.growth_bytes_per_row) == (20.0, 0.0)


def test_lists_grow_with_the_rows() -> None:
    early, late = (
        report(
            {
                (f.ROWS_OUT, ("rows", "0")): rows,
                (f.STATE_BYTES, ("count", "0")): rows * 20.0,
                (f.STATE_ROWS, ("count", "0")): rows,
                (f.WRITTEN, ("0",)): 4000.0,
            }
        )
        for rows in (200.0, 400.0)
    )
    [state] = states_of(early, late, {}, [KeyCurve(0, (100.0, 400.0), (90.0, 110.0))])
    assert state.growth_bytes_per_row > 15
