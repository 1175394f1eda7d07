"""Protobuf payloads after the id of their schema: reading them with a registry, and registering
types."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from rheos import formats
from rheos.core.errors import ConfigurationError, ProgramError, TransportError
from rheos.formats.bad_rows import RowsError
from rheos.formats.confluent import message_before, schema_prefix
from rheos.formats.protobuf_format import ProtobufFormat
from rheos.formats.protobuf_schemas import message_class
from tests.formats.messages import ordering
from tests.formats.registry import FakeRegistry, fake_registry
from tests.formats.test_every_format import decode, outcomes

SHOP = ordering()
ITEM = pa.struct([pa.field("sku", pa.string(), False), pa.field("cents", pa.int64(), False)])
ROWS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("items", pa.list_(pa.field("item", ITEM, False)), False),
    ]
)
ROW = {"id": 7, "items": [{"sku": "a", "cents": 3}]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


def orders(registry: FakeRegistry, message: str = "orders.Order", of: bytes = SHOP) -> ProtobufFormat:
    return formats.protobuf(message, descriptors=of, registry=registry.url, subject="orders-value")


def payloads(format: ProtobufFormat, *rows: dict[str, Any], schema: pa.Schema = ROWS) -> list[bytes]:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    found: list[bytes] = format.encoder(schema).encode(batch).to_pylist()
    return found


# --- the prefix ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "written"),
    [((0,), b"\x00"), ((1,), b"\x02\x02"), ((1, 0), b"\x04\x02\x00"), ((200,), b"\x02\x90\x03")],
)
def test_the_path_of_a_type_is_encoded_as_in_other_libraries(
    path: tuple[int, ...], written: bytes
) -> None:
    assert schema_prefix(258, path) == b"\0\0\0\1\2" + written
    assert message_before(b"\0\0\0\1\2" + written + b"rest") == (258, path, 5 + len(written))
    if path == (0,):
        assert message_before(b"\0\0\0\1\2\x02\x00rest") == (258, path, 7)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\1\0\0\0\1\0",
        b"\0\0\0\1",
        b"\0\0\0\0\1",
        b"\0\0\0\0\1\x02",
        b"\0\0\0\0\1\x7f\0",
        b"\0\0\0\0\1\x01\0",
        b"\0\0\0\0\1\x02\xff\xff\xff\1",
    ],
)
def test_payloads_without_prefix_are_bad(payload: bytes) -> None:
    with pytest.raises(RowsError):
        message_before(payload)


# --- written and read ------------------------------------------------------------------------------


def test_a_type_is_registered_after_its_imports(
    registry: FakeRegistry,
) -> None:
    format = orders(registry)
    format.check_encodes(ROWS)
    encoder = format.encoder(ROWS)
    assert registry.asked == []
    rows = pa.RecordBatch.from_pylist([ROW, {"id": 8, "items": []}], schema=ROWS)
    written = encoder.encode(rows)
    encoder.encode(rows)
    assert registry.asked == [
        "/subjects/shop%2Fgoods.proto/versions",
        "/subjects/shop%2Fgoods.proto",
        "/subjects/orders-value/versions",
    ]
    [known] = registry.versions["orders-value"]
    assert known["schemaType"] == "PROTOBUF"
    reference = {"name": "shop/goods.proto", "subject": "shop/goods.proto", "version": 1}
    assert known["references"] == [reference]
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(known["schema"]))
    assert [each.name for each in file.message_type] == ["Before", "Order"]
    assert written[0].as_py()[:7] == b"\0\0\0\0\2\x02\x02", "schema 2, and of it the second type"
    registry.asked.clear()
    decoder = format.decoder(ROWS)
    for _ in range(2):
        assert decoder.decode(written).rows.to_pylist() == rows.to_pylist()
    version = "/subjects/shop%2Fgoods.proto/versions/1?format=serialized"
    assert registry.asked == ["/schemas/ids/2?format=serialized", version]


def test_nested_types_have_a_path(registry: FakeRegistry) -> None:
    schema = pa.schema([pa.field("text", pa.string(), False)])
    format = orders(registry, "orders.Order.Line")
    [payload] = payloads(format, {"text": "x"}, schema=schema)
    assert payload[5:8] == b"\x04\x02\x00"
    assert decode(format.decoder(schema), payload).rows.to_pylist() == [{"text": "x"}]


def test_only_payloads_of_other_types_or_fields_are_bad(
    registry: FakeRegistry,
) -> None:
    [good] = payloads(orders(registry), ROW)
    text = pa.schema([pa.field("text", pa.string(), False)])
    [line] = payloads(orders(registry, "orders.Order.Line"), {"text": "x"}, schema=text)
    as_text = pa.struct([pa.field("sku", pa.string()), pa.field("cents", pa.string())])
    texts = pa.schema([ROWS.field("id"), pa.field("items", pa.list_(as_text), False)])
    row = {"id": 1, "items": [{"sku": "a", "cents": "3"}]}
    [other] = payloads(orders(registry, of=ordering(cents="string")), row, schema=texts)
    # Its types stand elsewhere in the file, its numbers are narrower: both can be read.
    [moved] = payloads(orders(registry, of=ordering(cents="int32", moved=True)), ROW)
    far = good[:5] + b"\x02\x0a" + good[7:]
    decoder = orders(registry).decoder(ROWS)
    found = outcomes(decode(decoder, good, line, other, moved, far, good[7:]), 6)
    assert found == [
        [ROW],
        (line, "it is a orders.Order.Line, not a orders.Order"),
        (
            other,
            "field 2 of goods.Item was written as string cents, which cannot be read as int64 cents",
        ),
        [ROW],
        (far, "schema 2 of the registry has no message type at [5]"),
        (good[7:], "it does not begin with a zero byte and a schema id"),
    ]


def test_numbers_that_would_be_truncated_are_bad(registry: FakeRegistry) -> None:
    [wide] = payloads(orders(registry), ROW)
    [bad] = decode(orders(registry, of=ordering(cents="int32")).decoder(ROWS), wide).bad
    assert bad.error.endswith("was written as int64 cents, which cannot be read as int32 cents")


def test_an_unknown_id_is_requested_again_later(registry: FakeRegistry) -> None:
    [payload] = payloads(orders(registry), ROW)
    schemas, registry.schemas = registry.schemas, {}
    registry.asked.clear()
    decoder = orders(registry).decoder(ROWS)
    bad = decode(decoder, payload, payload).bad
    assert {each.error for each in bad} == {
        f"the schema registry {registry.url} does not have schema 2"
    }
    assert len(registry.asked) == 1
    registry.schemas = schemas
    assert decode(decoder, payload).rows.to_pylist() == [ROW]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"schema": '{"type": "int"}'}, "has the type AVRO, not Protobuf"),
        ({"schema": "message M {}", "schemaType": "PROTOBUF"}, "the registry does not return it as"),
        ({"schema": "CgFhGgFi", "schemaType": "PROTOBUF"}, "schema 3 of the registry is not valid"),
    ],
    ids=["of another kind", "as text", "with an import that nobody has"],
)
def test_records_with_an_unusable_schema_are_bad(
    registry: FakeRegistry, answer: Any, what: str
) -> None:
    registry.schemas[3] = answer
    [bad] = decode(orders(registry).decoder(ROWS), b"\0\0\0\0\3\0").bad
    assert what in bad.error


def test_a_failing_registry_is_an_error_but_makes_no_record_bad(registry: FakeRegistry) -> None:
    [payload] = payloads(orders(registry), ROW)
    decoder = orders(registry).decoder(ROWS)
    registry.always = (503, b"later", {})
    with pytest.raises(TransportError, match="failed: 503 later"):
        decode(decoder, payload)
    registry.always = (409, b"incompatible", {})
    with pytest.raises(ConfigurationError, match=r"rejects subject 'shop/goods\.proto': 409"):
        payloads(orders(registry), ROW)
    registry.always = None
    assert decode(decoder, payload).rows.to_pylist() == [ROW]


def test_invalid_arguments_are_refused_at_their_line(registry: FakeRegistry) -> None:
    with pytest.raises(ProgramError, match="is not the URL of a schema registry"):
        formats.protobuf("orders.Order", descriptors=SHOP, registry="localhost:8081")
    with pytest.raises(ProgramError, match="subject= needs a schema registry"):
        formats.protobuf("orders.Order", descriptors=SHOP, subject="orders-value")
    with pytest.raises(ProgramError, match="writing with a schema registry needs a subject"):
        formats.protobuf("orders.Order", descriptors=SHOP, registry=registry.url).check_encodes(ROWS)
    secret = formats.protobuf("orders.Order", descriptors=SHOP, registry="http://me:geheim@host")
    assert "geheim" not in f"{secret!r} {secret.describe()}"
    assert pickle.loads(pickle.dumps(secret)) == secret


def test_the_error_for_an_unexpected_prefix_suggests_a_registry(registry: FakeRegistry) -> None:
    [payload] = payloads(orders(registry), ROW)
    [bad] = decode(formats.protobuf("orders.Order", descriptors=SHOP).decoder(ROWS), payload).bad
    assert bad.error.endswith("like payloads written with a schema registry: pass registry=")
    assert message_class(SHOP, "orders.Order").FromString(payload[7:]).id == 7
