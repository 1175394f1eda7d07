"""Conversion of batches to frames equals that of Polars, for all types and numbers of rows."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from rheos.core.protocol.polars_frames import arrow_table, polars_frame

TIME = datetime(2026, 1, 2, 3, 4, 5)
OF_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -2]),
    (pa.uint64(), [1, 2**63]),
    (pa.float32(), [1.5, float("nan")]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "a text that is too long to lie in a view"]),
    (pa.large_string(), ["é", "b"]),
    (pa.string_view(), ["é", "b"]),
    (pa.binary(), [b"\xff", b""]),
    (pa.date32(), [date(2026, 1, 2), date(1969, 1, 2)]),
    (pa.timestamp("s"), [TIME, TIME]),
    (pa.timestamp("ms", "UTC"), [TIME, TIME]),
    (pa.timestamp("us", "Europe/Berlin"), [TIME, TIME]),
    (pa.time64("us"), [time(1, 2), time(3)]),
    (pa.duration("ms"), [timedelta(1), timedelta(0)]),
    (pa.decimal128(10, 2), [Decimal("1.25"), Decimal("-3")]),
    (pa.list_(pa.string()), [["a", None], []]),
    (pa.struct([("x", pa.string()), ("n", pa.int64())]), [{"x": "a", "n": 1}, {"x": None, "n": 2}]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (pa.null(), [None, None]),
]


@pytest.mark.parametrize(("kind", "values"), OF_TYPES, ids=lambda of: str(of)[:24])
@pytest.mark.parametrize("times", [0, 1, 600])
def test_a_frame_equals_that_of_polars(kind: pa.DataType, values: list[Any], times: int) -> None:
    rows = [*values, None] * times
    column = (
        pa.array(rows, kind.value_type).dictionary_encode().cast(kind)
        if pa.types.is_dictionary(kind)
        else pa.array(rows, kind)
    )
    texts = pa.array([str(row) for row in range(len(rows))], pa.string())
    batch = pa.RecordBatch.from_arrays([column, texts], names=["c", "text"])
    for part in (batch, batch.slice(len(rows) // 3)):
        expected = pl.from_arrow(part)
        assert isinstance(expected, pl.DataFrame)
        assert_frame_equal(polars_frame(part), expected)
        whole = expected.to_arrow(compat_level=pl.CompatLevel.oldest())
        made = arrow_table(expected)
        assert made.schema == whole.schema
        assert_frame_equal(pl.DataFrame(made), expected)
