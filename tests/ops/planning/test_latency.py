"""Latencies follow from waits, the measured delay and the pauses of checkpoints."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from rheos.ops.planning.fitting import fit
from rheos.ops.planning.latency import Latency, exchanges, latency_of
from rheos.ops.planning.load import load_at, max_rate
from rheos.ops.planning.measurement import Measurement, Phase
from tests.ops.planning.samples import grouping
from tests.ops.planning.test_fitting import PACED

TIMEOUT_US = 10_000


def measured(phase: Phase, *latencies_ms: float) -> Phase:
    parts = tuple(msgspec.structs.replace(phase, latency_ms=each) for each in latencies_ms)
    return msgspec.structs.replace(phase, latency_ms=max(latencies_ms), parts=parts)


def latency(measurement: Measurement, slots: int, rate: float, state: float = 0.0) -> Latency:
    model = fit(measurement)
    return latency_of(model, load_at(model, slots, rate, TIMEOUT_US), state)


SAMPLE = msgspec.structs.replace(
    grouping(),
    paced_phases=(measured(PACED[0], 12.0, 20.0), measured(PACED[1], 6.0, 8.0), PACED[2]),
)


def test_a_row_waits_in_the_source_and_grows_towards_full_load() -> None:
    model = fit(grouping())
    assert exchanges(model) == 1
    highest = max_rate(model, 2)
    calm, full, over = (
        latency_of(model, load_at(model, 2, highest * share, TIMEOUT_US), 10e6)
        for share in (0.1, 0.9, 1.1)
    )
    assert calm.source_ms == 10
    assert 10 < calm.total_ms < full.total_ms
    assert over.total_ms == inf


@pytest.mark.parametrize(("slots", "path_ms"), [(1, 8.0), (2, 8.0), (4, 20.0)])
def test_a_load_like_that_of_a_phase_has_its_latency(slots: int, path_ms: float) -> None:
    found = latency(SAMPLE, slots, 20_000.0)
    assert found.path_ms == pytest.approx(path_ms, rel=0.05)
    assert found.path.low < 6.0
    assert found.path.high > 20.0
    assert found.total.low == pytest.approx(found.path.low + 10)


def test_a_delay_that_was_not_measured_has_no_upper_end() -> None:
    assert latency(grouping(), 2, 20_000.0).path.high == inf


def test_a_pause_delays_99_percent_only_if_it_is_long() -> None:
    """Rows of 1 % of the interval of 10 s may be later: 100 ms."""
    slow = msgspec.structs.replace(grouping(), sync_us_per_mb=1000.0)
    none, short, long = (latency(slow, 2, 20_000.0, mb * 2e6).path_ms for mb in (0, 90, 150))
    assert short == none
    assert long == pytest.approx(none + 50, rel=0.02)
