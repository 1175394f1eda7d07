"""Encoding of values as bytes that sort in the same order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.state.order_encoding import from_ordered, ordered

KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats(allow_nan=False).map(lambda value: value + 0.0)),
    (pa.float32(), st.floats(allow_nan=False, width=32).map(lambda value: value + 0.0)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.string(), st.text(max_size=5)),
    (pa.binary(), st.binary(max_size=5)),
    (pa.bool_(), st.booleans()),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=str)
def test_bytes_sort_like_values_and_are_decoded(kind: pa.DataType, values: Any) -> None:
    @given(st.lists(values, max_size=8))
    def holds(drawn: list[Any]) -> None:
        column = pa.array(drawn, kind)
        packed = ordered(column)
        assert from_ordered(packed, kind).equals(column)
        in_order = sorted(column.to_pylist(), key=lambda v: v.encode() if isinstance(v, str) else v)
        assert sorted(packed.to_pylist()) == ordered(pa.array(in_order, kind)).to_pylist()

    holds()


def test_nan_is_above_all_others() -> None:
    packed = ordered(pa.array([float("nan"), float("inf")])).to_pylist()
    assert packed[0] > packed[1]
