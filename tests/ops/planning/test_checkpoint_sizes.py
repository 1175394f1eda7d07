"""Checkpoints have full parts and deltas, which several checkpoints share."""

from __future__ import annotations

import msgspec
import pytest

from rheos.ops.planning.checkpoint_sizes import checkpoint_sizes
from rheos.ops.planning.measurement import KeyCurve, Measurement, OperatorState
from tests.ops.planning.samples import grouping

CURVE = KeyCurve(0, (1000.0, 10_000.0, 100_000.0), (1000.0, 10_000.0, 100_000.0))
HOUR_MS = 3_600_000


def sample(state: OperatorState, keys: float) -> Measurement:
    last = KeyCurve(0, (*CURVE.rows, 1e7, 2e7, 4e7), (*CURVE.keys, keys, keys, keys))
    return msgspec.structs.replace(
        grouping(states=[state]), key_curves=(last,), checkpoint_interval_ms=10_000
    )


STATE = OperatorState("count", 1e6, chain=1, bytes_per_key=10.0)


def test_if_few_keys_change_checkpoints_write_deltas() -> None:
    # 10,500 of 100,000 keys change: 9 deltas follow a full part.
    sizes = checkpoint_sizes(sample(STATE, 100_000.0), 1050.0, HOUR_MS)
    assert sizes.written_bytes == pytest.approx((1e6 + 9 * 1.05e5) / 10, rel=0.01)
    assert sizes.stored_bytes == pytest.approx(1.945e6 + 1e6 + 1.05e5, rel=0.01)


def test_if_all_keys_change_each_checkpoint_is_full() -> None:
    sizes = checkpoint_sizes(sample(STATE, 100_000.0), 100_000.0, HOUR_MS)
    assert sizes.written_bytes == pytest.approx(1e6)
    assert sizes.stored_bytes == pytest.approx(3e6)


def test_while_state_grows_earlier_checkpoints_are_smaller() -> None:
    sizes = checkpoint_sizes(sample(STATE, 100_000.0), 1000.0, 30_000)
    assert sizes.written_bytes < 300_000
    young = checkpoint_sizes(sample(STATE, 100_000.0), 1000.0, 10_000)
    assert young.stored_bytes == pytest.approx(1e5)


def test_windows_write_the_rows_of_an_interval() -> None:
    windows = OperatorState("windows", 1e6, chain=1, lifetime_ms=40_000, entry_bytes=10.0)
    sizes = checkpoint_sizes(sample(windows, 100_000.0), 1000.0, HOUR_MS)
    assert sizes.written_bytes == pytest.approx((4e5 + 3 * 1e5) / 4)


def test_state_without_changes_is_stored_once() -> None:
    unchanged = msgspec.structs.replace(
        grouping(states=[OperatorState("rules", 1e6)]), written_share=0.0
    )
    sizes = checkpoint_sizes(unchanged, 1000.0, HOUR_MS)
    assert (sizes.written_bytes, sizes.stored_bytes) == (0.0, 1e6)
