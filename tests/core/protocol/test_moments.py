"""Points in time as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rheos.core.protocol.moments import in_utc, moment_ms, moment_us, parsed_moment

ONE_HOUR_EAST = timezone(timedelta(hours=1))


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert parsed_moment("2026-03-01T09:30:00") == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    assert parsed_moment("2026-03-01T09:30:00+01:00") == datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    zoned = datetime(2026, 3, 1, tzinfo=ONE_HOUR_EAST)
    assert in_utc(zoned) is zoned


def test_times_are_exact_and_rounded_down() -> None:
    far = datetime(9000, 1, 1, 0, 0, 0, 999_999)
    assert moment_us(far) % 1_000_000 == 999_999
    assert moment_ms(far) == moment_us(far) // 1000
    assert moment_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1
    assert moment_ms(datetime(1970, 1, 1, 1, tzinfo=ONE_HOUR_EAST)) == 0


def test_a_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid isoformat"):
        parsed_moment("soon")
