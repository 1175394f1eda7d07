"""Points in time as users write them: datetimes, and strings in ISO 8601.

A time without a zone is in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_utc(moment: datetime) -> datetime:
    """Return the datetime with its zone. A datetime without a zone is in UTC.

    >>> in_utc(datetime(2026, 1, 1)).isoformat()
    '2026-01-01T00:00:00+00:00'
    """
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parsed_moment(text: str) -> datetime:
    """Return the point in time that a string in ISO 8601 names. Raise ValueError if it is invalid."""
    return in_utc(datetime.fromisoformat(text))


def moment_ms(moment: datetime) -> int:
    """Return the datetime in ms since the epoch, rounded down.

    >>> moment_ms(datetime(1970, 1, 1, 0, 0, 1, 999))
    1000
    """
    return (in_utc(moment) - _EPOCH) // timedelta(milliseconds=1)


def moment_us(moment: datetime) -> int:
    """Return the datetime in µs since the epoch."""
    return (in_utc(moment) - _EPOCH) // timedelta(microseconds=1)
