"""State is predicted from keys, rows and lifetimes."""

from __future__ import annotations

import msgspec
import pytest

from rheos.ops.planning.measurement import KeyCurve, OperatorState
from rheos.ops.planning.state_growth import StateSize, fitted_growth, state_after
from tests.ops.planning.samples import grouping

CURVE = KeyCurve(0, (1000.0, 2000.0, 4000.0, 8000.0, 16000.0), (500.0, 750.0, 900.0, 1000.0, 1000.0))


def after(state: OperatorState, rate: float, after_ms: int) -> float:
    measurement = msgspec.structs.replace(grouping(states=[state]), key_curves=(CURVE,))
    return state_after(measurement, state, rate, after_ms)


@pytest.mark.parametrize(
    ("early", "late", "growth"),
    [
        (None, StateSize(800.0, 10.0, 8.0), (100.0, 0.0)),
        (StateSize(500.0, 10.0, 5.0), StateSize(800.0, 20.0, 8.0), (100.0, 0.0)),
        (StateSize(80.0, 10.0, 5.0), StateSize(160.0, 20.0, 5.0), (0.0, 8.0)),
        (StateSize(130.0, 10.0, 5.0), StateSize(240.0, 20.0, 8.0), (10.0, 8.0)),
        (StateSize(100.0, 10.0, 0.0), StateSize(200.0, 20.0, 0.0), (0.0, 10.0)),
        (StateSize(199.0, 10.0, 0.0), StateSize(200.0, 20.0, 0.0), (0.0, 0.0)),
    ],
)
def test_growth_is_divided_between_keys_and_rows(
    early: StateSize | None, late: StateSize, growth: tuple[float, float]
) -> None:
    assert fitted_growth(early, late) == pytest.approx(growth)


def test_state_of_keys_stops_growing_when_all_keys_have_arrived() -> None:
    state = OperatorState("count", 50_000.0, chain=1, bytes_per_key=50.0)
    assert after(state, 1000.0, 2000) == pytest.approx(750 * 50)
    assert after(state, 1000.0, 3_600_000) == pytest.approx(1000 * 50)


def test_state_of_windows_has_an_entry_for_each_key_and_pane() -> None:
    state = OperatorState(
        "windows", 50_000.0, chain=1, lifetime_ms=4000, entry_bytes=20.0, pane_ms=2000
    )
    assert after(state, 1000.0, 3_600_000) == pytest.approx(2 * 750 * 20)
    buffered = msgspec.structs.replace(state, pane_ms=None)
    assert after(buffered, 1000.0, 3_600_000) == pytest.approx(4000 * 20)
