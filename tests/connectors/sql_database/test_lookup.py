"""Rows of tables in SQL databases, looked up by key."""

from __future__ import annotations

import importlib
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.sql_database.address import DatabaseSystem
from rheos.core.connectors.lookup import LookupContext
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    SchemaError,
    UnavailableError,
)
from tests.connectors.mysql.databases import new_database as new_mariadb
from tests.connectors.postgres.databases import new_database as new_postgres
from tests.connectors.sql_database.databases import TestDatabase

ON_SERVERS_IF_SLOW = [
    "sqlite",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mariadb", "postgres")),
]


def asked(lookup: Any, keys: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Look up keys; return the indexes of the keys, and the rows found for them."""
    lookup.validate(keys.schema)
    client = pickle.loads(pickle.dumps(lookup)).open(LookupContext("users", 0, keys.schema))
    try:
        found = client.fetch(keys)
    finally:
        client.close()
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    return sorted(zip(found.of.to_pylist(), rows, strict=True), key=repr)


@pytest.mark.parametrize("database", ON_SERVERS_IF_SLOW, indirect=True)
def test_rows_are_found_by_one_column_or_several(database: TestDatabase) -> None:
    database.run(
        "CREATE TABLE users (id int PRIMARY KEY, name varchar(3), n bigint)",
        "INSERT INTO users VALUES (1, 'ada', 10), (2, 'bob', NULL), (3, 'ada', 30)",
    )
    by_id = rh.sql_database.lookup("users", url=database.url, key="id")
    assert by_id.schema.names == ["name", "n"]
    assert asked(by_id, pa.record_batch({"user": pa.array([3, 9, 1, 2**70 // 2**10])})) == [
        (0, ("ada", 30)),
        (2, ("ada", 10)),
    ]
    several = rh.sql_database.lookup("users", url=database.url, key="name", columns=["id", "name"])
    names = pa.record_batch({"n": ["bob", "ada", "ADA", "ada ", "a\"'\\", "a\0", "%s?"]})
    assert asked(several, names) == [(0, (2, "bob")), (1, (1, "ada")), (1, (3, "ada"))]
    both = rh.sql_database.lookup("users", url=database.url, key=["name", "n"], columns="id")
    keys = pa.record_batch({"n": ["ada", "ada", "bob"], "s": pa.array([30, 20, 1], pa.uint64())})
    assert asked(both, keys) == [(0, (3,))]
    many = pa.record_batch({"id": pa.array(range(-2000, 3))})
    assert [of for of, _ in asked(by_id, many)] == [2001, 2002]


EXACT: dict[DatabaseSystem, dict[str, tuple[str, str, Any]]] = {
    DatabaseSystem.SQLITE: {
        "a": ("INTEGER", str(2**63 - 1), 2**63 - 1),
        "b": ("BOOLEAN", "1", True),
        "c": ("REAL", "0.1", 0.1),
        "d": ("DECIMAL(15, 2)", "1234567890123.45", Decimal("1234567890123.45")),
        "e": ("NUMERIC", "0.5", 0.5),
        "f": ("BLOB", "x'00ff'", b"\x00\xff"),
        "g": ("DATE", "'2026-03-01'", date(2026, 3, 1)),
        "h": ("TIMESTAMP", "'2026-03-01 12:00:00.000001'", datetime(2026, 3, 1, 12, 0, 0, 1)),
        "i": ("TIME", "'12:00:00.5'", time(12, 0, 0, 500_000)),
        "j": ("TEXT", "'ü%s'", "ü%s"),
    },
    DatabaseSystem.MYSQL: {
        "a": ("BIGINT UNSIGNED", str(2**64 - 1), 2**64 - 1),
        "b": ("TINYINT UNSIGNED", "255", 255),
        "c": ("FLOAT", "16777215", 16777215.0),
        "d": ("DECIMAL(38, 2)", "-999999999999999999999999999999999999.99", None),
        "e": ("DECIMAL(65, 1)", f"{'9' * 64}.5", f"{'9' * 64}.5"),
        "f": ("BLOB", "x'00ff'", b"\x00\xff"),
        "g": ("DATE", "'1000-01-01'", date(1000, 1, 1)),
        "h": ("DATETIME(6)", "'2026-03-01 12:00:00.000001'", datetime(2026, 3, 1, 12, 0, 0, 1)),
        "i": ("TIME", "'-838:59:59'", -timedelta(hours=838, minutes=59, seconds=59)),
        "j": ("ENUM('ü%s')", "'ü%s'", "ü%s"),
        "k": ("TIMESTAMP", "'2026-03-01 12:00:00'", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        "l": ("JSON", "'{\"a\": 1.0}'", '{"a": 1.0}'),
        "m": ("YEAR", "2026", 2026),
    },
    DatabaseSystem.POSTGRES: {
        "a": ("bigint", str(-(2**63)), -(2**63)),
        "b": ("boolean", "true", True),
        "c": ("real", "0.1", pa.scalar(0.1, pa.float32()).as_py()),
        "d": ("numeric(38, 2)", "-999999999999999999999999999999999999.99", None),
        "e": ("numeric", f"{'9' * 64}.50", f"{'9' * 64}.50"),
        "f": ("bytea", "'\\x00ff'", b"\x00\xff"),
        "g": ("date", "'0001-01-01'", date(1, 1, 1)),
        "h": ("timestamp", "'2026-03-01 12:00:00.000001'", datetime(2026, 3, 1, 12, 0, 0, 1)),
        "i": ("time", "'12:00:00.5'", time(12, 0, 0, 500_000)),
        "j": ("jsonb", "'{\"a\": 1.0}'", '{"a": 1.0}'),
        "k": ("timestamptz", "'2026-03-01 12:00+01'", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        "l": ("int[]", "'{1,2}'", "{1,2}"),
        "m": ("uuid", f"'{'0' * 8}-0000-0000-0000-{'0' * 12}'", f"{'0' * 8}-0000-0000-0000-{'0' * 12}"),
    },
}
"""Columns by database: the type, a value in SQL, and the value that is read."""


@pytest.mark.parametrize("database", ON_SERVERS_IF_SLOW, indirect=True)
def test_values_arrive_as_the_database_has_them(database: TestDatabase) -> None:
    columns = EXACT[database.backend]
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    values = ", ".join(sql for _, sql, _ in columns.values())
    database.run(
        f"CREATE TABLE t (id int PRIMARY KEY, {declared})",
        f"INSERT INTO t VALUES (1, {values})",
        "INSERT INTO t (id) VALUES (2)",
    )
    found = asked(
        rh.sql_database.lookup("t", url=database.url, key="id"), pa.record_batch({"id": [1, 2]})
    )
    exact = tuple(Decimal(sql) if value is None else value for _, sql, value in columns.values())
    if database.backend is DatabaseSystem.MYSQL:
        assert found[1][1][:10] == (None,) * 10  # Its first TIMESTAMP is never NULL.
    else:
        assert found[1] == (1, (None,) * len(columns))
    assert found[0] == (0, exact)


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("INTEGER", "1.5", "float: '1.5'"),
        ("INTEGER", "'many'", "str: 'many'"),
        ("BOOLEAN", "2", "0 or 1"),
        ("TEXT", "x'00'", "bytes"),
        ("BLOB", "'text'", "str"),
        ("REAL", "'none'", "str"),
        ("NUMERIC", str(2**53 + 1), "not exactly|range exactly"),
        ("DECIMAL(4, 1)", "0.25", "decimal128"),
        ("DATE", "'2026-02-30'", "2026-02-30"),
        ("DATE", "20260230", "int"),
        ("TIMESTAMP", "'2026-03-01 12:00:00.0000001'", "0000001"),
        ("TIMESTAMP", "'2026-03-01 12:00:00Z'", "zone"),
        ("TIME", "'25:00:00'", "25:00:00"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_an_error(
    sqlite: TestDatabase, kind: str, value: str, why: str
) -> None:
    sqlite.run(f"CREATE TABLE t (id int, a {kind})", f"INSERT INTO t VALUES (1, {value})")
    lookup = rh.sql_database.lookup("t", url=sqlite.url, key="id")
    with pytest.raises(InputError, match=f"the column 'a' of t has a value that does not fit.*({why})"):
        asked(lookup, pa.record_batch({"id": [1]}))


def test_columns_have_declared_types(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id text, a, at text)", "INSERT INTO t VALUES ('x', 1, '2026-03-01')")
    url = sqlite.url
    declared = {"a": pa.int8(), "at": date}
    made = rh.sql_database.lookup("t", url=url, key="id", schema=declared)
    assert made.schema == pa.schema({"a": pa.int8(), "at": pa.date32()})
    assert asked(made, pa.record_batch({"id": ["x"]})) == [(0, (1, date(2026, 3, 1)))]
    required = pa.schema([pa.field("a", pa.float32(), False)])
    lost = rh.sql_database.lookup("t", url=url, key="id", schema=required)
    sqlite.run("INSERT INTO t VALUES ('null', NULL, ''), ('0.1', 0.1, '')")
    for key, why in (("null", "is NULL in a row"), ("0.1", "more digits")):
        with pytest.raises(InputError, match=why):
            asked(lost, pa.record_batch({"id": [key]}))


def test_wrong_arguments_are_errors_with_the_users_line(
    sqlite: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.run("CREATE TABLE t (id int, a real, b)", "INSERT INTO t VALUES (1, 1, 1), (1, 2, 2)")
    url = sqlite.url
    wrong: list[tuple[dict[str, Any], type[RheosError], str]] = [
        ({"table": "no", "key": "id"}, ConfigurationError, "the table no does not exist"),
        ({"table": "t", "key": "no"}, SchemaError, "the table t has no column 'no'"),
        ({"table": "t", "key": "id"}, SchemaError, "'b' of t has a type that cannot be read"),
        ({"table": "t", "key": []}, ProgramError, "does not name columns"),
        ({"table": "t", "key": "a", "columns": ["id"]}, SchemaError, "which is no key"),
        ({"table": "t", "key": "id", "columns": []}, ProgramError, "no column to look up is named"),
        (
            {"table": "t", "key": "id", "schema": {"b": list[int]}},
            SchemaError,
            "cannot be read as list",
        ),
    ]
    for arguments, kind, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            rh.sql_database.lookup(url=url, **arguments)
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
    lookup = rh.sql_database.lookup("t", url=url, key="id", columns="a")
    with pytest.raises(SchemaError, match=r"the key 'id' of the table t is int64, but .* string"):
        lookup.validate(pa.schema({"id": pa.string()}))
    module = importlib.import_module("rheos.connectors.sql_database.lookup")
    monkeypatch.setattr(module, "MAX_FOUND", 1)
    with pytest.raises(InputError, match="1 keys have more than 1 rows in the table t"):
        asked(lookup, pa.record_batch({"id": [1]}))


def test_a_stream_looks_rows_up(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE pages (page text, topic text)", "INSERT INTO pages VALUES ('a', 'x')")
    env = rh.Environment(runtime="simulated")
    visits = env.from_source(rh.collection([{"page": page} for page in "aba"]))
    pages = rh.sql_database.lookup("pages", url=sqlite.url, key="page")
    visits.lookup(pages, on="page", cache_for="10m", cache_keys=10).collect("out")
    found = env.execute("lookups").collected["out"].to_pylist()
    assert sorted(map(repr, found)) == sorted(
        repr({"page": page, "topic": topic}) for page, topic in [("a", "x"), ("a", "x"), ("b", None)]
    )


def test_an_outage_is_an_error_that_is_retried(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id int, a text)", "INSERT INTO t VALUES (1, 'a')")
    lookup = rh.sql_database.lookup("t", url=sqlite.url, key="id")
    keys = pa.record_batch({"id": pa.array([1])})
    client = lookup.open(LookupContext("t", 0, keys.schema))
    sqlite.run("ALTER TABLE t RENAME TO u")
    with pytest.raises(ConfigurationError, match=r"the table t cannot be read.*no such table"):
        client.fetch(keys)
    sqlite.run("ALTER TABLE u RENAME TO t")
    assert client.fetch(keys).rows.to_pylist() == [{"a": "a"}]
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mariadb_server", "postgres_server"])
def test_a_lookup_continues_after_an_outage(name: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(name)
    made = (new_mariadb if name == "mariadb_server" else new_postgres)(server)
    made.run("CREATE TABLE away (id int PRIMARY KEY, a text)", "INSERT INTO away VALUES (1, 'a')")
    lookup = rh.sql_database.lookup("away", url=made.url, key="id")
    keys = pa.record_batch({"id": pa.array([1])})
    client = lookup.open(LookupContext("away", 0, keys.schema))
    assert client.fetch(keys).rows.to_pylist() == [{"a": "a"}]
    server.kill()
    for _ in range(2):
        with pytest.raises(UnavailableError):
            client.fetch(keys)
    server.start()
    assert client.fetch(keys).rows.to_pylist() == [{"a": "a"}]
    client.close()


def looked_up_in_sql(url: str, options: str, join: str) -> list[str]:
    env = rh.Environment(runtime="simulated")
    env.register("visits", env.from_source(rh.collection([{"id": n, "page": n % 3} for n in range(4)])))
    env.sql_script(
        "CREATE TABLE pages (page INT, topic STRING, n BIGINT) WITH ('connector' = 'jdbc', "
        f"'url' = 'jdbc:{url.replace('///', '')}', 'table-name' = 'pages'{options})"
    )
    env.sql(f"SELECT v.id, p.page, p.topic FROM visits AS v {join}").collect("out")
    rows = env.execute("lookups").collected["out"].to_pylist()
    return sorted(" ".join(map(str, row.values())) for row in rows)


NOW = "pages FOR SYSTEM_TIME AS OF PROCTIME() AS p ON v.page = p.page"


def test_sql_looks_rows_up_in_a_table_of_jdbc(sqlite: TestDatabase) -> None:
    sqlite.run(
        "CREATE TABLE pages (page int, topic text, n int)",
        "INSERT INTO pages VALUES (0, 'a', 7), (1, 'b', 8)",
    )
    cached = ", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-write' = '10 min'"
    cached += ", 'lookup.partial-cache.max-rows' = '5', 'lookup.max-retries' = '3'"
    left = looked_up_in_sql(sqlite.url, cached, f"LEFT JOIN {NOW}")
    assert left == ["0 0 a", "1 1 b", "2 None None", "3 0 a"]
    inner = looked_up_in_sql(sqlite.url, "", f"JOIN {NOW} AND p.n = 8")
    assert inner == ["1 1 b"]
    assert looked_up_in_sql(sqlite.url, "", f"JOIN {NOW} AND p.n < v.id + 5") == ["3 0 a"]


@pytest.mark.parametrize(
    ("options", "join", "why"),
    [
        (", 'lookup.cache' = 'FULL'", NOW, "the values of 'lookup.cache' are none, partial"),
        (", 'lookup.cache.max-rows' = '5'", NOW, "needs the time for which it keeps rows"),
        (", 'lookup.cache.ttl' = 'soon'", NOW, "soon"),
        (", 'lookup.cache.ttls' = '1 h'", NOW, "did you mean 'lookup.cache.ttl'"),
        (", 'lookup.cache.ttl' = '1 h', 'lookup.cache.max-rows' = 'x'", NOW, "not a number of keys"),
        ("", NOW.replace("PROCTIME()", "v.id"), "as they are now, not as of another time"),
        ("", NOW.replace("v.page =", "1 <"), "no condition compares a column of p"),
        ("", NOW.replace("p.page", "p.nothing"), "no condition compares a column of p"),
    ],
)
def test_a_wrong_lookup_in_sql_is_refused(
    sqlite: TestDatabase, options: str, join: str, why: str
) -> None:
    sqlite.run("CREATE TABLE pages (page int, topic text, n int)")
    with pytest.raises(ProgramError) as raised:
        looked_up_in_sql(sqlite.url, options, f"JOIN {join}")
    assert why in str(raised.value)
