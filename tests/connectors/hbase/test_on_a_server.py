"""Sink, lookup and source on a real HBase: which rows it has, and what they find."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import EndOfSplit
from rheos.core.connectors.lookup import LookupContext
from rheos.core.errors import ConfigurationError, InputError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, check_source, simulate
from tests.connectors.hbase.conftest import Tables
from tests.connectors.ports import Probe, batch_of, sink_context
from tests.ops.servers.listening import listening_at

SCHEMA = pa.schema([pa.field("k", pa.string(), False), pa.field("n", pa.int64())])
SLOW = "a server takes some 20 s of processor time to start"
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
pytestmark = pytest.mark.slow


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


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def found(lookup: Any, *keys: Any, kind: Any = None) -> list[tuple[Any, dict[str, Any]]]:
    schema = pa.schema([("key", kind or lookup.rows.key.field(0).type)])
    lookup.validate(schema)
    client = lookup.open(LookupContext("lookup", 0, schema))
    try:
        answer = client.fetch(batch_of(schema, *({"key": key} for key in keys)))
    finally:
        client.close()
    rows = zip(answer.of.to_pylist(), answer.rows.to_pylist(), strict=True)
    return sorted(((keys[place], row) for place, row in rows), key=str)


def read(source: Any) -> list[dict[str, Any]]:
    return [row for rows in check_source(source, positions=3, max_rows=(3,)).values() for row in rows]


def rows_of(source: Any) -> list[dict[str, Any]]:
    """Return all rows of a source, read once."""
    found: list[dict[str, Any]] = []
    for split in source.splits():
        reader = source.open(split, None, Probe().context())
        while not isinstance(polled := reader.poll(1000), EndOfSplit):
            found += polled.to_pylist() if isinstance(polled, pa.RecordBatch) else []
        reader.close()
    return found


def test_rows_are_replaced_and_deleted(tables: Tables) -> None:
    name = tables.new("cf", "other")
    schema = SCHEMA.append(pa.field("gone", pa.bool_())).append(pa.field("s", pa.string()))

    def rows(*given: tuple[str, int | None, bool | None, str | None]) -> pa.RecordBatch:
        return batch_of(schema, *(dict(zip(schema.names, row, strict=True)) for row in given))

    sink = rh.hbase.sink(
        name,
        gateway=tables.gateway,
        key_columns="k",
        family="cf",
        columns={"s": "other:text"},
        delete="gone",
    )
    tables.put(name, {b"a": {"cf:mine": b"1"}, b"b": {"cf:mine": b"1"}})
    written(sink, rows(("a", 1, False, "x"), ("b", 1, None, "x"), ("c", 1, False, "x")))
    assert tables.rows(name)[b"a"] == {"cf:mine": b"1", "cf:n": number(1), "other:text": b"x"}
    many = [("e", n, False, "") for n in range(3000)]
    written(
        sink,
        rows(("a", 2, False, None), ("b", None, True, None), ("d", None, False, None)),
        rows(("c", 1, True, "x"), ("c", None, False, "y"), *many),
    )
    assert tables.rows(name) == {
        b"a": {"cf:mine": b"1", "cf:n": number(2)},
        b"c": {"other:text": b"y"},
        b"e": {"cf:n": number(2999), "other:text": b""},
    }
    # A deletion and a later row within a millisecond: the row counts.
    written(sink, *(rows(("f", n, n % 2 == 0, "x")) for n in range(10)))
    assert tables.rows(name)[b"f"] == {"cf:n": number(9), "other:text": b"x"}


def test_missing_tables_and_families_are_refused(tables: Tables) -> None:
    def prepared(table: str, family: str) -> None:
        given: Any = {"gateway": tables.gateway, "key_columns": "k", "family": family}
        rh.hbase.sink(table, **given).prepared(SCHEMA, ("job", "sink"))

    with pytest.raises(ConfigurationError, match="the table missing cannot be written"):
        prepared("missing", "cf")
    with pytest.raises(ConfigurationError, match="has no family 'x'") as raised:
        prepared(tables.new(), "x")
    assert raised.value.hint == "its families are cf"
    given: Any = {"gateway": tables.gateway, "family": "cf", "schema": SCHEMA}
    with pytest.raises(ConfigurationError):
        found(rh.hbase.lookup("missing", key="k", **given), "a")
    source = rh.hbase.source("missing", key_columns="k", **given)
    with pytest.raises(ConfigurationError):
        read(source)


def test_rows_without_a_row_key_end_the_job(tables: Tables) -> None:
    schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
    sink = rh.hbase.sink(tables.new(), gateway=tables.gateway, key_columns="k", family="cf")
    for key in (None, "", "a" * 40_000):
        with pytest.raises(InputError, match="a row cannot be written") as raised:
            written(sink, batch_of(schema, {"k": "a", "n": 1}, {"k": key, "n": 2}))
        assert "'n': 2" in str(raised.value.record)


def test_rows_are_found_by_key(tables: Tables) -> None:
    name = tables.new()
    schema = pa.schema([("id", pa.int32()), ("country", pa.string()), ("born", pa.date32())])
    given: Any = {"gateway": tables.gateway, "family": "cf"}
    rows = [{"id": n - 500, "country": f"c{n}", "born": None} for n in range(1000)]
    written(rh.hbase.sink(name, key_columns="id", **given), batch_of(schema, *rows))
    users = rh.hbase.lookup(name, key="id", schema=schema, **given)
    wanted = [(n, {"country": f"c{n + 500}", "born": None}) for n in range(-500, 500)]
    keys = [*range(-510, 510)]
    assert found(users, *keys, kind=pa.int64()) == sorted(wanted, key=str)
    assert found(users, 2**40, kind=pa.int64()) == []
    wrong = rh.hbase.lookup(name, key="id", schema={"id": pa.int32(), "country": int}, **given)
    with pytest.raises(InputError, match="cf:country of the table") as raised:
        found(wrong, 1)
    assert raised.value.record == r"row key '\x80\x00\x00\x01'"


def test_a_table_is_read_in_the_order_of_its_row_keys(tables: Tables) -> None:
    name = tables.new()
    schema = pa.schema([("shop", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
    keys = ["shop", "id"]
    given: Any = {"gateway": tables.gateway, "family": "cf", "key_columns": keys}
    rows = [{"shop": f"s{n % 3}", "id": n - 250, "n": n} for n in range(500)]
    written(rh.hbase.sink(name, **given), batch_of(schema, *rows))
    source = rh.hbase.source(name, schema=schema, **given)
    assert read(source) == sorted(rows, key=lambda row: (row["shop"], row["id"]))
    some = rh.hbase.source(name, schema=schema, first=b"s1\0", end=b"s2\0", **given)
    assert [row["id"] for row in read(some)] == [n - 250 for n in range(1, 500, 3)]


def test_splits_follow_regions(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tables.new()
    given: Any = {"gateway": tables.gateway, "family": "cf", "key_columns": "k"}
    rows = [{"k": f"{n:03}", "n": n} for n in range(300)]
    written(rh.hbase.sink(name, **given), batch_of(SCHEMA, *rows))
    ends = [b"", b"100", b"200", b""]
    regions = [{"start_key": a, "end_key": b} for a, b in pairwise(ends)]
    happybase: Any = pytest.importorskip("happybase")
    monkeypatch.setattr(happybase.Table, "regions", lambda table: regions)
    source = rh.hbase.source(name, schema=SCHEMA, first=b"050", end=b"200", **given)
    assert [split.id for split in source.splits()] == ["'050'..'100'", "'100'..'200'"]
    assert read(source) == rows[50:200]


def test_a_changelog_becomes_rows(tables: Tables) -> None:
    name = tables.new()
    env = rh.Environment(runtime="simulated")
    told = [("+I", "a", 1), ("+I", "b", 1), ("+U", "a", 2), ("-D", "b", 1)]
    changes = [{"op": op, "page": page, "clicks": clicks} for op, page, clicks in told]
    counts = env.from_source(rh.collection(changes)).upserts(key="page")
    counts.sink_to(rh.hbase.sink(name, gateway=tables.gateway, key_columns="page", family="cf"))
    env.execute("counts")
    assert tables.rows(name) == {b"a": {"cf:clicks": number(2)}}


def test_the_sink_keeps_the_contract(tables: Tables) -> None:
    def make(_: str, schema: pa.Schema) -> Any:
        name = tables.new()
        given: Any = {"gateway": tables.gateway, "key_columns": "n", "family": "cf"}

        def seen() -> list[dict[str, Any]]:
            return rows_of(rh.hbase.source(name, schema=schema, **given))

        return rh.hbase.sink(name, **given), seen

    check_sink(make)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "HBase", faults=["the server is killed", "workers of a simulated job crash"], slow_because=SLOW
)
def test_rows_arrive_after_any_crash(hbase_server: Any, tables: Tables) -> None:
    def restart() -> None:
        hbase_server.kill()
        hbase_server.start()

    name, copy = tables.new(), tables.new()
    rows = {f"k{n:03}".encode(): {"cf:n": number(n)} for n in range(60)}
    tables.put(name, rows)
    given: Any = {"gateway": tables.gateway, "key_columns": "k", "family": "cf"}

    def build(env: rh.Environment) -> rh.DataStream:
        stored = env.from_source(rh.hbase.source(name, schema=SCHEMA, **given))
        stored.map(passed, returns=SCHEMA).sink_to(rh.hbase.sink(copy, **given))
        return stored

    AT_ROW[30] = restart
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    assert tables.rows(copy) == rows


def test_the_server_listens_on_loopback_only(hbase_server: Any) -> None:
    listening = listening_at(hbase_server)
    assert len(listening) >= 4  # Gateway, ZooKeeper, master and region server.
    assert all(address in ("127.0.0.1", "::1") for address in listening)
