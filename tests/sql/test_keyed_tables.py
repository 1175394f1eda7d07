"""Tables with a PRIMARY KEY: the changes of a query are folded by that key when they are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import rheos as rh

ORDERS = [
    {"order_id": 1, "product": 10, "op": "insert"},
    {"order_id": 2, "product": 10, "op": "insert"},
    {"order_id": 3, "product": 12, "op": "insert"},
    {"order_id": 1, "product": 11, "op": "update_after"},
    {"order_id": 2, "product": 10, "op": "delete"},
    {"order_id": 2, "product": 11, "op": "insert"},
]
PRODUCTS = [
    {"id": 10, "name": "tea", "op": "insert"},
    {"id": 11, "name": "jam", "op": "insert"},
    {"id": 10, "name": "tee", "op": "update_after"},
]
NAMES = {1: "jam", 2: "jam", 3: None}


def environment() -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="simulated")
    for name, rows, key in (("orders", ORDERS, "order_id"), ("products", PRODUCTS, "id")):
        timed = [{**row, "at": datetime(2026, 1, 1, tzinfo=UTC)} for row in rows]
        source, watermark = rh.collection(timed), rh.Watermark.monotonic(on="at")
        env.register(name, env.from_source(source, watermark=watermark).upserts(key=key))
    return env


def table(rows: list[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """Return the rows that remain of upserts."""
    left: dict[Any, dict[str, Any]] = {}
    for row in rows:
        op = row.pop("op")
        assert op != "update_before"
        left.pop(row[key], None)
        if op != "delete":
            left[row[key]] = row
    return left


JOIN = "SELECT o.order_id, p.name FROM orders o LEFT JOIN products p ON o.product = p.id"
TABLE = "CREATE TABLE out (order_id BIGINT, name STRING, PRIMARY KEY (order_id) NOT ENFORCED)"


@pytest.mark.parametrize("ttl", ["forever", "7d"])
def test_a_join_of_changes_is_written_by_the_key_of_one_side(ttl: str) -> None:
    env = environment()
    env.sql_script(
        f"SET state_ttl = '{ttl}'; {TABLE} WITH ('connector' = 'collect'); INSERT INTO out {JOIN}"
    )
    rows = env.execute("fold").collected["out"].to_pylist()
    assert {key: row["name"] for key, row in table(rows, "order_id").items()} == NAMES


def test_a_store_is_written_by_its_key_and_explain_shows_how(
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = environment()
    env.sql_script(
        f"SET state_ttl = '7d'; {TABLE} WITH ('connector' = 'redis', 'url' = 'redis://localhost:1', "
        f"'key' = 'order:{{order_id}}'); EXPLAIN INSERT INTO out {JOIN}; INSERT INTO out {JOIN}"
    )
    assert "upserts [sql fold " in capsys.readouterr().out
    assert "the newest row of each key, expires after 604800000 ms" in env.explain()


def test_changes_that_a_filter_has_dropped_are_folded() -> None:
    env = environment()
    env.sql_script(
        f"SET state_ttl = 'forever'; {TABLE} WITH ('connector' = 'collect'); "
        f"INSERT INTO out {JOIN} WHERE p.name <> 'tea'"
    )
    rows = env.execute("filtered").collected["out"].to_pylist()
    assert {key: row["name"] for key, row in table(rows, "order_id").items()} == {1: "jam", 2: "jam"}


def test_append_only_rows_are_written_as_they_are() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"{TABLE} WITH ('connector' = 'collect'); INSERT INTO out VALUES (1, 'tea'), (1, 'jam')"
    )
    assert env.execute("append").collected["out"].num_rows == 2


def test_a_sink_without_a_key_is_refused_with_the_way_to_fold() -> None:
    env = environment()
    sink = rh.redis.sink("redis://localhost:1", key="order:{order_id}")
    with pytest.raises(rh.ProgramError, match=r"write \.upserts\(key="):
        env.sql(JOIN, state_ttl="forever").sink_to(sink)
    env.sql(JOIN, state_ttl="forever").upserts(key="order_id").sink_to(sink)


def test_postgresql_takes_the_key_of_the_table() -> None:
    env = environment()
    env.sql_script(
        f"SET state_ttl = 'forever'; {TABLE} WITH ('connector' = 'postgres', 'table' = 'named', "
        f"'url' = 'postgresql://x@localhost:1/x'); INSERT INTO out {JOIN}"
    )
    assert "emits: order_id: int64, name: string, deleted: bool" in env.explain("plan")


@pytest.mark.parametrize(
    "options",
    [
        "'connector' = 'postgres', 'table' = 'o', 'url' = 'postgresql://x@localhost:1/x'",
        "'connector' = 'postgres-cdc', 'hostname' = 'localhost', 'port' = '1', 'username' = 'x', "
        "'password' = 'y', 'database-name' = 'x', 'schema-name' = 's', 'table-name' = 'o', "
        "'slot.name' = 'slot', 'decoding.plugin.name' = 'pgoutput', 'scan.startup.mode' = "
        "'latest-offset', 'debezium.snapshot.mode' = 'never'",
    ],
)
def test_a_captured_table_is_a_table_of_changes(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def changes(table: str, *, url: str, schema: Any = None, **others: Any) -> Any:
        asked.update(others, table=table, url=url)
        rows = [{"id": 1, "c": "a", "op": "snapshot"}, {"id": 1, "c": "b", "op": "update"}]
        return rh.collection([*rows, {"id": 2, "c": "c", "op": "insert"}, {"id": 2, "op": "delete"}])

    monkeypatch.setattr("rheos.connectors.postgres.changes", changes)
    monkeypatch.setattr("rheos.connectors.postgres.flink_tables.changes_of", changes)
    env = rh.Environment(runtime="simulated")
    table = "CREATE TABLE {} (id BIGINT, c STRING{}) WITH (" + options + ");"
    env.sql_script(
        table.format("o", ", PRIMARY KEY (id) NOT ENFORCED")
        + "CREATE TABLE out (n BIGINT) WITH ('connector' = 'collect');"
        "INSERT INTO out SELECT COUNT(*) FROM o"
    )
    assert env.execute("count").collected["out"].to_pylist()[-1]["n"] == 1
    if "cdc" in options:
        assert (asked["table"], asked["url"]) == ("s.o", "postgresql://x:y@localhost:1/x")
        assert (asked["slot"], asked["snapshot"]) == ("slot", False)
    with pytest.raises(rh.ProgramError, match="add PRIMARY KEY"):
        env.sql_script(table.format("keyless", "") + "CREATE VIEW v AS SELECT * FROM keyless")


def test_a_table_of_jdbc_is_written_by_its_key() -> None:
    env = environment()
    script = (
        f"SET state_ttl = 'forever'; {TABLE} WITH ('connector' = 'jdbc', 'table-name' = 'named', "
        f"'url' = '{{}}', 'username' = 'x', 'driver' = 'org.postgresql.Driver'); INSERT INTO out {JOIN}"
    )
    with pytest.raises(rh.ProgramError, match="URL of JDBC for a PostgreSQL"):
        env.sql_script(script.format("jdbc:oracle://localhost:1/x"))
    env = environment()
    env.sql_script(script.format("jdbc:postgresql://localhost:1/x"))
    assert "emits: order_id: int64, name: string, deleted: bool" in env.explain("plan")
