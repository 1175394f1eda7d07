"""Values that are almost Python's own types, as results of functions and values of state."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rheos.core.errors import StateAccessError
from rheos.core.protocol.columns import TypeMismatch, column_of
from rheos.core.protocol.plain_values import _PLAIN, plain_value
from rheos.core.state.codec import ValueCodec

BERLIN = ZoneInfo("Europe/Berlin")
SAMPLES: dict[type, Any] = {
    datetime: datetime(2026, 10, 25, 2, 30, 1, 5, BERLIN, fold=1),
    date: date(2026, 3, 1),
    timedelta: timedelta(days=-1, microseconds=1),
    time: time(12, 30, 15, 123456),
    int: 2**62 + 1,
    float: 0.1,
    str: "語",
    bytes: b"\x00\xff",
    Decimal: Decimal("1.50"),
}


@pytest.mark.parametrize("base", [base for base, _ in _PLAIN])
def test_an_instance_of_a_subclass_is_its_value(base: type) -> None:
    """Check that its own methods have no influence, only its value."""
    own = type("Own", (base,), {"__str__": lambda self: "x", "__repr__": lambda self: "x"})
    value = SAMPLES[base]
    made = own.__new__(own, *value.__reduce_ex__(4)[1]) if base in (datetime, date, time) else None
    if made is None:
        made = own(value.days, value.seconds, value.microseconds) if base is timedelta else own(value)
    plain = plain_value(made)
    assert type(plain) is base
    assert plain == value
    assert getattr(plain, "fold", 0) == getattr(value, "fold", 0)


class Size(enum.IntEnum):
    L = 3


class Word(str, enum.Enum):  # noqa: UP042 - the older form is in use, too
    YES = "yes"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Size.L, 3),
        (Word.YES, "yes"),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.datetime64("2026-03-01T12:00:00.000001000", "ns"), datetime(2026, 3, 1, 12, 0, 0, 1)),
        (np.timedelta64(1000, "ns"), timedelta(microseconds=1)),
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pd.NA, None),
        (pd.Timestamp("2026-03-01", tz="UTC"), datetime(2026, 3, 1, tzinfo=UTC)),
        (pd.Timedelta("1.5s"), timedelta(seconds=1.5)),
    ],
)
def test_scalars_and_members_are_their_values(value: Any, plain: Any) -> None:
    found = plain_value(value)
    assert found == plain
    assert type(found) is type(plain)


FINER = [
    (pd.Timestamp("2026-03-01T12:00:00.123456789"), pa.timestamp("ns")),
    (pd.Timedelta(1, "ns"), pa.duration("ns")),
    (np.datetime64("2026-03-01T12:00:00.123456789"), pa.timestamp("ns")),
    (np.timedelta64(1, "ns"), pa.duration("ns")),
]


@pytest.mark.parametrize(("value", "kind"), FINER)
def test_nanoseconds_are_kept_or_refused(value: Any, kind: pa.DataType) -> None:
    coarse = pa.timestamp("us") if pa.types.is_timestamp(kind) else pa.duration("us")
    with pytest.raises(TypeMismatch, match="field 'v' should be"):
        column_of([value], pa.field("v", coarse))
    with pytest.raises(ValueError, match="microsecond"):
        plain_value(value)
    later = datetime(2026, 1, 1) if pa.types.is_timestamp(kind) else timedelta(1)
    made = column_of([value, later, None, pd.NaT], pa.field("v", kind))
    assert made[0].value == pa.array([value], kind)[0].value
    assert made.null_count == 2


@pytest.mark.parametrize("missing", [pd.NaT, pd.NA, np.datetime64("NaT")])
def test_a_missing_value_is_null_only_in_nullable_columns(missing: Any) -> None:
    kind = pa.timestamp("us")
    assert column_of([missing], pa.field("v", kind)).null_count == 1
    with pytest.raises(TypeMismatch):
        column_of([missing], pa.field("v", kind, nullable=False))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime(2026, 1, 1, microsecond=1), pa.timestamp("ms")),
        (timedelta(milliseconds=1), pa.duration("s")),
        (time(1, microsecond=1), pa.time32("ms")),
        (time(1, tzinfo=UTC), pa.time64("us")),
        (1e300, pa.float32()),
        (10**400, pa.float64()),
        (datetime(2026, 1, 1), pa.date32()),
        (5, pa.time64("us")),
    ],
)
def test_values_that_arrow_would_change_are_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(TypeMismatch, match="field 'v' should be"):
        column_of([value], pa.field("v", kind))


def test_a_value_of_state_is_the_same_before_and_after_a_restart() -> None:
    codec = ValueCodec("last", datetime)
    for given in (SAMPLES[datetime], pd.Timestamp("2026-07-01 02:30", tz="Europe/Berlin")):
        held = codec.fit(given)
        assert held.timestamp() == given.timestamp()
        assert repr(codec.decode(codec.encode([held], ["k"])[0])) == repr(held)
    naive = datetime(2026, 1, 1)
    assert codec.decode(codec.encode([codec.fit(naive)], ["k"])[0]) == naive
    for wrong in (date(2026, 1, 1), pd.Timestamp(1), pd.NaT, 5):
        with pytest.raises(StateAccessError, match="state 'last' is declared as datetime, but was"):
            codec.fit(wrong)
    assert ValueCodec("last", datetime | None).fit(pd.NaT) is None
    with pytest.raises(StateAccessError, match="declared as date"):
        ValueCodec("day", date).fit(naive)
