"""The sink on ClickHouse's own engine: which rows its tables have, also after failures."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, SchemaError, UnrestorableError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.clickhouse.conftest import CURRENT, WINDOW, Tables
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([pa.field("k", pa.string(), False), pa.field("n", pa.int64(), False)])
COLUMNS = "k String, n Int64"
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
SLOW = "the wheel with ClickHouse's engine has 500 MB, and CI does not install it"
pytestmark = pytest.mark.slow  # The wheel with the engine has 500 MB.


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


def prepared(sink: Any, schema: pa.Schema, folder: Path) -> Any:
    sink.validate(schema)
    return sink.prepared(schema, ("job", "sink")).staged(str(folder))


def committed(sink: Any, batch: pa.RecordBatch) -> list[bytes]:
    """Write a batch, and commit its checkpoint. Return the committables."""
    writer = sink.open(sink_context(batch.schema))
    writer.write(batch)
    found: list[bytes] = writer.prepare(CheckpointId(1))
    sink.committer().commit(found)
    writer.close()
    return found


def test_values_of_every_type_are_stored(tables: Tables, tmp_path: Path) -> None:
    at = dt.datetime(2026, 2, 3, 4, 5, 6, 789_012, dt.UTC)
    values: dict[str, tuple[pa.DataType, str, Any]] = {
        "s": (pa.string(), "String", "it's `é`\\"),
        "lc": (pa.string(), "LowCardinality(Nullable(String))", None),
        "b": (pa.binary(), "String", b"a\x01"),
        "i8": (pa.int8(), "Int16", -5),
        "u64": (pa.uint64(), "UInt64", 2**64 - 1),
        "i64": (pa.int64(), "Nullable(Int64)", -(2**63)),
        "f": (pa.float64(), "Float64", 1.5),
        "f32": (pa.float32(), "Float32", 0.25),
        "yes": (pa.bool_(), "Bool", True),
        "d": (pa.decimal128(10, 2), "Decimal(12, 3)", Decimal("-12345678.91")),
        "day": (pa.date32(), "Date32", dt.date(1900, 1, 1)),
        "at": (pa.timestamp("us", "UTC"), "DateTime64(6, 'UTC')", at),
        "whole": (pa.timestamp("us", "UTC"), "DateTime('UTC')", at.replace(microsecond=0)),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in values.items()])
    table = tables.appended(", ".join(f"{name} {type}" for name, (_, type, _) in values.items()))
    sink = prepared(rh.clickhouse.sink(table, url=tables.url), schema, tmp_path)
    row = {name: value for name, (_, _, value) in values.items()}
    committed(sink, batch_of(schema, row))
    # Read by the lookup, which has the table's own types.
    by = rh.clickhouse.lookup(table, url=tables.url, key="s")
    keys = pa.schema([("s", pa.string())])
    client = by.open(rh_context(keys))
    [found] = client.fetch(batch_of(keys, {"s": values["s"][2]})).rows.to_pylist()
    client.close()
    assert {**found, "b": found["b"].encode(), "s": row["s"]} == row
    # Values that would be changed are refused before their checkpoint.
    writer = sink.open(sink_context(schema))
    for name, value in {
        "whole": at,
        "day": dt.date(1899, 12, 31),
        "s": None,
        "yes": None,
        "at": dt.datetime(2300, 1, 1, tzinfo=dt.UTC),
    }.items():
        with pytest.raises(InputError, match=f"column '{name}'"):
            writer.write(batch_of(schema, {**row, name: value}))
    writer.close()


def rh_context(keys: pa.Schema) -> Any:
    from rheos.core.connectors.lookup import LookupContext

    return LookupContext("lookup", 0, keys)


def test_a_commit_that_is_repeated_inserts_nothing(
    tables: Tables, tmp_path: Path, clickhouse_server: Any
) -> None:
    table = tables.appended(COLUMNS)
    sink = prepared(rh.clickhouse.sink(table, url=tables.url), SCHEMA, tmp_path)
    writer = sink.open(sink_context(SCHEMA))
    for begin in range(0, 150_000, 50_000):
        writer.write(rows(*range(begin, begin + 50_000)))
    staged = writer.prepare(CheckpointId(1))
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.arrow")}
    assert len(kept) == 1
    for again in range(3):
        sink.committer().commit(staged)
        for path, content in kept.items():
            path.write_bytes(content)
            Path(f"{path}.done").unlink()
        if again == 1:
            clickhouse_server.kill()
            clickhouse_server.start()
    [found] = tables.rows(table, "count() AS total, countDistinct(n) AS different")
    assert found == {"total": 150_000, "different": 150_000}
    # Other rows push its blocks out of half of the window.
    for n in range(501):
        tables.run(f"INSERT INTO {table} VALUES ('other', {n})")
    with pytest.raises(UnrestorableError, match="may be in the table or not: 5"):
        sink.committer().commit(staged)
    # At least once, the rows are inserted again.
    again_sink = rh.clickhouse.sink(table, url=tables.url, delivery="at_least_once")
    prepared(again_sink, SCHEMA, tmp_path).committer().commit(staged)
    [found] = tables.rows(table, "countIf(k != 'other') AS total")
    assert found["total"] >= 150_000
    writer.close()


def test_upserts_and_deletions(tables: Tables, tmp_path: Path) -> None:
    table = tables.replacing(COLUMNS, "k")
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])
    sink = rh.clickhouse.sink(table, url=tables.url, key="k", delete="gone")
    sink = prepared(sink, schema, tmp_path)
    for changes in (
        [("a", 1, False), ("b", 1, None), ("a", 2, False)],
        [("b", 1, True), ("c", 3, False), ("c", 3, True), ("c", 4, False)],
        [("a", 2, True), ("a", 5, False), ("b", 6, False), ("c", 4, True)],
    ):
        committed(sink, batch_of(schema, *({"k": k, "n": n, "gone": g} for k, n, g in changes)))
    assert tables.rows(table, "k, n") == [{"k": "a", "n": 5}, {"k": "b", "n": 6}]
    # The version is a column of the stream: the highest one stays, in whatever order rows arrive.
    table = tables.create(COLUMNS, f"ReplacingMergeTree(n) ORDER BY k {WINDOW}")
    sink = prepared(rh.clickhouse.sink(table, url=tables.url, key="k"), SCHEMA, tmp_path)
    for numbers in ((5, 3, 4), (6, 0)):
        committed(sink, rows(*numbers))
    assert tables.rows(table, "k, n") == [{"k": "k0", "n": 6}, {"k": "k1", "n": 4}, {"k": "k2", "n": 5}]


def test_a_changelog_becomes_the_current_rows(tables: Tables) -> None:
    table = tables.replacing("page String, clicks Int64", "page")
    env = rh.Environment(runtime="simulated")
    told = [("+I", "a", 1), ("+I", "b", 1), ("+U", "a", 2), ("-D", "b", 1), ("+I", "c", 1)]
    changes = [{"op": op, "page": page, "clicks": clicks} for op, page, clicks in told]
    counts = env.from_source(rh.collection(changes)).upserts(key="page")
    counts.sink_to(rh.clickhouse.sink(table, url=tables.url, key="page"))
    env.execute("counts")
    found = tables.rows(table, "page, clicks")
    assert found == [{"page": "a", "clicks": 2}, {"page": "c", "clicks": 1}]


def test_tables_that_do_not_fit_are_refused(tables: Tables) -> None:
    plain = tables.create(COLUMNS, "MergeTree ORDER BY k")
    kept = tables.appended(COLUMNS)
    other = tables.appended("k String, n UInt8")
    versioned = tables.create(f"{COLUMNS}, v UInt64", f"ReplacingMergeTree(v) ORDER BY k {WINDOW}")
    memory = tables.create(COLUMNS, "Memory")
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])
    once: Any = {"key": "k"}
    for table, more, of, kind, text in (
        (plain, {}, SCHEMA, ConfigurationError, "window has 0 blocks"),
        (memory, {}, SCHEMA, ConfigurationError, "engine Memory"),
        (f"{kept}_none", {}, SCHEMA, ConfigurationError, "does not exist"),
        ("none.none", {}, SCHEMA, ConfigurationError, "does not exist"),
        (kept, once, SCHEMA, ConfigurationError, "does not replace rows by k"),
        (versioned, once, SCHEMA, ConfigurationError, "no column 'v', which is the version"),
        (versioned, {**once, "delete": "gone"}, schema, ConfigurationError, "marks deleted rows"),
        (kept, {}, pa.schema([("x", pa.string())]), SchemaError, "no column 'x'"),
        (kept, {}, pa.schema([("n", pa.string())]), SchemaError, "is Int64, which cannot store string"),
    ):
        with pytest.raises(kind, match=text) as raised:
            rh.clickhouse.sink(table, url=tables.url, **more).prepared(of, ("job", "sink"))
        assert raised.value.hint is not None
    # The hint is a statement that works.
    missing = f"{kept}_made"
    with pytest.raises(ConfigurationError) as raised:
        rh.clickhouse.sink(missing, url=tables.url, key="k", delete="gone").prepared(
            schema, ("job", "sink")
        )
    assert raised.value.hint is not None
    tables.run(raised.value.hint.removeprefix("create it: "))
    rh.clickhouse.sink(missing, url=tables.url, key="k", delete="gone").prepared(
        schema, ("job", "sink")
    )
    tables.run(f"DROP TABLE {missing}")
    # At least once, the table needs no window. A value is refused before it is sent.
    sink = rh.clickhouse.sink(other, url=tables.url, delivery="at_least_once")
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    with pytest.raises(InputError, match="UInt8 ends at 255"):
        writer.write(rows(256))
    writer.close()
    assert CURRENT in tables.run(f"SHOW CREATE TABLE {tables.replacing(COLUMNS, 'k')}").replace("`", "")


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_the_sink_keeps_the_contract(tables: Tables, delivery: Any) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = tables.adopted(schema)
        sink = rh.clickhouse.sink(table, url=tables.url, delivery=delivery)
        return sink, lambda: tables.typed_rows(table, schema)

    check_sink(make, rows=pa.table({"n": list(range(8))}))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "ClickHouse",
    faults=["the server is killed", "workers of a simulated job crash"],
    slow_because=SLOW,
)
@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_there_once_after_any_crash(
    clickhouse_server: Any, tables: Tables, seed: int
) -> None:
    def restart() -> None:
        clickhouse_server.kill()
        clickhouse_server.start()

    table = tables.appended(COLUMNS)

    def build(env: rh.Environment) -> rh.DataStream:
        given = [{"k": f"k{n % 3}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(given, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.sink_to(rh.clickhouse.sink(table, url=tables.url))
        return found

    AT_ROW[30] = restart
    faults = Faults(crash_slot=40.0, commit_error=0.2)
    done = simulate(build, seed=seed, faults=faults, parallelism=2)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    assert [row["n"] for row in tables.rows(table, "n")] == [*range(60)]
