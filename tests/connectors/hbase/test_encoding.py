"""Bytes of row keys and cells: those of HBase's `Bytes.toBytes`, and keys in the order of values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.connectors.hbase.cells import CellNames, HbaseRows
from rheos.connectors.hbase.encoding import RowKeyCodec, array_of, cell_codec, plain_values
from rheos.core.errors import InputError, SchemaError

PAIR = (pa.field("name", pa.string()), pa.field("n", pa.int64()))
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("kind", "value", "encoded"),
    [
        (pa.string(), "é", "c3a9"),
        (pa.string(), "", ""),
        (pa.binary(), b"\0\xff", "00ff"),
        (pa.bool_(), True, "ff"),
        (pa.bool_(), False, "00"),
        (pa.int8(), -1, "ff"),
        (pa.int16(), 258, "0102"),
        (pa.int32(), -2, "fffffffe"),
        (pa.int64(), 1, "0000000000000001"),
        (pa.uint64(), 2**64 - 1, "ffffffffffffffff"),
        (pa.float32(), 1.5, "3fc00000"),
        (pa.float64(), -1.5, "bff8000000000000"),
        (pa.decimal128(10, 2), Decimal("-12.50"), "00000002fb1e"),
        (pa.decimal128(38, 0), Decimal(2**100), "00000000" + f"{2**100:x}"),
        (pa.decimal128(10, 2), Decimal("1.28"), "000000020080"),
        (pa.date32(), dt.date(1970, 1, 3), "00000002"),
        (
            pa.timestamp("ms", "UTC"),
            dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
            "00000000000003e8",
        ),
        (pa.timestamp("us"), dt.datetime(1969, 12, 31, 23, 59, 59), "fffffffffff0bdc0"),
    ],
    ids=str,
)
def test_values_have_the_bytes_of_hbase(kind: pa.DataType, value: Any, encoded: str) -> None:
    codec, column = cell_codec(pa.field("x", kind)), pa.array([value], kind)
    [plain] = plain_values(column, codec)
    assert codec.encode(plain).hex() == encoded
    assert array_of([codec.decode(bytes.fromhex(encoded))], codec, kind) == column


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.time32("s"), pa.duration("s"), pa.float16(), pa.null()], ids=str
)
def test_types_without_an_encoding_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="has no encoding"):
        cell_codec(pa.field("x", kind))
    with pytest.raises(SchemaError, match="cannot be part of a row key"):
        RowKeyCodec([pa.field("x", kind)])


@given(st.lists(st.tuples(NAMES, NUMBERS), min_size=1, max_size=8))
def test_row_keys_sort_as_their_values(pairs: list[tuple[str, int]]) -> None:
    codec = RowKeyCodec(PAIR)
    names, numbers = zip(*pairs, strict=True)
    rows = pa.RecordBatch.from_arrays([pa.array(names), pa.array(numbers)], schema=pa.schema(PAIR))
    keys = codec.encode(rows)
    assert all(isinstance(key, bytes) for key in keys)
    found: Any = dict(zip(keys, pairs, strict=True))
    # UTF-8 sorts as code points do.
    assert [found[key] for key in sorted(found)] == sorted(set(pairs))
    assert [each.to_pylist() for each in codec.decode(list(found))] == [
        list(column) for column in zip(*found.values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "least", "greatest"),
    [(pa.int8(), -128, 127), (pa.uint16(), 0, 65535), (pa.date32(), dt.date.min, dt.date.max)],
    ids=str,
)
def test_numbers_of_row_keys_cover_their_range(kind: pa.DataType, least: Any, greatest: Any) -> None:
    codec, column = RowKeyCodec([pa.field("x", kind)]), pa.array([least, greatest], kind)
    keys: Any = codec.encode(pa.RecordBatch.from_arrays([column], names=["x"]))
    assert keys == sorted(keys)
    assert codec.decode(keys) == [column]


def test_rows_without_a_row_key() -> None:
    codec = RowKeyCodec(PAIR)
    rows = pa.RecordBatch.from_pylist(
        [{"name": None, "n": 1}, {"name": "a\0", "n": 1}, {"name": "a" * 40_000, "n": 1}],
        pa.schema(PAIR),
    )
    assert codec.encode(rows) == [
        "the column 'name' is null",
        "the column 'name' has a zero byte, which ends strings in keys",
        "the row key has 40,009 bytes, and HBase's limit is 32,767",
    ]
    single = RowKeyCodec([pa.field("name", pa.string())])
    assert single.encode(pa.RecordBatch.from_pydict({"name": ["", "a\0"]})) == [
        "the row key is empty",
        b"a\0",
    ]
    with pytest.raises(SchemaError, match="is not its last column"):
        RowKeyCodec([pa.field("x", pa.binary()), *PAIR])


@pytest.mark.parametrize(
    ("key", "cells", "match"),
    [
        (b"a\0" + b"\x80" + bytes(7), {}, "cf:v of the table t is no int32: it is missing"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": b"1"}, "cf:v of the table t is no int32: 1 bytes"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": bytes(4), "cf:s": b"\xff"}, "cf:s .* is no string"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": bytes(4), "cf:d": bytes(4)}, "too few"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": bytes(4), "cf:d": bytes(40)}, "too many"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": bytes(4), "cf:d": b"\x7f" * 8}, "scale 2139062143"),
        (b"a\0" + b"\x80" + bytes(7), {"cf:v": bytes(4), "cf:d": bytes(4) + b"\x7f" * 4}, "no dec"),
        (b"a\0", {"cf:v": bytes(4)}, "fewer bytes"),
        (b"a", {"cf:v": bytes(4)}, "no zero byte"),
        (b"a\0" + bytes(9), {"cf:v": bytes(4)}, "1 more bytes"),
        (b"\xff\0" + bytes(8), {"cf:v": bytes(4)}, "a row key of the table t does not fit"),
    ],
)
def test_stored_rows_that_do_not_fit(key: bytes, cells: dict[str, bytes], match: str) -> None:
    others = [
        pa.field("v", pa.int32(), nullable=False),
        pa.field("s", pa.string()),
        pa.field("d", pa.decimal128(4, 2)),
    ]
    schema = pa.schema([*PAIR, *others])
    rows = HbaseRows.of("t", CellNames.of("cf", None), schema, ["name", "n"])
    good = (b"b\0" + bytes(8), {b"cf:v": bytes(4)})
    bad = (key, {name.encode(): value for name, value in cells.items()})
    assert rows.decode([good], schema).to_pylist() == [
        {"name": "b", "n": -(2**63), "v": 0, "s": None, "d": None}
    ]
    with pytest.raises(InputError, match=match) as raised:
        rows.decode([good, bad], schema)
    assert raised.value.record is not None
    assert raised.value.record.startswith("row key '")
