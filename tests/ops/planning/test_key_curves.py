"""The number of keys among many rows is predicted from few rows."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.ops.planning.key_counts import DistinctKeys
from rheos.ops.planning.key_curves import keys_among, scaled
from rheos.ops.planning.measurement import KeyCurve

ROWS = tuple(float(1 << level) for level in range(8, 18))


def curve(keys: int) -> KeyCurve:
    """The curve of rows whose key is one of `keys`, each with the same probability."""
    return KeyCurve(0, ROWS, tuple(among(keys, rows) for rows in ROWS))


def among(keys: int, rows: float) -> float:
    return float(keys * (1 - (1 - 1 / keys) ** rows))


@pytest.mark.parametrize("keys", [100, 10_000, 50_000])
def test_keys_that_repeat_reach_their_number(keys: int) -> None:
    for rows in (1_000.0, 50_000.0, 1e6, 1e9):
        assert keys_among(curve(keys), rows) == pytest.approx(among(keys, rows), rel=0.2)


def test_new_keys_keep_arriving() -> None:
    assert keys_among(KeyCurve(0, ROWS, ROWS), 1e9) == pytest.approx(1e9)
    roots = KeyCurve(0, ROWS, tuple(rows**0.5 for rows in ROWS))
    assert keys_among(roots, 1e10) == pytest.approx(1e5)


def test_few_rows_have_fewer_keys_and_no_curve_has_none() -> None:
    assert keys_among(KeyCurve(0, ROWS, ROWS), 10.0) == 10.0
    assert keys_among(KeyCurve(0, (), ()), 10.0) == 0.0
    assert keys_among(curve(100), 0.0) == 0.0


def test_divided_keys_have_the_curve_of_more_keys() -> None:
    assert keys_among(scaled(curve(10_000), 4.0), 200_000.0) == pytest.approx(
        among(40_000, 200_000), rel=0.02
    )


def test_different_keys_are_counted_at_each_power_of_two() -> None:
    rng = np.random.default_rng(7)
    hashes = rng.integers(0, 2**64 - 1, 60_000, dtype=np.uint64, endpoint=True)
    counter = DistinctKeys(hashes=1 << 10)
    counts: dict[int, int] = {}
    for part in np.array_split(np.concatenate([hashes, hashes]), 17):
        counts.update(counter.add(part))
    assert sorted(counts) == list(range(8, 17))
    assert counts[8] == 256
    for level, count in counts.items():
        assert count == pytest.approx(min(1 << level, 60_000), rel=0.1)
