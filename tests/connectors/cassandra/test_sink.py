"""Rows as statements: requirements for the table, rows that are written together, and retries."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.cassandra.columns import CqlColumn, values
from rheos.connectors.cassandra.sink import CassandraSink
from rheos.core.connectors import backoff
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    SchemaError,
    UnavailableError,
)
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int64()})
COLUMNS = [CqlColumn("id", "text"), CqlColumn("n", "bigint"), CqlColumn("unused", "list<text>")]


class Session:
    """Stand-in for a cluster: it records statements, and raises the given errors, call by call."""

    def __init__(self) -> None:
        self.written: list[list[tuple[str, tuple[Any, ...]]]] = []
        self.errors: list[dict[int, RheosError] | RheosError] = []

    def describe(self, keyspace: str, table: str) -> tuple[list[CqlColumn], list[str]]:
        return COLUMNS, ["id"]

    def write(self, statements: Sequence[Any], at_once: int) -> list[tuple[int, RheosError]]:
        errors = self.errors.pop(0) if self.errors else {}
        if isinstance(errors, RheosError):
            raise errors
        self.written.append([(cql.split()[0], tuple(given)) for cql, given in statements])
        return sorted(errors.items())

    def close(self) -> None:
        pass


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    module = import_module("rheos.connectors.cassandra.sink")
    monkeypatch.setattr(module, "CassandraSession", lambda contact, consistency: made)
    monkeypatch.setattr(backoff, "_FIRST_WAIT_US", 0)
    return made


def table(**more: Any) -> CassandraSink:
    return rh.cassandra.sink("shop.counts", hosts="localhost", **more)


class Writing:
    def __init__(self, sink: CassandraSink, schema: pa.Schema = SCHEMA) -> None:
        sink.validate(schema)
        self.counts: dict[str, int] = {}
        ctx = sink_context(schema)
        ctx.count = self._count
        self._schema = schema
        self.writer = sink.prepared(schema, ("job", "sink")).open(ctx)

    def _count(self, name: str, by: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + by

    def write(self, *rows: dict[str, Any]) -> None:
        """Write rows and prepare a checkpoint."""
        self.writer.write(batch_of(self._schema, *rows))
        assert self.writer.prepare(CheckpointId(1)) == []


def test_statements_contain_the_streams_columns() -> None:
    made = table(ttl="90m", delete="gone").table.fitted(SCHEMA, COLUMNS, ["id"])
    assert made.insert() == 'INSERT INTO "shop"."counts" ("id", "n") VALUES (?, ?) USING TTL 5400'
    assert made.removal() == 'DELETE FROM "shop"."counts" WHERE "id" = ?'


def test_only_the_newest_row_of_a_key_is_in_flight(session: Session) -> None:
    job = Writing(table(delete="gone"), SCHEMA.append(pa.field("gone", pa.bool_())))
    job.write(
        {"id": "a", "n": 1, "gone": False},
        {"id": "b", "n": 2, "gone": None},
        {"id": "a", "n": 3, "gone": None},
        {"id": "b", "n": 4, "gone": True},
    )
    assert session.written == [[("INSERT", ("a", 3)), ("DELETE", ("b",))]]


def test_only_rejected_rows_are_written_again(session: Session) -> None:
    away = UnavailableError("nobody is there")
    session.errors = [away, {0: away, 2: away}, {}]
    job = Writing(table())
    job.write({"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": 3})
    assert [[given[0] for _, given in rows] for rows in session.written] == [
        ["a", "b", "c"],
        ["a", "c"],
    ]
    assert job.counts == {"retries": 2}


def test_retries_end_and_a_refusal_names_the_row(session: Session) -> None:
    session.errors = [{0: UnavailableError("nobody is there")}]
    with pytest.raises(UnavailableError, match="nobody is there"):
        Writing(table(retry_for="0s")).write({"id": "a", "n": 1})
    session.errors = [{0: UnavailableError("nobody is there"), 1: InputError("too long")}]
    with pytest.raises(InputError, match="too long") as raised:
        Writing(table()).write({"id": "a", "n": 1}, {"id": "b", "n": 2})
    assert raised.value.record == "{'id': 'b', 'n': 2}"
    with pytest.raises(InputError, match="a column of the primary key"):
        Writing(table()).write({"id": None, "n": 1})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"id": pa.string(), "m": pa.int64()}, "the table shop.counts has no column 'm'"),
        ({"n": pa.int64()}, "column 'id' of the primary key"),
        ({"id": pa.int64(), "n": pa.int64()}, "column 'id' is int64, but text in"),
        ({"id": pa.string(), "n": pa.uint64()}, "column 'n' is uint64, but bigint in"),
        ({"id": pa.string(), "unused": pa.string()}, "is list<text>, which the sink cannot write"),
    ],
)
def test_a_table_that_rows_do_not_fit_is_an_error_before_the_job_runs(
    session: Session, schema: dict[str, pa.DataType], says: str
) -> None:
    with pytest.raises(SchemaError, match=says):
        table().prepared(pa.schema(schema), ("job", "sink"))


def test_values_have_the_clients_types() -> None:
    schema = pa.schema(
        {"at": pa.timestamp("us"), "day": pa.date32(), "of": pa.string(), "number": pa.decimal128(5, 2)}
    )
    kinds = {"at": "timestamp", "day": "date", "of": "uuid", "number": "decimal"}
    columns = [CqlColumn(*each) for each in kinds.items()]
    known = uuid.UUID(int=7)
    row = {"at": datetime(1970, 1, 1, 0, 0, 1), "day": date(1970, 1, 2), "of": str(known), "number": 1}
    nothing = dict.fromkeys(schema.names)
    assert values(batch_of(schema, row, nothing), columns) == [
        (1000, 2**31 + 1, known, 1),
        (None, None, None, None),
    ]
    finer = {**nothing, "at": datetime(1970, 1, 1, microsecond=1500, tzinfo=UTC)}
    with pytest.raises(InputError, match="can only store whole milliseconds") as raised:
        values(batch_of(schema, nothing, finer), columns)
    assert raised.value.record is not None
    assert "1500" in raised.value.record
    with pytest.raises(InputError, match="'of' is uuid, and 'me' is not valid"):
        values(batch_of(schema, {**nothing, "of": "me"}), columns)


@pytest.mark.parametrize(
    "given",
    [
        {"table": "counts"},
        {"table": 'a."b'},
        {"hosts": []},
        {"hosts": "a:b"},
        {"hosts": 7},
        {"consistency": "SOME"},
        {"at_once": 0},
        {"ttl": "8000 days"},
        {"user": "ada"},
        {"options": "tls"},
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: dict[str, Any]) -> None:
    with pytest.raises(ProgramError) as raised:
        rh.cassandra.sink(**{"table": "a.b", "hosts": "h", **given})
    assert raised.value.site is not None


def test_columns_that_no_table_accepts_are_refused_at_their_line() -> None:
    with pytest.raises(SchemaError, match="column 'of' is list<item: int64>"):
        table().validate(pa.schema({"of": pa.list_(pa.int64())}))


def test_hosts_are_parsed_and_secrets_hidden() -> None:
    sink = table(user="ada", password="lovelace", options={"ssl_context": "topsecret"})
    shown = f"{sink!r} {sink.describe()}"
    assert "lovelace" not in shown
    assert "topsecret" not in shown
    assert sink.contact.address == "localhost:9042"
    many = rh.cassandra.sink("a.b", hosts=["h:1", "[::1]:2", "::1"])
    assert many.contact.hosts == (("h", 1), ("::1", 2), ("::1", 9042))


def test_an_unreachable_cluster_is_an_error() -> None:
    lonely = rh.cassandra.sink("a.b", hosts="127.0.0.1:1", retry_for="0s")
    with pytest.raises(UnavailableError, match=r"Cassandra at 127.0.0.1:1: .*[Rr]efused"):
        lonely.prepared(SCHEMA, ("job", "sink"))
    wrong = rh.cassandra.sink("a.b", hosts="127.0.0.1:1", options={"nonsense": 1})
    with pytest.raises(ConfigurationError, match="the Cassandra client rejects its options"):
        wrong.prepared(SCHEMA, ("job", "sink"))


UUID1 = "8b0a3c1e-7f4e-11ee-b962-0242ac120002"
REFUSED = {
    "inet": ("1", "1.2", "010.0.0.1", "127.0.0.1 foo", "nope", "fe80::1%lo", "", "10.0.0.1\0"),
    "uuid": ("1234_678-1234-5678-1234-567812345678", " " + UUID1, f"{{{UUID1}}}", "", UUID1[:-1]),
    "timeuuid": ("12345678-1234-4678-9234-567812345678", "0"),
    "ascii": ("é", "a\u202eb"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_string_that_a_column_refuses_is_an_error_with_row_and_column(kind: str) -> None:
    column = CqlColumn("c", kind)
    schema = pa.schema({"c": pa.string()})
    for text in REFUSED[kind]:
        with pytest.raises(InputError) as raised:
            values(batch_of(schema, {"c": None}, {"c": text}), [column])
        assert f"column 'c' is {kind}, and {text!r} is not valid" in str(raised.value.what)
        assert raised.value.record == f"{{'c': {text!r}}}"


def test_every_kind_of_string_keeps_its_value() -> None:
    """Check that the stored value is what the client makes of a string: its own types decide."""
    types = import_module("cassandra.cqltypes")
    stored = {
        "inet": {"10.0.0.1": bytes([10, 0, 0, 1]), "::1": bytes(15) + b"\1"},
        "uuid": {UUID1: uuid.UUID(UUID1).bytes, UUID1.replace("-", "").upper(): uuid.UUID(UUID1).bytes},
        "timeuuid": {UUID1: uuid.UUID(UUID1).bytes},
        "ascii": {"a'); DROP TABLE t; --\0": b"a'); DROP TABLE t; --\0", "": b""},
        "text": {"é\0\U0010ffff'\"": "é\0\U0010ffff'\"".encode()},
    }
    names = {"inet": "InetAddressType", "timeuuid": "TimeUUIDType", "uuid": "UUIDType"}
    for kind, texts in stored.items():
        rows = batch_of(pa.schema({"c": pa.string()}), *({"c": text} for text in texts))
        client = getattr(types, names.get(kind, "AsciiType" if kind == "ascii" else "UTF8Type"))
        found = [client.serialize(given, 4) for (given,) in values(rows, [CqlColumn("c", kind)])]
        assert found == list(texts.values())


def test_keys_that_are_equal_in_python_stay_distinct(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that keys which are equal in Python stay distinct: Cassandra distinguishes -0.0 from 0.0,
    and NaN equals itself."""
    columns = [CqlColumn("k", "double"), CqlColumn("n", "bigint")]
    monkeypatch.setattr(Session, "describe", lambda *_: (columns, ["k"]))
    job = Writing(table(), pa.schema({"k": pa.float64(), "n": pa.int64()}))
    nan = float("nan")
    job.write({"k": 0.0, "n": 1}, {"k": -0.0, "n": 2}, {"k": nan, "n": 3}, {"k": -nan, "n": 4})
    job.write({"k": nan, "n": 5}, {"k": float("nan"), "n": 6})
    first, second = session.written
    assert [given[1] for _, given in first[:2]] == [1, 2]
    assert [given[1] for _, given in second] == [6]
