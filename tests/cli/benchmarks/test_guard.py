"""The guard of processor time calls a difference one only if noise does not explain it."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.guard import interval, verdict
from benchmarks.guard_kernels import KERNELS


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.1] * 6, "slower"),
        ([0.9] * 6, "faster"),
        ([1.01] * 6, "no difference seen"),
        ([1.1] * 5 + [0.99], "no difference seen"),
        ([1.0] * 6, "no difference seen"),
        ([1.04, 1.06] * 6 + [0.9, 0.95], "slower"),
    ],
)
def test_a_difference_is_outside_of_the_noise(values: list[float], found: str) -> None:
    assert verdict(values) == found


@pytest.mark.parametrize("count", [6, 15, 25])
def test_the_interval_contains_the_median_as_often_as_promised(count: int) -> None:
    random = Random(count)
    inside = 0
    for _ in range(2_000):
        inside += interval([random.gauss(1, 0.1) for _ in range(count)]).contains(1)
    assert 0.94 < inside / 2_000 < 0.995


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_run(kernel: str) -> None:
    KERNELS[kernel].work()()
