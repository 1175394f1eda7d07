"""Avro payloads: with a schema, and with a registry whose schemas may change, be invalid, or be
unavailable."""

from __future__ import annotations

import io
import json
import pickle
import socket
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from rheos import formats
from rheos.core.errors import ConfigurationError, InputError, ProgramError, SchemaError, TransportError
from rheos.formats import schema_registry
from tests.formats.registry import FakeRegistry, fake_registry
from tests.formats.test_every_format import decode, outcomes

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


V1 = record({"name": "id", "type": "int"}, {"name": "label", "type": "string"})
V2 = record({"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]})
READ = record(
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "aliases": ["label"], "default": None},
)


def written(schema: str, row: Any, id: int | None = None) -> bytes:
    out = io.BytesIO(b"" if id is None else b"\0" + id.to_bytes(4, "big"))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), row)
    return out.getvalue()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        registry.schemas = {1: V1, 2: V2}
        yield registry


# --- bare ------------------------------------------------------------------------------------------


def test_a_bare_record_must_end_where_its_payload_does() -> None:
    whole = written(V2, {"id": 7, "name": "x"})
    decoder = formats.avro(V2).decoder(ROWS)
    [good, cut, more] = outcomes(decode(decoder, whole, whole[:-1], whole + b"!"), 3)
    assert good == [{"id": 7, "name": "x"}]
    assert cut[1].startswith("it is not a record of its Avro schema: EOFError")
    assert more[1] == "1 bytes follow its Avro record"


def test_only_a_value_that_does_not_fit_its_column_is_bad() -> None:
    small = pa.schema([pa.field("id", pa.int8())])
    found = outcomes(
        decode(
            formats.avro(V2).decoder(small),
            *[written(V2, {"id": n, "name": None}) for n in (1, 999, 2)],
        ),
        3,
    )
    assert found[0] == [{"id": 1}]
    assert "'id' should be int8" in found[1][1]
    assert found[2] == [{"id": 2}]


def test_the_columns_are_by_default_those_of_the_schema() -> None:
    schema = record(
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["a", "b"]}},
        {"name": "other", "type": ["null", "K"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "double"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    )
    assert formats.avro(schema).own_schema() == pa.schema(
        [
            pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("other", pa.string()),
            pa.field("tags", pa.list_(pa.field("item", pa.string(), False)), nullable=False),
            pa.field(
                "sizes", pa.map_(pa.string(), pa.field("value", pa.float64(), False)), nullable=False
            ),
            pa.field("price", pa.decimal128(9, 2), nullable=False),
        ]
    )
    with pytest.raises(SchemaError, match="field 'x' of the Avro schema"):
        formats.avro(record({"name": "x", "type": ["int", "string"]})).own_schema()


HARMFUL = {
    "an array of nothing": {"type": "array", "items": "null"},
    "an array of nothing, in a record": {
        "type": "array",
        "items": {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
    },
    "a record that holds itself": ["null", "Order"],
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_schema_with_unbounded_payloads_is_refused(name: str, registry: FakeRegistry) -> None:
    schema = record({"name": "x", "type": HARMFUL[name]})
    with pytest.raises(SchemaError, match="the Avro schema is not valid"):
        formats.avro(schema)
    registry.schemas[3] = schema
    [bad] = decode(formats.avro(registry=registry.url).decoder(ROWS), b"\0\0\0\0\x03\x01\x02").bad
    assert bad.error.startswith("schema 3 of the registry is not valid")


def test_invalid_arguments_are_refused_at_their_line() -> None:
    with pytest.raises(ProgramError, match="plain Avro payloads do not contain their schema"):
        formats.avro()
    with pytest.raises(ProgramError, match="is not the URL of a schema registry"):
        formats.avro(registry="localhost:8081")
    with pytest.raises(SchemaError, match="it is not an Avro schema"):
        formats.avro('{"type": "recrod"}')
    with pytest.raises(SchemaError, match="the Avro schema has no field for column 'total'"):
        formats.avro(V2).check_decodes(pa.schema([pa.field("total", pa.int64(), nullable=False)]))
    with pytest.raises(SchemaError, match="there is no column for field 'name' of the Avro schema"):
        formats.avro(V2).check_encodes(pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaError, match="the Avro schema has no field for column 'age'"):
        formats.avro(V2).check_encodes(pa.schema([*ROWS, ("age", pa.int64())]))
    with pytest.raises(SchemaError, match="is not that of a record"):
        formats.avro('"string"')
    with pytest.raises(ProgramError, match="writing with a schema registry needs a subject"):
        formats.avro(registry="http://localhost:8081").check_encodes(ROWS)


TYPED = record(
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["a", "b"]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "first", "type": ["null", {"type": "record", "name": "I", "fields": [
        {"name": "cents", "type": "int"}]}]},
    {"name": "any", "type": ["int", "string"]},
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "is_read", "is_written"),
    [
        (("id", pa.int8()), True, True),
        (("id", pa.string()), False, False),
        (("id", pa.timestamp("ms", "UTC")), False, False),
        (("at", pa.timestamp("us", "UTC")), True, True),
        (("at", pa.int64()), False, True),
        (("kind", pa.string()), True, True),
        (("kind", pa.int64()), False, True),
        (("tags", pa.list_(pa.string())), True, True),
        (("tags", pa.list_(pa.int64())), False, False),
        (("tags", pa.string()), False, False),
        (("first", pa.struct([("cents", pa.int64())])), True, True),
        (("first", pa.struct([("cents", pa.string())])), False, False),
        (("any", pa.binary()), True, True),
    ],
    ids=str,
)
def test_a_column_whose_type_differs_from_its_field_is_refused(
    column: tuple[str, pa.DataType], is_read: bool, is_written: bool
) -> None:
    schema = pa.schema([pa.field(*column)])
    rest = [field for field in json.loads(TYPED)["fields"] if field["name"] == column[0]]
    format = formats.avro(record(*rest))
    for check, fits in ((format.check_decodes, is_read), (format.check_encodes, is_written)):
        if fits:
            check(schema)
        else:
            with pytest.raises(
                SchemaError, match=f"cannot be stored in the field {column[0]} of the Avro"
            ):
                check(schema)


def test_the_error_for_an_unexpected_prefix_suggests_a_registry() -> None:
    [bad] = decode(formats.avro(V2).decoder(ROWS), written(V2, {"id": 1, "name": "x"}, 7)).bad
    assert bad.error.endswith("like payloads written with a schema registry: pass registry=")


def test_a_row_that_cannot_be_encoded_is_an_error_with_the_row() -> None:
    loose = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    rows = pa.RecordBatch.from_pylist([{"id": None, "name": "x"}], schema=loose)
    with pytest.raises(InputError, match="a row does not fit its Avro schema") as caught:
        formats.avro(V2).encoder(loose).encode(rows)
    assert caught.value.record == "{'id': None, 'name': 'x'}"


# --- by a registry ---------------------------------------------------------------------------------


def test_each_record_is_read_by_the_schema_it_was_written_with(registry: FakeRegistry) -> None:
    payloads = [
        written(V1, {"id": 1, "label": "one"}, 1),
        written(V2, {"id": 2, "name": None}, 2),
        written(V2, {"id": 3, "name": "three"}, 2),
    ]
    plain = formats.avro(registry=registry.url).decoder(ROWS)
    assert decode(plain, *payloads).rows.column("name").to_pylist() == [None, None, "three"]
    decode(plain, *payloads)
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    resolved = formats.avro(READ, registry=registry.url).decoder(ROWS)
    assert decode(resolved, *payloads).rows.column("name").to_pylist() == ["one", None, "three"]


def test_an_unknown_id_is_bad_and_requested_again_later(registry: FakeRegistry) -> None:
    decoder = formats.avro(registry=registry.url).decoder(ROWS)
    late = written(V2, {"id": 3, "name": None}, 3)
    found = outcomes(
        decode(decoder, late, late, b"\0\0", b"{}", written(V2, {"id": 2, "name": None}, 2)), 5
    )
    assert found[0] == found[1] == (late, f"the schema registry {registry.url} does not have schema 3")
    assert "it does not begin with a zero byte and a schema id" in found[2][1]
    assert "it does not begin with a zero byte and a schema id" in found[3][1]
    assert found[4] == [{"id": 2, "name": None}]
    assert registry.asked == ["/schemas/ids/3", "/schemas/ids/2"]
    registry.schemas[3] = V2
    assert decode(decoder, late).rows.num_rows == 1


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"schema": "message M {}", "schemaType": "PROTOBUF"}, "has the type PROTOBUF, not Avro"),
        (
            {"schema": V2, "references": [{"name": "Item", "subject": "items", "version": 1}]},
            "does not have 'Item', which schema 3 refers to",
        ),
        ("[" * 100_000, "is not valid"),
        ('"string"', "its Avro schema is not that of a record"),
        ("x" * (1 << 20), "of the registry exceeds"),
    ],
)
def test_records_with_an_unusable_schema_are_bad(
    registry: FakeRegistry, answer: Any, what: str
) -> None:
    registry.schemas[3] = answer
    [bad] = decode(formats.avro(registry=registry.url).decoder(ROWS), b"\0\0\0\0\x03\0").bad
    assert what in bad.error


def refers(name: str, subject: str = "", version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject or name.lower(), "version": version}


def test_named_types_come_from_the_schemas_that_one_refers_to(registry: FakeRegistry) -> None:
    money = record({"name": "cents", "type": "long"}, name="shop.Money")
    item = record(
        {"name": "sku", "type": "string"}, {"name": "price", "type": "shop.Money"}, name="Item"
    )
    registry.versions = {
        "money": ['"int"', money],
        "item": [{"schema": item, "references": [refers("shop.Money", "money", 2)]}],
    }
    order = record({"name": "first", "type": "Item"}, {"name": "total", "type": ["null", "shop.Money"]})
    registry.schemas[3] = {
        "schema": order,
        "references": [refers("Item"), refers("shop.Money", "money", 2)],
    }
    whole = record(
        {"name": "first", "type": json.loads(item.replace('"shop.Money"', money))},
        {"name": "total", "type": ["null", "shop.Money"]},
    )
    row = {"first": {"sku": "a", "price": {"cents": 3}}, "total": {"cents": 5}}
    decoder = formats.avro(registry=registry.url).decoder(formats.avro(whole).own_schema())
    for _ in range(2):
        assert decode(decoder, written(whole, row, 3)).rows.to_pylist() == [row]
    asked = ["/schemas/ids/3", "/subjects/item/versions/1", "/subjects/money/versions/2"]
    assert registry.asked == asked


def chain(length: int) -> dict[str, list[Any]]:
    return {
        f"r{n}": [{"schema": record(name=f"R{n}"), "references": [refers(f"R{n + 1}")]}]
        for n in range(length)
    }


@pytest.mark.parametrize(
    ("versions", "references", "what"),
    [
        ({"r0": [{"schema": V1, "references": [refers("R0")]}]}, [refers("R0")], "is not valid"),
        (chain(100), [refers("R0")], "refers to more than 64 other schemas"),
        ({"r0": [V1, V2]}, [refers("R0"), refers("R0", "r0", 2)], "two schemas by the same name, 'R0'"),
        ({f"r{n}": [" " * 300_000] for n in range(9)}, [refers(f"R{n}") for n in range(9)], "exceed"),
        ({"r0": [V1]}, [refers("Order", "r0")], "is not valid"),
    ],
    ids=["a circle", "too many", "two of one name", "too long", "a type that is there twice"],
)
def test_endless_or_invalid_references_make_records_bad(
    registry: FakeRegistry, versions: dict[str, list[Any]], references: list[Any], what: str
) -> None:
    registry.versions = versions
    registry.schemas[3] = {"schema": V2, "references": references}
    [bad] = decode(formats.avro(registry=registry.url).decoder(ROWS), b"\0\0\0\0\x03\0").bad
    assert what in bad.error


@pytest.mark.parametrize(
    ("status", "body", "error", "what"),
    [
        (200, b"<html>", ConfigurationError, "does not respond like a schema registry"),
        (200, b"[" * 10_000, ConfigurationError, "does not respond like a schema registry"),
        (401, b"who are you?", ConfigurationError, "rejects schema 1: 401 who are you?"),
        (302, b"", ConfigurationError, "rejects schema 1: 302"),
        (503, b"later", TransportError, "failed: 503 later"),
    ],
)
def test_a_failing_registry_is_an_error_but_makes_no_record_bad(
    registry: FakeRegistry, status: int, body: bytes, error: type[Exception], what: str
) -> None:
    registry.always = (status, body, {"Location": f"{registry.url}/elsewhere"})
    decoder = formats.avro(registry=registry.url).decoder(ROWS)
    payload = written(V1, {"id": 1, "label": "x"}, 1)
    with pytest.raises(error, match="registry"):
        decode(decoder, payload)
    with pytest.raises(error) as caught:
        decode(decoder, payload)
    assert what in str(caught.value)
    assert "/elsewhere" not in registry.asked
    registry.always = None
    assert decode(decoder, payload).rows.num_rows == 1


def test_an_unreachable_or_silent_registry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        decoder = formats.avro(registry=f"http://127.0.0.1:{port}").decoder(ROWS)
        with pytest.raises(TransportError, match="cannot be reached"):
            decode(decoder, b"\0\0\0\0\x01\0")
    with pytest.raises(TransportError, match=rf"http://127.0.0.1:{port} cannot be reached"):
        decode(decoder, b"\0\0\0\0\x01\0")


def test_the_schema_for_writing_is_registered_once(registry: FakeRegistry) -> None:
    format = formats.avro(registry=registry.url, subject="orders/value")
    format.check_encodes(ROWS)
    encoder = format.encoder(ROWS)
    assert registry.asked == []
    rows = pa.RecordBatch.from_pylist([{"id": 1, "name": "x"}, {"id": 2, "name": None}], schema=ROWS)
    payloads = encoder.encode(rows)
    encoder.encode(rows)
    assert registry.asked == ["/subjects/orders%2Fvalue/versions"]
    assert payloads[0].as_py()[:5] == b"\0\0\0\0\x03"
    assert format.decoder(ROWS).decode(payloads).rows.to_pylist() == rows.to_pylist()


def test_a_login_is_sent_and_never_shown(registry: FakeRegistry) -> None:
    url = registry.url.replace("http://", "http://me:s%2Fcret@")
    format = formats.avro(registry=url, subject="s")
    decode(format.decoder(ROWS), written(V1, {"id": 1, "label": "x"}, 1))
    assert registry.logins == ["Basic bWU6cy9jcmV0"]
    registry.always = (401, b"", {})
    with pytest.raises(ConfigurationError) as caught:
        decode(format.decoder(ROWS), written(V1, {"id": 1, "label": "x"}, 1))
    shown = [repr(format), format.describe(), str(caught.value)]
    assert not any("cret" in each for each in shown)
    assert pickle.loads(pickle.dumps(format)) == format
