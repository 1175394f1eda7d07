"""Parsing of dates and times in all forms that Spark's casts accept. Row functions
(`rheos.core.graph.row_functions`).

    2026    2026-3    2026-03-01    2026-03-01T12    2026-03-01 12:34:56.789 Europe/Berlin

A time without a day is invalid here: Spark adds the day on which the query runs, which changes when a
job resumes after a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import polars as pl

from rheos.sql.java_numbers import WHITESPACE

_DAY_US = 86_400_000_000
_MOST_DAYS = (1 << 63) // _DAY_US - 1
"""Maximum number of days that fit into 64 bits of microseconds."""
_DATE = (
    r"^(?P<sign>[+-])?(?P<year>[0-9]{4,7})"
    r"(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?s:[ T].*)?)?)?$"
)
_MOMENT = (
    r"^(?P<sign>[+-])?(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9](?s:.*))?)?)?)?)?)?$"
)
_COMMON_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_COMMON_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-5][0-9](?:\.[0-9]{1,6})?Z?$"


def days_of_texts(columns: Sequence[pl.Series]) -> pl.Series:
    """Parse dates; null for a string that is not a date."""
    texts = columns[0].str.strip_chars(WHITESPACE)
    common = _matching(texts, _COMMON_DATE)
    made = common.str.to_date("%Y-%m-%d", strict=False)
    return _with_rest(texts, made, lambda rest: _parts(rest, _DATE).select(_DAYS).to_series())


def moments_of_texts(columns: Sequence[pl.Series], *, zoned: bool) -> pl.Series:
    """Parse times, as microseconds since 1970; null for a string that is not a time.

    A string without a zone is in UTC. `zoned` is whether a zone in the string is applied: for
    TIMESTAMP_NTZ, Spark ignores it.
    """
    texts = columns[0].str.strip_chars(WHITESPACE)
    common = _matching(texts, _COMMON_MOMENT).str.strip_suffix("Z").str.replace("T", " ", literal=True)
    made = common.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False).cast(pl.Int64)
    return _with_rest(texts, made, lambda rest: _moments(rest, zoned=zoned))


def _matching(texts: pl.Series, form: str) -> pl.Series:
    return texts.zip_with(texts.str.contains(form), pl.Series([None], dtype=pl.String))


def _with_rest(texts: pl.Series, made: pl.Series, read: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return `made`, which has the strings of the common form; each other string is parsed once."""
    unread = made.is_null() & texts.is_not_null()
    if not unread.any():
        return made
    rest = texts.filter(unread).unique()
    found = texts.replace_strict(rest, read(rest).cast(made.dtype), default=None)
    return made.zip_with(~unread, found)


# --- the calendar -------------------------------------------------------------------------------------


def _parts(texts: pl.Series, form: str) -> pl.DataFrame:
    """Return the numbers in each string; null if it does not match `form`. A missing month or day is 1,
    a missing time is 0:00."""
    first = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    field = pl.col("text").struct.field
    sign = pl.when(field("sign") == "-").then(-1).otherwise(1)
    wanted = [(field("year").cast(pl.Int64) * sign).alias("year")]
    wanted += [
        field(name).cast(pl.Int64).fill_null(number).alias(name)
        for name, number in first.items()
        if f"<{name}>" in form
    ]
    wanted += [field(name) for name in ("fraction", "zone") if f"<{name}>" in form]
    return texts.str.extract_groups(form).alias("text").to_frame().select(wanted)


def _days_before(year: pl.Expr, month: pl.Expr) -> pl.Expr:
    """Return days from the start of 1970 to the start of the month, in the proleptic Gregorian
    calendar. Months are counted from March, so the leap day is the last of a year."""
    shifted = (month + 9) % 12
    of_year = year - (month <= 2).cast(pl.Int64)
    leap_days = of_year.floordiv(4) - of_year.floordiv(100) + of_year.floordiv(400)
    return of_year * 365 + leap_days + (shifted * 153 + 2) // 5 - 719_468


_YEAR, _MONTH, _DAY = (pl.col(name) for name in ("year", "month", "day"))
_NEXT = _days_before(
    _YEAR + (_MONTH == 12).cast(pl.Int64), pl.when(_MONTH == 12).then(1).otherwise(_MONTH + 1)
)
_BEGIN = _days_before(_YEAR, _MONTH)
_IS_DAY = _MONTH.is_between(1, 12) & (_DAY >= 1) & (_DAY <= _NEXT - _BEGIN)
_DAYS = pl.when(_IS_DAY).then(_BEGIN + _DAY - 1)


def _moments(texts: pl.Series, *, zoned: bool) -> pl.Series:
    fraction = pl.col("fraction").fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64)
    hour, minute, second = (pl.col(name) for name in ("hour", "minute", "second"))
    days = pl.when((hour < 24) & (minute < 60) & (second < 60) & (_DAYS.abs() < _MOST_DAYS)).then(_DAYS)
    local = days * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    made = _parts(texts, _MOMENT).select(
        local.alias("local"), pl.col("zone").str.strip_chars(WHITESPACE).alias("zone")
    )
    if made["zone"].null_count() == len(made):
        return made["local"]
    shift = _shifts_us(made["zone"], made["local"])
    kept = made["local"].zip_with(shift.is_not_null(), pl.Series([None], dtype=pl.Int64))
    return kept - shift if zoned else kept


# --- zones --------------------------------------------------------------------------------------------

_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d\d?)(?::(\d\d?)|:(\d\d):(\d\d))?|(\d\d)(\d\d)(\d\d)?)", re.ASCII
)
_SHORT = {
    **{"ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires"},
    **{"ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo"},
    **{
        "BST": "Asia/Dhaka",
        "CAT": "Africa/Harare",
        "CNT": "America/St_Johns",
        "CST": "America/Chicago",
    },
    **{"CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris"},
    **{"IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo"},
    **{"MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi"},
    **{"PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles"},
    **{"SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh"},
    **{"EST": "-05:00", "MST": "-07:00", "HST": "-10:00"},
    **dict.fromkeys(("Z", "UTC", "GMT", "UT"), "+00:00"),
}
"""Java's zone names of three letters."""
_MOST_OFFSET_S = 18 * 3600
_EPOCH = datetime(1970, 1, 1)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The start of the year 1, and the end of 9999: Python supports no other years."""
_CYCLE_US = 146_097 * _DAY_US
"""400 years, after which the calendar begins again, on the same day of the week."""


def _shifts_us(zones: pl.Series, local_us: pl.Series) -> pl.Series:
    """Return the offset of each zone from UTC at a local time; null for an unknown zone."""
    named = zones.unique().drop_nulls()
    fixed = pl.Series([_offset_us(name) for name in named], dtype=pl.Int64)
    shifts = zones.replace_strict(named, fixed, default=None).zip_with(
        zones.is_not_null(), pl.Series([0], dtype=pl.Int64)
    )
    rows = (shifts.is_null() & local_us.is_not_null()).arg_true()
    regional = [
        _regional_shift_us(zone, local)
        for zone, local in zip(zones.gather(rows), local_us.gather(rows), strict=True)
    ]
    return shifts.scatter(rows, pl.Series(regional, dtype=pl.Int64))


def _regional_shift_us(zone: str, local_us: int) -> int | None:
    """Return the offset as Java does. A local time that occurs twice is the first of both. For a local
    time that clocks skip, the offset before the change applies."""
    known = _zone(_SHORT.get(zone, zone))
    if known is None:
        return None
    later = max(0, local_us - _LAST_US + _CYCLE_US) // _CYCLE_US
    time = max(local_us - later * _CYCLE_US, _FIRST_US)
    moved = (_EPOCH + timedelta(microseconds=time)).replace(tzinfo=known).utcoffset()
    assert moved is not None
    return moved // timedelta(microseconds=1)


def _offset_us(zone: str) -> int | None:
    """Return the offset if the zone is written as one; None otherwise, or if it is out of range."""
    found = _OFFSET.fullmatch(_SHORT.get(zone, zone))
    if found is None:
        return None
    sign, *numbers = found.groups()
    hours, *rest = (int(each or 0) for each in numbers)
    minutes, seconds = rest[0] + rest[1] + rest[4], rest[2] + rest[5]
    length = ((hours + rest[3]) * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or length > _MOST_OFFSET_S:
        return None
    return (-length if sign == "-" else length) * 1_000_000


def is_zone(name: str) -> bool:
    """Return whether Java knows a time zone of this name, or the name is an offset."""
    return _offset_us(name) is not None or _zone(_SHORT.get(name, name)) is not None


def local_times(columns: Sequence[pl.Series], *, zone: str) -> pl.Series:
    """Return what clocks of a zone show at times, in microseconds since 1970. A row function."""
    [moments] = columns
    offset = _offset_us(zone)
    if offset is not None:
        return moments + offset
    zoned = moments.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(_SHORT.get(zone, zone))
    return zoned.dt.replace_time_zone(None).cast(pl.Int64)


def utc_times(columns: Sequence[pl.Series], *, zone: str) -> pl.Series:
    """Return the times at which clocks of a zone show a local time. A row function."""
    [local] = columns
    offset = _offset_us(zone)
    if offset is not None:
        return local - offset
    zoned = local.cast(pl.Datetime("us")).dt.replace_time_zone(
        _SHORT.get(zone, zone), ambiguous="earliest", non_existent="null"
    )
    made = zoned.dt.convert_time_zone("UTC").cast(pl.Int64)
    skipped = (made.is_null() & local.is_not_null()).arg_true()
    shifted = [value - (_regional_shift_us(zone, value) or 0) for value in local.gather(skipped)]
    return made.scatter(skipped, pl.Series(shifted, dtype=pl.Int64))


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
