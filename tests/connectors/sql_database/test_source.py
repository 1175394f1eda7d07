"""Rows of tables and queries of SQL databases, read in the order of their key."""

from __future__ import annotations

import importlib
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, SchemaError
from rheos.testing import check_source
from tests.connectors.sql_database.databases import TestDatabase

ON_SERVERS_IF_SLOW = [
    "sqlite",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mariadb", "postgres")),
]
BLOCKS = importlib.import_module("rheos.connectors.sql_database.row_blocks")


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BLOCKS, "_FIRST_ROWS", 3)
    monkeypatch.setattr(BLOCKS, "MAX_ROWS", 4)


def collected(source: Any) -> pa.Table:
    env = rh.Environment(2, runtime="simulated")
    env.from_source(source).collect("rows")
    return env.execute("read").collected["rows"]


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("database", ON_SERVERS_IF_SLOW, indirect=True)
def test_the_source_keeps_the_contract(database: TestDatabase) -> None:
    database.run(
        "CREATE TABLE t (a varchar(9) NOT NULL, b int NOT NULL, n bigint, at date, PRIMARY KEY (a, b))"
    )
    rows = [(f"%k{n % 3}", n, n % 5, f"2026-01-{n + 1:02d}") for n in range(20)]
    rows += [("o''k", 100, 200, "2027-01-01"), ("o''k", 101, -200, "2025-01-01")]
    values = ", ".join(f"('{a}', {b}, {n}, '{at}')" for a, b, n, at in rows)
    database.run(f"INSERT INTO t VALUES {values}", "INSERT INTO t VALUES ('null', 1, NULL, NULL)")
    days = (date(2026, 1, 1), date(2026, 1, 20))
    for how, splits in (
        ({}, 1),
        ({"partition_on": "n", "partitions": 9, "bounds": (0, 4)}, 5),
        ({"partition_on": "at", "partitions": 3, "bounds": days, "columns": ["b", "a"]}, 3),
    ):
        source = rh.sql_database.source("t", url=database.url, **how)  # type: ignore[arg-type]
        assert len(source.splits()) == splits
        of_splits = check_source(source, positions=3, max_rows=(1, 3))
        read = [row for rows_of_split in of_splits.values() for row in rows_of_split]
        found = sorted((row["a"], row["b"]) for row in read)
        assert found == sorted([*((a.replace("''", "'"), b) for a, b, _, _ in rows), ("null", 1)])
        assert "n" not in read[0] or {row["n"] for row in read} == {*range(5), 200, -200, None}
    query = "SELECT b AS k, n AS m FROM t WHERE a LIKE '%k_' AND n < 9;"
    made = rh.sql_database.source(query=query, url=database.url, key="k", schema={"k": int, "m": int})
    asked = check_source(made, positions=3, max_rows=(1, 3))["all rows"]
    assert [(row["k"], row["m"]) for row in asked] == [(n, n % 5) for n in range(20)]


def test_values_have_their_exact_or_declared_types(sqlite: TestDatabase) -> None:
    sqlite.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL(9, 2), n int, at TIMESTAMP)",
        "INSERT INTO t VALUES (1, 0.1, 7, '2026-03-01 12:00:00'), (2, NULL, NULL, NULL)",
    )
    table = collected(rh.sql_database.source("t", url=sqlite.url, schema={"id": int, "n": pa.int8()}))
    assert table.schema.types == [pa.int64(), pa.int8()]
    plain = rh.sql_database.source("t", url=sqlite.url)
    assert plain.schema.types == [pa.int64(), pa.decimal128(9, 2), pa.int64(), pa.timestamp("us")]
    assert [str(value) for value in collected(plain)["price"]] == ["0.10", "None"]


def test_rows_without_a_position_are_errors(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (a TEXT PRIMARY KEY)", "INSERT INTO t VALUES ('x'), (NULL)")
    with pytest.raises(RheosError, match="cannot be a position"):
        collected(rh.sql_database.source("t", url=sqlite.url))
    for query, why in (
        ("SELECT 1 AS k UNION ALL SELECT 1", "have one key"),
        ("SELECT NULL AS k", "cannot be a position"),
    ):
        source = rh.sql_database.source(query=query, url=sqlite.url, key="k", schema={"k": int})
        with pytest.raises(InputError, match=why):
            collected(source)


def test_wrong_arguments_are_errors_with_the_users_line(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, r REAL NOT NULL UNIQUE)")
    sqlite.run("CREATE TABLE keyless (id int)")
    t, query = {"table": "t"}, {"query": "SELECT 1 AS k"}
    wrong: list[tuple[dict[str, Any], type[RheosError], str]] = [
        ({}, ProgramError, "needs a table or a query"),
        ({**t, **query}, ProgramError, "needs a table or a query"),
        ({"table": "no"}, ConfigurationError, "the table no does not exist"),
        ({"table": "keyless"}, ProgramError, "has no primary key"),
        ({**t, "key": "a"}, ProgramError, "no unique key without NULL"),
        ({**t, "key": "r"}, SchemaError, "by which rows cannot be ordered"),
        ({**t, "key": "no"}, SchemaError, "has no column 'no'"),
        ({**t, "columns": []}, ProgramError, "no column to read"),
        ({**t, "options": {"no": 1}}, ProgramError, "the driver does not accept options="),
        ({**query, "key": "k"}, ProgramError, "a query needs schema="),
        ({**query, "schema": {"k": int}}, ProgramError, "a query needs key="),
        ({**query, "schema": {"k": int}, "key": "j"}, SchemaError, "names the column 'j'"),
        ({**query, "schema": {"k": str}, "key": "k"}, SchemaError, "cannot be ordered"),
        ({**t, "partitions": 2}, ProgramError, "need a column"),
        (
            {**t, "partition_on": "id", "partitions": 0, "bounds": (1, 2)},
            ProgramError,
            "is not a number",
        ),
        ({**t, "partition_on": "id", "bounds": (2, 1)}, ProgramError, "the least and the greatest"),
        ({**t, "partition_on": "a", "bounds": (1, 2)}, SchemaError, "does not fit bounds="),
        ({**t, "partition_on": "no", "bounds": (1, 2)}, SchemaError, "names the column 'no'"),
    ]
    for arguments, kind, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            rh.sql_database.source(url=sqlite.url, **arguments)
        assert raised.value.site is not None
        assert raised.value.site.file == __file__


def test_reading_creates_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mistyped.db"
    for read in (rh.sql_database.source, rh.sql_database.lookup):
        with pytest.raises(ConfigurationError, match=r"mistyped\.db of SQLite does not exist"):
            read("t", url=url, key="id")
    assert not list(tmp_path.iterdir())


def test_sql_reads_a_table_of_jdbc_in_partitions(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    sqlite.run(f"INSERT INTO t VALUES {', '.join(f'({n}, NULL)' for n in range(10))}")
    bounds = "'scan.partition.lower-bound' = '2', 'scan.partition.upper-bound' = '7'"
    cases = {"": 10, f", 'scan.partition.column' = 'id', 'scan.partition.num' = '4', {bounds}": 6}
    for options, count in cases.items():
        env = rh.Environment(2, runtime="simulated")
        env.sql_script(
            "CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'jdbc', 'table-name' = 't', "
            f"'scan.fetch-size' = '10', 'url' = 'jdbc:sqlite:{sqlite.folder}/test.db'{options})"
        )
        env.sql("SELECT id FROM t").collect("rows")
        assert env.execute("read").collected["rows"].num_rows == count
