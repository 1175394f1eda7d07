"""Pipelines of changes in SQL: captured tables are joined, and written by their key."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import rheos as rh

Row = dict[str, Any]
KEYS = {"orders": "id", "payments": "order_id", "shipments": "order_id"}
SCRIPT = """
CREATE TABLE orders (id BIGINT, customer STRING, cents BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'files', 'path' = '{folder}/orders.jsonl', 'format' = 'debezium-json');
CREATE TABLE payments (order_id BIGINT, method STRING, PRIMARY KEY (order_id) NOT ENFORCED)
WITH ('connector' = 'files', 'path' = '{folder}/payments.jsonl', 'format' = 'debezium-json');
CREATE TABLE shipments (order_id BIGINT, city STRING, PRIMARY KEY (order_id) NOT ENFORCED)
WITH ('connector' = 'files', 'path' = '{folder}/shipments.jsonl', 'format' = 'debezium-json');
CREATE TABLE state (id BIGINT, customer STRING, cents BIGINT, method STRING, city STRING,
    PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'collect');
SET state_ttl = 'forever';
INSERT INTO state {query};
"""
QUERY = """
SELECT o.id, o.customer, o.cents, p.method, s.city
FROM orders o LEFT JOIN payments p ON o.id = p.order_id LEFT JOIN shipments s ON o.id = s.order_id
"""


def drawn(random: random.Random, name: str) -> tuple[list[Row], list[Row]]:
    """Return the records of a table's changes, and its rows at the end. Keys come back after their
    deletion, and updates change keys.
    """
    key, rows, records = KEYS[name], dict[int, Row](), list[Row]()
    for number in range(60):
        id = random.randrange(8)
        before = rows.pop(id, None)
        if before is not None and random.random() < 0.4:
            records.append({"before": before, "after": None, "op": "d"})
            continue
        to = id
        if before is not None and random.random() < 0.2:
            to = next((each for each in range(8, 16) if each not in rows), id)
        after: Row = {key: to}
        match name:
            case "orders":
                after |= {"customer": f"c{number % 5}", "cents": number}
            case "payments":
                after |= {"method": random.choice(["card", None])}
            case _:
                after |= {"city": f"city {number}"}
        rows[to] = after
        records.append({"before": before, "after": after, "op": "c" if before is None else "u"})
        if name == "orders" and number == 20:
            rows.clear()
            records.append({"before": None, "after": None, "op": "t"})
    return records, list(rows.values())


def written(folder: Path, seed: int) -> Mapping[str, list[Row]]:
    """Write the changes of all tables, and return the rows at the end."""
    draw, tables = random.Random(seed), {}
    for name in KEYS:
        records, tables[name] = drawn(draw, name)
        lines = "".join(json.dumps(each) + "\n" for each in records)
        (folder / f"{name}.jsonl").write_text(lines)
    return tables


def queried(tables: Mapping[str, list[Row]], query: str) -> list[tuple[Any, ...]]:
    """Return the result that DuckDB computes from the rows at the end."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, pa.Table.from_pylist(rows))
        return sorted(connection.sql(query).fetchall(), key=repr)


def remaining(rows: list[Row], key: str) -> list[tuple[Any, ...]]:
    """Return the rows that remain after upserts."""
    left: dict[Any, tuple[Any, ...]] = {}
    for row in rows:
        op = row.pop("op")
        left.pop(row[key], None)
        if op != "delete":
            left[row[key]] = tuple(row.values())
    return sorted(left.values(), key=repr)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_joined_changes_become_the_join_of_the_final_tables(
    seed: int, parallelism: int, tmp_path: Path
) -> None:
    tables = written(tmp_path, seed)
    env = rh.Environment(parallelism=parallelism, runtime="simulated", batch_rows=7)
    env.sql_script(SCRIPT.format(folder=tmp_path, query=QUERY))
    rows = env.execute("orders").collected["state"].to_pylist()
    assert remaining(rows, "id") == queried(tables, QUERY)


@pytest.mark.spark
@pytest.mark.parametrize("runtime", ["batch", "continuous"])
def test_joined_changes_are_the_same_on_spark(runtime: Any, tmp_path: Path) -> None:
    tables = written(tmp_path, 1)
    env = rh.Environment(parallelism=2, runtime=runtime)
    env.sql_script(SCRIPT.format(folder=tmp_path, query=QUERY))
    rows = env.execute("orders").collected["state"].to_pylist()
    assert remaining(rows, "id") == queried(tables, QUERY)


def test_a_table_of_changes_without_a_key_is_a_changelog_of_whole_rows(tmp_path: Path) -> None:
    records = [
        {"before": None, "after": {"name": "tea", "n": 1}, "op": "c"},
        {"before": None, "after": {"name": "tea", "n": 1}, "op": "c"},
        {"before": {"name": "tea", "n": 1}, "after": {"name": "tea", "n": 5}, "op": "u"},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"CREATE TABLE t (name STRING, n BIGINT) WITH ('connector' = 'files', 'path' = "
        f"'{tmp_path}/t.jsonl', 'format' = 'debezium-json'); CREATE TABLE out (name STRING, s BIGINT) "
        "WITH ('connector' = 'collect'); INSERT INTO out SELECT name, SUM(n) AS s FROM t GROUP BY name"
    )
    assert env.execute("sums").collected["out"].to_pylist()[-1]["s"] == 6


@pytest.mark.parametrize("format", ["debezium", "canal", "maxwell", "ogg"])
def test_changes_are_written_to_files_as_records(format: str, tmp_path: Path) -> None:
    tables = written(tmp_path, 5)
    env = rh.Environment(runtime="simulated")
    columns = "id BIGINT, customer STRING, cents BIGINT, PRIMARY KEY (id) NOT ENFORCED"
    of = f"WITH ('connector' = 'files', 'path' = '{tmp_path}/{{}}', 'format' = '{{}}-json')"
    read = f"CREATE TABLE {{}} ({columns}) {of}; "
    env.sql_script(
        read.format("orders", "orders.jsonl", "debezium")
        + read.format("copy", "copy", format)
        + "INSERT INTO copy SELECT * FROM orders"
    )
    env.execute("copy")
    again = rh.Environment(runtime="simulated")
    again.sql_script(
        read.format("copy", "copy", format)
        + f"CREATE TABLE out ({columns}) WITH ('connector' = 'collect'); "
        "INSERT INTO out SELECT * FROM copy"
    )
    rows = again.execute("read").collected["out"].to_pylist()
    assert remaining(rows, "id") == queried(tables, "SELECT id, customer, cents FROM orders")


def test_a_bad_record_is_an_error_with_its_line_or_is_skipped(tmp_path: Path) -> None:
    lines = ['{"op": "c", "after": {"id": 1}}', '{"op": "d"}', '{"op": "c", "after": {"id": 2}}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    table = (
        "CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}/t.jsonl', 'format' = 'debezium-json'{{}}); CREATE TABLE out (id BIGINT) "
        "WITH ('connector' = 'collect'); INSERT INTO out SELECT id FROM t"
    )
    env = rh.Environment(runtime="simulated")
    env.sql_script(table.format(""))
    with pytest.raises(rh.InputError, match=r"t\.jsonl:2.*a deletion needs 'before'"):
        env.execute("fail")
    env = rh.Environment(runtime="simulated")
    env.sql_script(table.format(", 'debezium-json.ignore-parse-errors' = 'true'"))
    assert env.execute("skip").collected["out"].column("id").to_pylist() == [1, 2]
