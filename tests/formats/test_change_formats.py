"""Formats of change data capture: each record becomes rows of a changelog."""

from __future__ import annotations

import inspect
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from rheos import formats
from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Decoded, Format
from rheos.formats.change_formats import ChangeFormat
from rheos.formats.registration import FORMATS
from tests.formats.registry import fake_registry

ORDERS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("state", pa.string()), ("n", pa.int64())]
)


def decoded(form: Format, *records: Any, columns: pa.Schema = ORDERS) -> Decoded:
    schema = form.rows_schema(columns)
    form.check_decodes(schema)
    payloads = [each if each is None else json.dumps(each).encode() for each in records]
    return form.decoder(schema).decode(pa.array(payloads, pa.binary()))


def row(id: int | None, state: str | None = "new", n: int | None = 1) -> dict[str, Any]:
    return {"id": id, "state": state, "n": n}


def debezium(op: str | None, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 7, "source": {"table": "orders"}}


def ogg(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"table": "S.ORDERS", "op_type": op, "pos": "0", "before": before, "after": after}


def canal(op: str, *rows: Any, old: Any = None) -> dict[str, Any]:
    texts = [{k: v if v is None else str(v) for k, v in row.items()} for row in rows]
    return {"data": texts or None, "old": old, "type": op, "isDdl": False, "pkNames": ["id"]}


def maxwell(op: str, data: Any, old: Any = None) -> dict[str, Any]:
    return {"database": "shop", "table": "orders", "type": op, "data": data, "old": old}


SAME = [
    {**row(1), "op": "insert"},
    {**row(2), "op": "insert"},
    {**row(1, "paid"), "op": "update_after"},
    {**row(2), "op": "delete"},
    {**row(3), "op": "insert"},
    {**row(1, "paid"), "op": "delete"},
]
"""Rows of the same changes in every format. An update changes the key of row 2."""
SOURCES: dict[str, tuple[Any, list[Any]]] = {
    "debezium": (
        formats.debezium_json,
        [
            debezium("r", None, row(1)),
            debezium("c", None, row(2)),
            debezium("m"),
            debezium("u", row(1), row(1, "paid")),
            debezium("u", row(2), row(3)),
            debezium("d", row(1, "paid")),
            None,
        ],
    ),
    "ogg": (
        formats.ogg_json,
        [
            ogg("I", None, row(1)),
            ogg("I", None, row(2)),
            ogg("U", row(1), row(1, "paid")),
            ogg("U", row(2), row(3)),
            ogg("D", row(1, "paid")),
        ],
    ),
    "canal": (
        formats.canal_json,
        [
            canal("INSERT", row(1), row(2)),
            canal("ALTER"),
            canal("UPDATE", row(1, "paid"), row(3), old=[{"state": "new"}, {"id": "2"}]),
            canal("DELETE", row(1, "paid")),
        ],
    ),
    "maxwell": (
        formats.maxwell_json,
        [
            maxwell("bootstrap-start", {}),
            maxwell("bootstrap-insert", row(1)),
            maxwell("insert", row(2)),
            maxwell("update", row(1, "paid"), {"state": "new"}),
            maxwell("update", row(3), {"id": 2}),
            maxwell("delete", row(1, "paid")),
        ],
    ),
}


OF_CHANGES = ("debezium_json", "debezium_avro_confluent", "canal_json", "maxwell_json", "ogg_json")
"""Formats that other tests of every format leave to these."""


def test_every_format_of_changes_is_tested() -> None:
    made = [FORMATS.find(name).make() for name in FORMATS.built_in if name not in ("avro", "protobuf")]  # type: ignore[union-attr]
    of_changes = {
        form.name
        for make in made
        if "registry" not in inspect.signature(make).parameters
        for form in [make()]
        if form.encodes_changes
    }
    assert of_changes == {make().name for make, _ in SOURCES.values()}
    assert of_changes == {*OF_CHANGES} - {"debezium_avro_confluent"}


@pytest.mark.parametrize("name", SOURCES)
def test_each_format_has_the_same_changes(name: str) -> None:
    make, records = SOURCES[name]
    found = decoded(make(key="id"), *records)
    assert not found.bad
    assert found.rows.to_pylist() == SAME
    whole = [{key: value for key, value in row.items() if key != "op"} for row in SAME]
    of_updates = [
        {**whole[0], "op": "insert"},
        {**whole[1], "op": "insert"},
        {**row(1), "op": "update_before"},
        {**row(1, "paid"), "op": "update_after"},
        {**row(2), "op": "update_before"},
        {**row(3), "op": "update_after"},
        {**row(1, "paid"), "op": "delete"},
    ]
    assert decoded(make(), *records).rows.to_pylist() == of_updates


@pytest.mark.parametrize("name", SOURCES)
def test_the_rows_do_not_depend_on_the_payloads_decoded_together(name: str) -> None:
    make, records = SOURCES[name]
    form = make(key="id")
    found = [each for record in records for each in decoded(form, record).rows.to_pylist()]
    assert found == SAME
    whole = decoded(form, *records)
    places = range(len(records)) if whole.origin is None else whole.origin.tolist()
    assert len(places) == len(SAME)
    for at, change in zip(places, SAME, strict=True):
        assert change in decoded(form, records[at]).rows.to_pylist()


def test_a_record_may_contain_its_schema() -> None:
    records = [
        {"schema": {"type": "struct"}, "payload": each} for each in SOURCES["debezium"][1] if each
    ]
    found = decoded(formats.debezium_json(key="id"), *records)
    assert (found.rows.to_pylist(), found.bad) == (SAME, [])


def test_a_truncate_and_a_deletion_by_the_key_alone_are_changes() -> None:
    found = decoded(formats.debezium_json(key="id"), debezium("t"), debezium("d", {"id": 5}))
    assert found.rows.to_pylist() == [
        {"id": None, "state": None, "n": None, "op": "truncate"},
        {"id": 5, "state": None, "n": None, "op": "delete"},
    ]
    assert (
        decoded(formats.canal_json(key="id"), canal("TRUNCATE")).rows.to_pylist()[0]["op"] == "truncate"
    )


def test_a_null_in_the_previous_row_is_not_a_missing_column() -> None:
    for form, record in (
        (formats.maxwell_json(), maxwell("update", row(1, "new", 5), {"state": None})),
        (formats.canal_json(), canal("UPDATE", row(1, "new", 5), old=[{"state": None}])),
    ):
        assert decoded(form, record).rows.to_pylist() == [
            {**row(1, None, 5), "op": "update_before"},
            {**row(1, "new", 5), "op": "update_after"},
        ]


def test_strings_of_canal_become_values() -> None:
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("ms", "UTC")),
            ("good", pa.bool_()),
        ]
    )
    strings = {"id": "1", "price": "3.10", "at": "2026-01-01 10:00:00", "good": "1"}
    typed = {"id": 2, "price": 3.10, "at": "2026-01-01 10:00:00", "good": True}
    record = {**canal("INSERT"), "data": [typed]}
    bad = canal("INSERT", {**strings, "price": "dear"})
    found = decoded(
        formats.canal_json(key="id"), record, bad, canal("INSERT", strings), columns=columns
    )
    same = {"price": Decimal("3.10"), "at": datetime(2026, 1, 1, 10, tzinfo=UTC), "good": True}
    assert found.rows.drop_columns("op").to_pylist() == [{"id": 2, **same}, {"id": 1, **same}]
    [(at, _, error)] = found.bad
    assert (at, "price" in error) == (1, True)


BAD = {
    "its field 'op' is 'x'": debezium("x", None, row(1)),
    "its field 'op' is missing": debezium(None, None, row(1)),
    "a change needs 'after'": debezium("u", row(1)),
    "a deletion needs 'before'": debezium("d"),
    "column 'id' of the primary key": debezium("c", None, row(None)),
    "'id' of the primary key": debezium("d", {"state": "new"}),
    "a number": debezium("c", None, {"id": "1"}),
    "not a single complete JSON object": "text",
}


@pytest.mark.parametrize("what", BAD)
def test_a_record_that_is_no_change_is_bad(what: str) -> None:
    found = decoded(
        formats.debezium_json(key="id"),
        debezium("c", None, row(1)),
        BAD[what],
        debezium("u", row(1), row(2)),
    )
    [bad] = found.bad
    assert (bad.at, what in bad.error) == (1, True), bad.error
    assert bad.payload == json.dumps(BAD[what]).encode()
    assert found.origin is not None
    assert found.origin.tolist() == [0, 2, 2]


def test_a_table_without_a_key_needs_previous_rows() -> None:
    found = decoded(formats.debezium_json(), debezium("u", None, row(1)), debezium("t"))
    assert ["previous row" in each.error or "TRUNCATE" in each.error for each in found.bad] == [
        True
    ] * 2


@pytest.mark.parametrize("name", SOURCES)
def test_written_changes_are_read_as_the_same_table(name: str) -> None:
    form: ChangeFormat = SOURCES[name][0](key="id")
    schema = form.rows_schema(ORDERS)
    form.check_encodes(schema)
    rows = pa.RecordBatch.from_pylist(list(SAME), schema)
    payloads = form.encoder(schema).encode(rows)
    kinds = {"update_after": "insert"}
    wanted = [{**each, "op": kinds.get(each["op"], each["op"])} for each in SAME]
    assert form.decoder(schema).decode(payloads).rows.to_pylist() == wanted
    plain = pa.RecordBatch.from_pylist([row(1)], ORDERS)
    [payload] = form.encoder(ORDERS).encode(plain).to_pylist()
    assert form.decoder(schema).decode(pa.array([payload])).rows.to_pylist() == SAME[:1]


def test_the_column_of_the_kind_of_change_is_added_by_the_format() -> None:
    with pytest.raises(SchemaError, match="adds a column 'op'"):
        formats.debezium_json().rows_schema(pa.schema([("op", pa.string())]))
    with pytest.raises(SchemaError, match="not in the schema"):
        formats.debezium_json(key="no").rows_schema(ORDERS)


def test_changes_in_avro_are_read_by_the_schema_of_the_registry() -> None:
    with fake_registry() as registry:
        form = formats.debezium_avro_confluent(registry=registry.url, subject="orders-value", key="id")
        schema = form.rows_schema(ORDERS)
        form.check_decodes(schema)
        form.check_encodes(schema)
        rows = pa.RecordBatch.from_pylist([SAME[0], SAME[3], {**row(4), "op": "insert"}], schema)
        payloads = form.encoder(schema).encode(rows)
        assert form.decoder(schema).decode(payloads).rows == rows
        # A payload of another writer has further fields.
        row_type = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
        fields = [
            {"name": "before", "type": ["null", row_type]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": "long"},
        ]
        registry.schemas[9] = json.dumps({"type": "record", "name": "Envelope", "fields": fields})
        out = io.BytesIO(b"\0\0\0\0\x09")
        out.seek(5)
        schemaless = fastavro.parse_schema(json.loads(registry.schemas[9]))
        change = {"before": {"id": 1}, "after": {"id": 2}, "op": "u", "ts_ms": 7}
        fastavro.schemaless_writer(out, schemaless, change)
        found = form.decoder(schema).decode(pa.array([out.getvalue()]))
        assert [(each["id"], each["op"]) for each in found.rows.to_pylist()] == [
            (1, "delete"),
            (2, "insert"),
        ]
