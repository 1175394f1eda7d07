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
    assert sizes.written_bytes == pytest.approx((1e6 + 9 * 1.05e5) / 10, rel=0.03)
    assert sizes.stored_bytes == pytest.approx(1.945e6 + 1e6 + 1.05e5, rel=0.01)
    assert sizes.referred_bytes == pytest.approx(1e6 + 4.5 * 1.05e5, rel=0.03)


def test_if_all_keys_change_each_checkpoint_is_full() -> None:
    sizes = checkpoint_sizes(sample(STATE, 100_000.0), 100_000.0, HOUR_MS)
    assert sizes.written_bytes == pytest.approx(1e6)
    assert sizes.stored_bytes == pytest.approx(3e6)


def test_if_nearly_all_keys_change_each_checkpoint_is_full() -> None:
    sizes = checkpoint_sizes(sample(STATE, 100_000.0), 9_950.0, HOUR_MS)
    assert sizes.stored_bytes == pytest.approx(3e6)
    assert sizes.referred_bytes == pytest.approx(1e6)


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


def test_runs_on_disk_are_merged_and_written_again() -> None:
    on_disk = msgspec.structs.replace(sample(STATE, 100_000.0), state_on_disk=True)
    sizes = checkpoint_sizes(on_disk, 1050.0, HOUR_MS)
    # Seven runs of 105 kB follow the oldest one, until all newer runs together are as large as it is.
    assert 1e6 + 7 * 1.05e5 <= sizes.local_bytes <= 3.5e6
    assert 1.05e5 < sizes.written_bytes < 5e5
    young = checkpoint_sizes(on_disk, 1050.0, 30_000)
    assert young.local_bytes == pytest.approx(3 * 1.05e5, rel=0.01)
    assert young.stored_bytes == pytest.approx(3 * 1.05e5, rel=0.01)


def test_large_changes_on_disk_become_many_runs_which_are_merged_sooner() -> None:
    few, many = (
        msgspec.structs.replace(
            sample(STATE, 100_000.0), state_on_disk=True, state_memory_bytes=memory_bytes
        )
        for memory_bytes in (2**30, 2**20)
    )
    larger, smaller = (checkpoint_sizes(each, 100_000.0, HOUR_MS) for each in (few, many))
    assert larger.local_bytes == pytest.approx(9e6, rel=0.01)
    assert smaller.local_bytes < larger.local_bytes
    spread = checkpoint_sizes(many, 100_000.0, HOUR_MS, slots=100)
    assert spread.local_bytes == pytest.approx(larger.local_bytes)
