"""Rows of columns as bytes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.state.packing import Packing

TEXTS = st.none() | st.binary(max_size=9)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), TEXTS, st.floats(), TEXTS), min_size=1))
def test_rows_are_read_back(rows: list[tuple[int, bytes | None, float, bytes | None]]) -> None:
    types = [pa.int64(), pa.large_binary(), pa.float64(), pa.binary()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types)]  # type: ignore[call-overload]  # noqa: B905
    packing = Packing(types)
    packed = packing.pack(columns).to_pylist()
    assert repr([c.to_pylist() for c in packing.unpack(packed)]) == repr(
        [c.to_pylist() for c in columns]
    )
    assert [column.type for column in packing.unpack(packed)] == types


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 127]),
        (pa.uint64(), [2**64 - 1, 0]),
        (pa.float32(), [1.5, -0.0]),
        (pa.date32(), [dt.date(1960, 2, 29)] * 2),
        (pa.timestamp("us", "UTC"), [dt.datetime(1960, 2, 29, tzinfo=dt.UTC)] * 2),
        (pa.duration("ms"), [dt.timedelta(days=-3)] * 2),
        (pa.bool_(), [True, None]),
        (pa.bool_(), [True, False]),
        (pa.decimal128(9, 3), [Decimal("-1.250"), None]),
        (pa.string(), ["ä", None]),
        (pa.large_string(), ["", "b"]),
        (pa.binary(3), [b"abc", None]),
    ],
)
def test_every_type_is_read_back(kind: pa.DataType, values: list[Any]) -> None:
    packing = Packing([kind, pa.int64()])
    column = pa.array(values, kind)
    packed = packing.pack([column, pa.array([1, 2])]).to_pylist()
    assert packing.unpack(packed)[0].equals(column)


def test_fixed_rows_sort_by_their_values_after_the_prefix() -> None:
    packing = Packing([pa.uint32()], prefix_bytes=2)
    prefix = np.array([[0, 2], [0, 1], [0, 1]], dtype=np.uint8)
    packed = packing.pack([pa.array([1, 300, 4], pa.uint32())], prefix).to_pylist()
    assert packed == [b"\0\2\0\0\0\1", b"\0\1\0\0\1\x2c", b"\0\1\0\0\0\4"]
    assert packing.unpack(packed)[0].to_pylist() == [1, 300, 4]
