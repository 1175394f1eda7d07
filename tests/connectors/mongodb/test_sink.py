"""The sink and the lookup on a server with MongoDB's protocol: which documents it has."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.mongodb import MongodbSink
from rheos.core.connectors.lookup import LookupContext
from rheos.core.errors import ConfigurationError, InputError, SchemaError, UnavailableError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.mongodb.conftest import Collections
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([pa.field("k", pa.string(), False), pa.field("n", pa.int64(), False)])
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
SLOW = "the wheel with the server is not installed by CI"
pytestmark = pytest.mark.slow  # CI does not install the wheel with the server.


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def written(sink: Any, *batches: pa.RecordBatch) -> None:
    schema = batches[0].schema
    sink.validate(schema)
    writer = sink.prepared(schema, ("job", "sink")).open(sink_context(schema))
    try:
        for batch in batches:
            writer.write(batch)
            assert writer.prepare(CheckpointId(1)) == []
    finally:
        writer.close()


def test_values_of_every_type_are_documents(collections: Collections) -> None:
    at = dt.datetime(2026, 2, 3, 4, 5, 6, 789_000, dt.UTC)
    midnight = dt.datetime(2026, 2, 3, tzinfo=dt.UTC)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "k": (pa.string(), "é"),
        "b": (pa.binary(), b"a\xff"),
        "u": (pa.uint64(), 2**63 - 1),
        "f": (pa.float32(), 0.25),
        "yes": (pa.bool_(), True),
        "none": (pa.int32(), None),
        "d": (pa.decimal128(10, 2), Decimal("-12.50")),
        "day": (pa.date32(), midnight.date()),
        "at": (pa.timestamp("us", "UTC"), at),
        "ds": (pa.list_(pa.decimal128(4, 1)), [Decimal("1.5"), None]),
        "s": (pa.struct([("day", pa.date32()), ("n", pa.int8())]), {"day": midnight.date(), "n": 1}),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in values.items()])
    row = {name: value for name, (_, value) in values.items()}
    name = collections.new()
    sink = rh.mongodb.sink(name, url=collections.url, id="k")
    written(sink, batch_of(schema, row))
    bson = pytest.importorskip("bson")
    tenth = bson.Decimal128
    assert collections.documents(name) == [
        {
            **row,
            "_id": "é",
            "d": tenth("-12.50"),
            "day": midnight,
            "ds": [tenth("1.5"), None],
            "s": {"day": midnight, "n": 1},
        }
    ]
    # The lookup reads the same values.
    fields = pa.schema([field for field in schema if field.name != "k"])
    by = rh.mongodb.lookup(name, url=collections.url, key="_id", schema=fields)
    assert found(by, pa.string(), "é", "e") == [(0, {k: v for k, v in row.items() if k != "k"})]
    for column, value in {"u": 2**63, "at": at.replace(microsecond=1), "k": None}.items():
        with pytest.raises(InputError) as raised:
            written(sink, batch_of(schema, {**row, column: value}))
        assert raised.value.record is not None


def found(lookup: Any, kind: pa.DataType, *keys: Any) -> list[tuple[int, dict[str, Any]]]:
    schema = pa.schema([("key", kind)])
    lookup.validate(schema)
    client = lookup.open(LookupContext("lookup", 0, schema))
    try:
        answer = client.fetch(batch_of(schema, *({"key": key} for key in keys)))
    finally:
        client.close()
    return sorted(
        zip(answer.of.to_pylist(), answer.rows.to_pylist(), strict=True), key=lambda pair: str(pair)
    )


def test_documents_are_found_by_keys(collections: Collections) -> None:
    bson = pytest.importorskip("bson")
    name, id = collections.new(), bson.ObjectId()
    collections[name].insert_many(
        [
            {"_id": id, "shop": 1, "order": 1, "tags": ["a", 1], "n": 1},
            {"_id": str(id), "shop": 1, "order": 2.0, "n": 2},
            {"_id": 3, "shop": 1, "order": "1"},
        ]
    )
    lookups: Any = rh.mongodb.lookup
    by = lookups(name, url=collections.url, key="_id", schema={"n": int, "tags": str})
    assert found(by, pa.string(), str(id), "x") == [
        (0, {"n": 1, "tags": '["a", 1]'}),
        (0, {"n": 2, "tags": None}),
    ]
    by = lookups(name, url=collections.url, key=["shop", "order"], schema={"_id": str, "n": int})
    schema = pa.schema([("a", pa.int64()), ("b", pa.int32())])
    client = by.open(LookupContext("lookup", 0, schema))
    answer = client.fetch(batch_of(schema, {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}))
    client.close()
    assert answer.of.to_pylist() == [0, 1]
    assert answer.rows.column("n").to_pylist() == [1, 2]
    by = lookups(name, url=collections.url, key="_id", schema={"order": int})
    with pytest.raises(InputError, match="the field 'order'") as raised:
        found(by, pa.int64(), 3)
    assert raised.value.record == "_id=3"


def test_the_newest_row_of_an_id_stays(collections: Collections) -> None:
    name = collections.new()
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])

    def rows(*given: tuple[str, int, bool | None]) -> pa.RecordBatch:
        return batch_of(schema, *({"k": k, "n": n, "gone": gone} for k, n, gone in given))

    sink = rh.mongodb.sink(name, url=collections.url, id=["k", "n"], delete="gone")
    written(sink, rows(("a", 1, False), ("b", 1, None)), rows(("b", 1, True), ("c", 1, True)))
    assert collections.documents(name) == [{"_id": {"k": "a", "n": 1}, "k": "a", "n": 1}]
    name = collections.new()
    sink = rh.mongodb.sink(name, url=collections.url, id="k", delete="gone")
    many = [("a", n, False) for n in range(10_000)]
    written(sink, rows(*many, ("b", 1, False)), rows(("b", 1, True), ("b", 2, False)))
    assert collections.documents(name) == [
        {"_id": "a", "k": "a", "n": 9999},
        {"_id": "b", "k": "b", "n": 2},
    ]
    # An index of the collection refuses a row.
    collections[name].create_index("n", unique=True)
    with pytest.raises(InputError, match="refuses a document") as raised:
        written(sink, rows(("c", 2, False)))
    assert raised.value.record is not None


def test_a_changelog_becomes_documents(collections: Collections) -> None:
    name = collections.new()
    env = rh.Environment(runtime="simulated")
    told = [("+I", "a", 1), ("+I", "b", 1), ("+U", "a", 2), ("-D", "b", 1)]
    changes = [{"op": op, "page": page, "clicks": clicks} for op, page, clicks in told]
    counts = env.from_source(rh.collection(changes)).upserts(key="page")
    counts.sink_to(rh.mongodb.sink(name, url=collections.url, id="page"))
    env.execute("counts")
    assert collections.documents(name) == [{"_id": "a", "page": "a", "clicks": 2}]


def test_a_server_that_is_away(collections: Collections, monkeypatch: pytest.MonkeyPatch) -> None:
    from rheos.connectors.mongodb import session

    monkeypatch.setattr(session, "_FIND_SERVER_S", 0.2)
    sink = rh.mongodb.sink("t", url="mongodb://ada:s3cret@127.0.0.1:1/x", id="k", retry_for="0s")
    with pytest.raises(UnavailableError) as raised:
        sink.prepared(SCHEMA, ("job", "sink"))
    assert "s3cret" not in f"{raised.value} {raised.value.hint} {sink!r}"
    sink = rh.mongodb.sink("t", url=collections.url, id="k", options={"tls_ca_file": "/none.pem"})
    with pytest.raises(ConfigurationError):
        sink.prepared(SCHEMA, ("job", "sink"))


@dataclass(frozen=True)
class WithoutTimes(MongodbSink):
    """Columns of the test kit have microseconds, which documents do not support."""

    def validate(self, schema: pa.Schema) -> None:
        super().validate(schema)
        if any(pa.types.is_timestamp(field.type) for field in schema):
            raise SchemaError("a timestamp")


def test_the_sink_keeps_the_contract(collections: Collections) -> None:
    def make(_: str, schema: pa.Schema) -> Any:
        name = collections.new()

        def seen() -> list[dict[str, Any]]:
            lookup = rh.mongodb.lookup(name, url=collections.url, key="_id", schema=schema)
            ids = collections.documents(name)
            return [row for _, row in found(lookup, pa.string(), *(str(each["_id"]) for each in ids))]

        made = rh.mongodb.sink(name, url=collections.url, id=None)
        return WithoutTimes(**{each.name: getattr(made, each.name) for each in fields(made)}), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "MongoDB", faults=["the server is killed", "workers of a simulated job crash"], slow_because=SLOW
)
def test_rows_arrive_after_any_crash(mongodb_server: Any, collections: Collections) -> None:
    def restart() -> None:
        mongodb_server.kill()
        mongodb_server.start()

    name = collections.new()

    def build(env: rh.Environment) -> rh.DataStream:
        given = [{"k": f"k{n % 7}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(given, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.key_by("k").running(last=rh.agg.max("n")).sink_to(
            rh.mongodb.sink(name, url=collections.url, id="k")
        )
        return found

    AT_ROW[30] = restart
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    last = {document["_id"]: document["last"] for document in collections.documents(name)}
    assert last == {f"k{n % 7}": n for n in range(60)}
