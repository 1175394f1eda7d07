"""Packed columns of values are read back unchanged, for all types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.state.packed_columns import pack_columns, unpack_columns

EXAMPLES: list[Any] = [
    [0, 1, -(2**63), 2**63 - 1],
    [2**63, -(10**40)],
    [0.0, -0.0, 5e-324, math.inf, -math.inf],
    [True, False],
    ["", "ä", "\U0001f600", "\ud800"],
    [b"", b"\x00"],
    [Decimal("1.50"), Decimal("-0"), Decimal(10) ** 37],
    [datetime(2026, 3, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
    [datetime(2026, 3, 1, 1, 2, 3, 4)],
    [datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=2)))],
    [date(2026, 3, 1)],
    [time(1, 2, 3, 4)],
    [timedelta(days=-1, microseconds=5)],
    [[1, None], {"a": 1.5}, (1, "x")],
    [1, 1.0, True, "1"],
    [],
]


@pytest.mark.parametrize("nulls", [False, True])
def test_every_type_is_read_back(nulls: bool) -> None:
    columns = [[None, *column, None] if nulls else column for column in EXAMPLES]
    found = unpack_columns(pack_columns(columns))
    assert list(map(repr, found)) == list(map(repr, columns))


VALUES = st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.booleans(), st.decimals())


@given(st.lists(st.lists(VALUES, max_size=5), max_size=4))
@settings(max_examples=50)
def test_any_columns_are_read_back(columns: list[list[Any]]) -> None:
    assert repr(unpack_columns(pack_columns(columns))) == repr(columns)
