"""Conversion of keys: from batches, to bytes and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rheos.core.errors import InputError, SchemaError
from rheos.core.state.key_groups import key_groups
from rheos.core.state.keys import KeyCodec

COLUMNS: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([1, -2, 3], pa.int8()), [1, -2, 3]),
    (pa.array([1, 2**64 - 1], pa.uint64()), [1, 2**64 - 1]),
    (pa.array([True, False]), [True, False]),
    (pa.array(["a", "é", ""]), ["a", "é", ""]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    (pa.array([b"\x00", b""]), [b"\x00", b""]),
    (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
    (pa.array([0.5, -1.0]), [0.5, -1.0]),
    (pa.array([date(2024, 1, 1)]), [date(2024, 1, 1)]),
    (pa.array([time(1, 2, 3, 4)], pa.time64("us")), [time(1, 2, 3, 4)]),
    (pa.array([timedelta(-1, 5)], pa.duration("us")), [timedelta(-1, 5)]),
    (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), [Decimal("1.50")]),
    (pa.array([datetime(2024, 1, 1)], pa.timestamp("ms")), [datetime(2024, 1, 1)]),
    (pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC")), [datetime(2024, 1, 1, tzinfo=UTC)]),
    (
        pa.array([datetime(2024, 1, 1)], pa.timestamp("s", "Asia/Tokyo")),
        [datetime(2024, 1, 1, tzinfo=UTC)],
    ),
]


@pytest.mark.parametrize(
    ("column", "expected"), COLUMNS, ids=lambda value: str(getattr(value, "type", ""))
)
def test_a_key_of_one_column_is_a_value(column: pa.Array, expected: list[Any]) -> None:
    batch = pa.record_batch({"k": column, "v": range(len(column))})
    codec = KeyCodec(batch.schema, ("k",))
    keys = codec.of(batch)
    assert keys == expected
    assert [codec.decode(codec.encode(key)) for key in keys] == expected
    assert codec.groups(keys, 100).tolist() == key_groups(batch, ("k",), 100).tolist()
    assert codec.groups([], 100).tolist() == []


def test_a_key_of_several_columns_is_a_tuple() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", "y"], "c": [float("nan"), -0.0]})
    codec = KeyCodec(batch.schema, ("b", "c", "a"))
    keys = codec.of(batch)
    assert [codec.decode(codec.encode(key)) for key in keys] == keys
    assert keys[1] == ("y", 0.0, 2)
    assert codec.groups(keys, 100).tolist() == key_groups(batch, ("b", "c", "a"), 100).tolist()


def test_a_null_is_named_with_its_record() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", None], "__ts": [1, 2]})
    codec = KeyCodec(batch.schema, ("a", "b"))
    for use in (codec.of, codec.refuse_nulls):
        with pytest.raises(InputError, match="key column 'b' is null") as caught:
            use(batch)
        assert caught.value.record == "{'a': 2, 'b': None}"
        assert "filter" in str(caught.value.hint)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()])
def test_nested_columns_are_refused_as_keys(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'k' is .* cannot be a key"):
        KeyCodec(pa.schema([("k", kind)]), ("k",))


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds_are_refused_as_keys(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="nanoseconds"):
        KeyCodec(pa.schema([("k", kind)]), ("k",))
