"""Rows of tables and queries of DuckDB, read in the order of their key, and looked up by key."""

from __future__ import annotations

import importlib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, SchemaError
from rheos.testing import check_source
from tests.connectors.duckdb.tables import run

SOURCE = importlib.import_module("rheos.connectors.duckdb.source")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "test.duckdb"
    run(
        path,
        "CREATE TABLE t (a VARCHAR, b DATE, n UBIGINT, e ENUM ('x', 'y'), PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT 'k%' || (i % 3), DATE '2026-01-01' + CAST(i AS INTEGER), i, "
        "IF(i % 2 = 0, 'x', 'y') FROM range(7) r(i)",
        "CREATE TABLE users (id INTEGER, region VARCHAR, name VARCHAR)",
        "INSERT INTO users VALUES (1, 'eu', 'ada'), (1, 'us', 'bob'), (2, 'eu', 'cyd'), "
        "(1, 'eu', NULL)",
    )
    return path


def collected(source: Any) -> list[dict[str, Any]]:
    env = rh.Environment(runtime="simulated")
    env.from_source(source).collect("rows")
    rows: list[dict[str, Any]] = env.execute("read").collected["rows"].to_pylist()
    return rows


@pytest.mark.slow
def test_the_source_keeps_the_contract(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCE, "_FIRST_ROWS", 2)
    monkeypatch.setattr(SOURCE, "_MAX_ROWS", 3)
    query = "SELECT n AS k, e FROM t WHERE n < 5;"
    for made, count in (
        (rh.duckdb.source("t", path=path), 7),
        (rh.duckdb.source(query=query, path=path, key="k"), 5),
    ):
        rows = check_source(made, positions=3, max_rows=(1, 3))["all rows"]
        assert len(rows) == count


def test_rows_are_read_in_blocks_in_the_order_of_the_key(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SOURCE, "_FIRST_ROWS", 3)
    rows = collected(rh.duckdb.source("t", path=path, columns=["n", "b", "e"], schema={"n": pa.int8()}))
    assert [row["n"] for row in rows] == [0, 3, 6, 1, 4, 2, 5]
    assert rows[1] == {"n": 3, "b": date(2026, 1, 4), "e": "y"}


def test_keys_that_are_no_positions_are_errors(path: Path) -> None:
    for query, why in (
        ("SELECT 1 AS k UNION ALL SELECT 1", "have one key"),
        ("SELECT NULL::INTEGER AS k UNION ALL SELECT 1", "cannot be a position"),
    ):
        with pytest.raises(InputError, match=why):
            collected(rh.duckdb.source(query=query, path=path, key="k"))


@pytest.mark.parametrize(
    "column",
    ["UHUGEINT", "UHUGEINT[]", "TIMETZ", "BIT", "BIGNUM", "VARIANT", "STRUCT(a VARIANT)", "INTERVAL"],
)
def test_types_that_would_change_are_refused(path: Path, column: str) -> None:
    run(path, f"CREATE TABLE wide (n INT PRIMARY KEY, v {column})")
    with pytest.raises(
        SchemaError, match=r"the column 'v' .* which cannot be read\n.*cast it in a query"
    ):
        rh.duckdb.source("wide", path=path)
    rh.duckdb.source("wide", path=path, columns="n")
    rh.duckdb.source(query="SELECT n, v::VARCHAR AS v FROM wide", key="n", path=path)


def test_a_number_beyond_the_digits_of_a_decimal_is_an_error(path: Path) -> None:
    run(path, 'CREATE TABLE wide (n INT PRIMARY KEY, v HUGEINT, "BIT" STRUCT("BIT" INT))')
    run(path, "INSERT INTO wide VALUES (1, 1" + "0" * 37 + ", NULL)")
    source = rh.duckdb.source("wide", path=path)
    assert collected(source)[0]["v"] == Decimal(10) ** 37
    run(path, f"INSERT INTO wide VALUES (2, {2**127 - 1}, NULL)")
    with pytest.raises(InputError, match="does not fit decimal128"):
        collected(source)


def test_rows_are_looked_up_by_several_columns(path: Path) -> None:
    env = rh.Environment(runtime="simulated")
    asked = [{"id": 1, "r": "eu"}, {"id": 2, "r": "EU"}, {"id": 2**40, "r": "eu"}, {"id": 2, "r": "eu"}]
    users = rh.duckdb.lookup("users", path=path, key=["id", "region"])
    env.from_source(rh.collection(asked)).lookup(users, on=["id", "r"]).collect("rows")
    found = env.execute("look up").collected["rows"].to_pylist()
    names = sorted((row["id"], row["r"], str(row["name"])) for row in found)
    nobody = [(2, "EU", "None"), (2**40, "eu", "None")]
    assert names == sorted([(1, "eu", "ada"), (1, "eu", "None"), (2, "eu", "cyd"), *nobody])


@pytest.mark.slow
def test_sql_writes_reads_and_looks_up(path: Path) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        f"""
        CREATE TABLE rows_of_t (a STRING, n BIGINT) WITH (
            'connector' = 'duckdb', 'table' = 't', 'path' = '{path}');
        CREATE TABLE users (id BIGINT, name STRING) WITH (
            'connector' = 'duckdb', 'table' = 'users', 'path' = '{path}');
        CREATE TABLE names (n BIGINT, name STRING, PRIMARY KEY (n) NOT ENFORCED) WITH (
            'connector' = 'duckdb', 'table' = 'names', 'path' = '{path}');
        INSERT INTO names SELECT r.n, u.name FROM rows_of_t AS r
            JOIN users FOR SYSTEM_TIME AS OF PROCTIME() AS u ON r.n = u.id WHERE u.id = 2;
        """
    )
    env.execute("names")
    assert run(path, "FROM names") == [(2, "cyd")]


def test_wrong_arguments_are_errors_with_the_users_line(path: Path, tmp_path: Path) -> None:
    t, query = {"table": "t"}, {"query": "SELECT 1 AS k, 1.5::DOUBLE AS r"}
    wrong: list[tuple[dict[str, Any], type[RheosError], str]] = [
        ({}, ProgramError, "needs a table or a query"),
        ({**t, "path": tmp_path / "mistyped"}, ConfigurationError, "mistyped does not exist"),
        ({"table": "no"}, ConfigurationError, "Table with name no does not exist"),
        ({"table": "users"}, ProgramError, "has no primary key"),
        ({**t, "key": "e", "columns": []}, ProgramError, "no column to read"),
        ({**t, "columns": ["m"]}, SchemaError, "has no column 'm'"),
        (query, ProgramError, "has no primary key"),
        ({**query, "key": "r"}, SchemaError, "by which rows cannot be ordered"),
        ({"query": "SELEC 1", "key": "k"}, ConfigurationError, "syntax error"),
    ]
    for arguments, kind, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            rh.duckdb.source(**{"path": path, **arguments})
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
    assert not (tmp_path / "mistyped").exists()
    with pytest.raises(ProgramError, match="no column to look up"):
        rh.duckdb.lookup("users", path=path, key=["id", "region", "name"])
    with pytest.raises(InputError, match="does not fit int8"):
        collected(
            rh.duckdb.source(query="SELECT 300 AS k", path=path, key="k", schema={"k": pa.int8()})
        )
