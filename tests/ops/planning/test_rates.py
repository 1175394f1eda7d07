"""Rates are written with thousands, millions and a unit of time."""

from __future__ import annotations

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.planning.rates import rows_per_s


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200000/s", 200_000),
        ("200,000", 200_000),
        ("200k/s", 200_000),
        ("1.5M/min", 25_000),
        ("3600 / h", 1),
    ],
)
def test_a_rate(text: str, rate: float) -> None:
    assert rows_per_s(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0/s", "5/day", "-1/s", "k/s"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a rate"):
        rows_per_s(text)
