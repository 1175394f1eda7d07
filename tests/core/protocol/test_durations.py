"""Durations as users write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("250ms", 250),
        ("5s", 5_000),
        ("5 s", 5_000),
        ("10m", 600_000),
        ("10min", 600_000),
        ("1h30m", 5_400_000),
        (" 1 hour 30 minutes ", 5_400_000),
        ("1 hour, 30 min", 5_400_000),
        ("5 minutes", 300_000),
        ("1 Minute", 60_000),
        ("2 days", 172_800_000),
        ("1 week", 604_800_000),
        ("1.5 seconds", 1_500),
        ("0s", 0),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_durations_are_converted_to_ms(written: Duration, ms: int) -> None:
    assert duration_ms(written) == ms


@pytest.mark.parametrize(
    "written", ["", "5", "minutes", "5 parsecs", "5M", "5s!", "-5s", "1h 30", "1e3s", 5]
)
def test_an_invalid_duration_is_refused_with_a_hint(written: Duration) -> None:
    with pytest.raises(ProgramError, match="is not a duration") as caught:
        duration_ms(written)
    assert '"5 minutes"' in str(caught.value.hint)


def test_months_are_refused_by_name() -> None:
    with pytest.raises(ProgramError, match="months and years differ in length") as caught:
        duration_ms("1 month")
    assert '"30d"' in str(caught.value.hint)
