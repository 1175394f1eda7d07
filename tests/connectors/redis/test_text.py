"""Conversion of values to strings and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos.connectors.redis.text import from_bytes, to_bytes

TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_times_of_day_are_converted_back(kind: pa.DataType) -> None:
    integers = pa.int32() if kind.bit_width == 32 else pa.int64()
    column = pa.array([0, 45_015, 86_399, None], integers).cast(kind)
    texts = pa.concat_arrays([to_bytes(column), pa.array([b"25:00:00", b"soon"])])
    schema = pa.schema([("at", kind)])
    rows, _, bad = from_bytes({"at": texts}, len(texts), schema)
    assert rows.column("at") == column
    assert bad == [
        (4, f"column 'at' must be {kind}, but is b'25:00:00'"),
        (5, f"column 'at' must be {kind}, but is b'soon'"),
    ]
