"""Converts values of NumPy, pandas and subclasses to Python's own, in functions' results and states.

| value | becomes |
|---|---|
| a member of an Enum | its value |
| a scalar of NumPy | the number, string, datetime or timedelta of that value |
| an instance of a subclass, such as pandas.Timestamp | the same value in its base class |
| NaT of NumPy or pandas, pandas.NA | None |

If Python's own class cannot hold a value, such as a pandas.Timestamp with nanoseconds, the conversion
raises ValueError. It never truncates.
"""

from __future__ import annotations

import enum
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

_OWN = frozenset((bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, type(None)))
_MISSING = frozenset(("NaTType", "NAType"))
"""Class names of pandas.NaT, which is a datetime in Python, and of pandas.NA."""
_FINER = "it has a higher resolution than microseconds"


def plain_value(value: Any) -> Any:
    """Return the value as one of Python's own; unchanged if it is not in the table. Raise
    ValueError."""
    while isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, np.generic):
        value = _of_numpy(value)
    kind = type(value)
    if kind in _OWN:
        return value
    if is_missing(value):
        return None
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return plain(value)
    return value


def plain_inside(value: Any) -> Any:
    """Convert all values inside lists and dicts to Python's own. Arrow, which infers a type from
    values, would truncate the nanoseconds of a pandas.Timestamp."""
    if type(value) is list:
        return [plain_inside(each) for each in value]
    if type(value) is dict:
        return {name: plain_inside(each) for name, each in value.items()}
    return plain_value(value)


def is_missing(value: Any) -> bool:
    """Return whether this is a missing value of NumPy or pandas: NaT or NA."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    kind = type(value)
    return kind.__name__ in _MISSING and kind.__module__.startswith("pandas.")


def _of_numpy(value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return None
        if isinstance(value.item(), int):  # No Python object can represent it in its own unit.
            micros = value.astype(f"{value.dtype.kind}8[us]")
            if micros.astype(value.dtype) != value or isinstance(micros.item(), int):
                raise ValueError(
                    "it has a higher resolution than microseconds, or is outside the years 1 to 9999"
                )
            return micros.item()
    return value.item()


def _datetime(value: Any) -> datetime:
    if getattr(value, "nanosecond", 0):
        raise ValueError(_FINER)
    return datetime(
        *(
            value.year,
            value.month,
            value.day,
            value.hour,
            value.minute,
            value.second,
            value.microsecond,
        ),
        tzinfo=value.tzinfo,
        fold=value.fold,
    )


def _timedelta(value: Any) -> timedelta:
    if getattr(value, "nanoseconds", 0):
        raise ValueError(_FINER)
    return timedelta(value.days, value.seconds, value.microseconds)


def _time(value: Any) -> time:
    parts = (value.hour, value.minute, value.second, value.microsecond)
    return time(*parts, tzinfo=value.tzinfo, fold=value.fold)


# Each class comes before its own base classes. The methods are those of the base class: overrides in a
# subclass are ignored.
_PLAIN: tuple[tuple[type, Any], ...] = (
    (datetime, _datetime),
    (date, lambda value: date(value.year, value.month, value.day)),
    (timedelta, _timedelta),
    (time, _time),
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda value: bytes(memoryview(value))),
    (Decimal, Decimal),
)
