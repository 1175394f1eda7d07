"""Protobuf payloads: message types of the user, and values that their columns cannot hold."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from rheos import formats
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.formats.protobuf_schemas import message_class
from tests.formats.messages import descriptors
from tests.formats.test_every_format import decode, outcomes

SHOP = descriptors()
Tagged = message_class(SHOP, "shop.Tagged")
KINDS = pa.schema([pa.field("kind", pa.string()), pa.field("kinds", pa.list_(pa.string()))])


def tagged(**fields: Any) -> bytes:
    data: bytes = Tagged(**fields).SerializeToString()
    return data


def test_a_class_and_its_descriptors_are_the_same_format() -> None:
    by_class = formats.protobuf(Timestamp)
    assert by_class.own_schema() == pa.schema(
        [pa.field("seconds", pa.int64(), nullable=False), pa.field("nanos", pa.int32(), nullable=False)]
    )
    by_name = formats.protobuf("google.protobuf.Timestamp", descriptors=by_class.descriptors)
    assert by_name == by_class == pickle.loads(pickle.dumps(by_class))
    assert by_class.describe() == "protobuf google.protobuf.Timestamp"


def test_enums_are_their_names_and_a_number_without_one_is_shown() -> None:
    format = formats.protobuf("shop.Tagged", descriptors=SHOP)
    decoded = decode(format.decoder(KINDS), tagged(kind=1, kinds=[2, 7]), b"")
    assert decoded.rows.to_pylist() == [
        {"kind": "FOOD", "kinds": ["TOY", "7"]},
        {"kind": "UNKNOWN", "kinds": []},
    ]
    sure = pa.schema([pa.field("kind", pa.string(), nullable=False)])
    rows = pa.RecordBatch.from_pylist([{"kind": "TOY"}], schema=sure)
    assert format.encoder(rows.schema).encode(rows).to_pylist() == [tagged(kind=2)]


def test_only_a_bad_message_is_rejected() -> None:
    schema = pa.schema([pa.field("small", pa.int8())])
    decoder = formats.protobuf("shop.Tagged", descriptors=SHOP).decoder(schema)
    found = outcomes(decode(decoder, tagged(small=1), b"\xff", tagged(small=999), tagged(small=2)), 4)
    assert found[0] == [{"small": 1}]
    assert found[1] == (b"\xff", "it is not a shop.Tagged: Error parsing message")
    assert "999" in found[2][1]
    assert found[3] == [{"small": 2}]


def test_deeply_nested_messages_are_bad() -> None:
    deep = b""
    for _ in range(2000):
        deep = b"\x22" + _varint(len(deep)) + deep
    decoder = formats.protobuf("shop.Tagged", descriptors=SHOP).decoder(KINDS)
    [bad] = decode(decoder, deep).bad
    assert bad.error.startswith("it is not a shop.Tagged")


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + _varint(number // 128)


def test_times_are_truncated_to_the_unit_of_the_column() -> None:
    holder = message_class(SHOP, "shop.Order")
    payload = holder(at={"seconds": 1, "nanos": 123_456_789}).SerializeToString()
    format = formats.protobuf("shop.Order", descriptors=SHOP)
    for unit, fraction in (("ns", 123_456_789), ("us", 123_456), ("ms", 123)):
        schema = pa.schema([("at", pa.timestamp(unit, "UTC"))])
        format.check_decodes(schema)
        at = decode(format.decoder(schema), payload).rows.column(0).cast(pa.int64())[0].as_py()
        assert at % {"ns": 10**9, "us": 10**6, "ms": 10**3}[unit] == fraction


def refused(schema: pa.Schema, what: str, *, writes: bool = False) -> None:
    format = formats.protobuf("shop.Tagged", descriptors=SHOP)
    with pytest.raises(SchemaError, match=what):
        (format.check_encodes if writes else format.check_decodes)(schema)


def test_columns_that_are_not_fields_are_refused_at_their_line() -> None:
    refused(pa.schema([("size", pa.int64())]), "shop.Tagged has no field size")
    refused(pa.schema([("small", pa.string())]), "a column of type string cannot be stored in the")
    refused(pa.schema([("kinds", pa.string())]), "a column of type string cannot be stored in the")
    parent = pa.struct([("parent", pa.struct([("size", pa.int8())]))])
    refused(pa.schema([("parent", parent)]), "no field parent.parent.size")
    refused(pa.schema([("kind", pa.string())]), "column 'kind' is nullable, but the", writes=True)
    with pytest.raises(SchemaError, match=r"field 'parent', a shop\.Tagged, cannot be converted to"):
        formats.protobuf("shop.Tagged", descriptors=SHOP).own_schema()
    with pytest.raises(ProgramError, match=r"no message type 'shop\.Nothing'"):
        formats.protobuf("shop.Nothing", descriptors=SHOP)
    with pytest.raises(ProgramError, match="the descriptors have no message type"):
        formats.protobuf("shop.Order", descriptors=b"\xff")
    with pytest.raises(ProgramError, match="is not a Protobuf message class"):
        formats.protobuf(datetime)


def test_a_row_that_cannot_be_encoded_is_an_error() -> None:
    schema = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("small", pa.int64())])
    encoder = formats.protobuf("shop.Tagged", descriptors=SHOP).encoder(schema)
    for row in ({"kind": "FISH", "small": 1}, {"kind": "FOOD", "small": 2**40}):
        with pytest.raises(InputError, match=r"a row cannot be encoded as shop\.Tagged") as caught:
            encoder.encode(pa.RecordBatch.from_pylist([row], schema=schema))
        assert caught.value.record == str(row)


def test_moments_of_any_zone_are_written() -> None:
    schema = pa.schema([pa.field("at", pa.timestamp("us", "Europe/Berlin"))])
    format = formats.protobuf("shop.Order", descriptors=SHOP)
    format.check_encodes(schema)
    at = datetime(2026, 7, 1, 12, tzinfo=UTC)
    rows = pa.RecordBatch.from_pylist([{"at": at}], schema=schema)
    [payload] = format.encoder(schema).encode(rows).to_pylist()
    assert message_class(SHOP, "shop.Order").FromString(payload).at.ToDatetime(UTC) == at
