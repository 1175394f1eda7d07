"""Tables of SQL databases have each row once, whatever fails, and contain the values that were written.

The invariants SL1 to SL7 are in docs/protocols/sql-database-sink.md.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.sql_database import ledger
from rheos.connectors.sql_database.address import DatabaseSystem
from rheos.connectors.sql_database.ledger_commit import CommitEpoch
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.sql_database import killed_commits
from tests.connectors.sql_database.databases import Job, TestDatabase
from tests.connectors.sql_database.killed_commits import DEATHS

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64()})
CHANGES = pa.schema({"k": pa.string(), "n": pa.int64(), "gone": pa.bool_()})


# --- what a table contains --------------------------------------------------------------------------


ON_SERVERS_IF_SLOW = [
    "sqlite",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mariadb", "postgres")),
]


@pytest.mark.parametrize("database", ON_SERVERS_IF_SLOW, indirect=True)
def test_the_sink_keeps_the_contract(database: TestDatabase) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = name.replace("-", "_")
        return rh.sql_database.sink(table, url=database.url), lambda: database.table(table)

    exact: dict[DatabaseSystem, set[str]] = {
        DatabaseSystem.SQLITE: set(),
        DatabaseSystem.MYSQL: {"decimal"},
        DatabaseSystem.POSTGRES: {"decimal", "timestamp"},
    }
    stored = exact[database.backend] | {"int64", "float64", "string", "binary", "local_timestamp"}
    assert stored <= set(check_sink(make))


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bools": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "middle": (pa.int32(), [-(2**31), 2**31 - 1]),
    "large": (pa.int64(), [-(2**63), 2**63 - 1]),
    "unsigned": (pa.uint32(), [0, 2**32 - 1]),
    "float": (pa.float32(), [1.5, -0.1]),
    "double": (pa.float64(), [1e308, -5e-324]),
    "decimal": (
        pa.decimal128(38, 10),
        [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.1")],
    ),
    "text": (pa.string(), ["é語\U0001f600 %s %% 'quoted' \\n", " blanks "]),
    "bytes": (pa.binary(), [b"\0\xff", b""]),
    "day": (pa.date32(), [date(1000, 1, 1), date(9999, 12, 31)]),
    "at": (
        pa.timestamp("us"),
        [datetime(1000, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    ),
    "moment": (
        pa.timestamp("us", "UTC"),
        [datetime(1971, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)],
    ),
    "hour": (pa.time64("us"), [time(0, 0), time(23, 59, 59, 999_999)]),
}


@pytest.mark.parametrize("how", ["created", "declared"])
def test_values_arrive_unchanged(database: TestDatabase, how: str) -> None:
    """The extremes of each type, in new tables, and in columns that a user may have declared."""
    kinds = dict(VALUES)
    if database.backend is DatabaseSystem.SQLITE:
        kinds.pop("decimal")
    if database.backend is not DatabaseSystem.POSTGRES:
        kinds.pop("moment")
    if how == "declared":
        declared = {
            "large": "bigint",
            "text": "varchar(100)",
            "at": {"mysql": "datetime(6)", "postgresql": "timestamp"}.get(database.backend, "datetime"),
        }
        kinds = {name: kinds[name] for name in declared}
        database.run(f"CREATE TABLE t ({', '.join(f'{n} {kind}' for n, kind in declared.items())})")
    schema = pa.schema({name: kind for name, (kind, _) in kinds.items()})
    rows = list(zip(*(values for _, values in kinds.values()), strict=True))
    Job(database, schema).put(*rows, tuple(None for _ in schema))
    found = database.table("t")
    for row, expected in zip(found, [*rows, tuple(None for _ in schema)], strict=True):
        for (name, got), value in zip(row.items(), expected, strict=True):
            match got, value:
                case float(), float():
                    assert math.isclose(got, value, rel_tol=1e-6), name
                case _, time():  # PyMySQL returns times as durations.
                    assert str(got).rjust(8, "0") == str(value), name
                case _:
                    assert got == value, name


def test_the_last_row_of_each_key_is_kept_and_deletions_delete(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (k varchar(20) PRIMARY KEY, n bigint, seen varchar(9) DEFAULT 'new')")
    database.run("INSERT INTO t VALUES ('a', 0, 'before'), ('b', 0, 'before'), ('z', 26, 'before')")
    job = Job(database, CHANGES, key="k", changes=True)
    job.put(("a", 1, False), ("c", 1, False), ("a", 2, False), ("b", None, True), ("d", 1, False))
    assert database.rows("SELECT * FROM t ORDER BY k") == [
        ("a", 2, "before"),
        ("c", 1, "new"),
        ("d", 1, "new"),
        ("z", 26, "before"),
    ]
    job.put(*((f"many {n}", n, False) for n in range(2500)), ("c", None, True))
    job.put(*((f"many {n}", None, True) for n in range(2500)), ("d", 2, False), ("d", None, True))
    assert database.rows("SELECT k, n FROM t ORDER BY k") == [("a", 2), ("z", 26)]


def test_keys_of_several_columns(database: TestDatabase) -> None:
    schema = pa.schema({"k": pa.string(), "n": pa.int64(), "v": pa.string(), "gone": pa.bool_()})
    job = Job(database, schema, key=["k", "n"], changes=True)
    job.put(("a", 1, "x", False), ("a", 2, "x", False), ("A", 1, "x", False), ("a ", 1, "x", False))
    job.put(("a", 1, "y", False), ("a", 2, None, True))
    found = database.rows("SELECT k, n, v FROM t")
    assert sorted(found) == [("A", 1, "x"), ("a", 1, "y"), ("a ", 1, "x")]


def test_a_table_of_keys_alone(database: TestDatabase) -> None:
    job = Job(database, pa.schema({"k": pa.string(), "gone": pa.bool_()}), key="k", changes=True)
    job.put(("a", False), ("b", False))
    job.put(("a", False), ("b", True))
    assert database.rows("SELECT k FROM t") == [("a",)]


def test_names_are_quoted(database: TestDatabase) -> None:
    table = 'sel"ect` %s'
    other = "n n" if database.backend is DatabaseSystem.MYSQL else "%(n)s"
    job = Job(database, pa.schema({"order by": pa.string(), other: pa.int64()}), table, key="order by")
    job.put(("a", 1), ("b'; DROP TABLE x", 2))
    job.put(("a", 3))
    found = sorted(map(tuple, (row.values() for row in database.table(table))))
    assert found == [("a", 3), ("b'; DROP TABLE x", 2)]


# --- once ------------------------------------------------------------------------------------------


def test_rows_are_visible_after_their_checkpoint_and_once(database: TestDatabase) -> None:
    job = Job(database, SCHEMA)
    first, second = job.stage(("a", 1), ("b", 2)), job.stage(("c", 3))
    assert database.rows("SELECT * FROM t") == []
    job.own.commit(first)
    job.own.commit(first)
    job.driver().commit([*second, *first])
    assert sorted(database.rows("SELECT * FROM t")) == [("a", 1), ("b", 2), ("c", 3)]
    [row] = database.rows("SELECT checkpoint, row_count FROM rheos_ledger")
    assert row == (2, 3)
    assert job.stage() == [], "an epoch without rows"


@pytest.mark.parametrize("lost", ["before", "after"])
def test_the_ledger_decides_after_a_lost_answer(
    lost: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(database, SCHEMA)
    job.put(("a", 1))
    staged, right = job.stage(("b", 2)), ledger.execute_statement

    def fails(connection: Any, table: Any, statement: Any, put: Any) -> Any:
        if isinstance(statement, CommitEpoch):
            if lost == "after":
                right(connection, table, statement, put)
            raise ConnectionResetError("the answer is lost")
        return right(connection, table, statement, put)

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "execute_statement", fails)
        with pytest.raises(RheosError):
            job.own.commit(staged)
    job.own.commit(staged)
    assert sorted(database.rows("SELECT * FROM t")) == [("a", 1), ("b", 2)]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize(
    "database",
    [
        pytest.param(
            "sqlite",
            marks=pytest.mark.proves("SQLite", faults=["a process dies within a commit"]),
        ),
        *ON_SERVERS_IF_SLOW[1:],
    ],
    indirect=True,
)
def test_a_process_that_dies_within_a_commit_loses_and_repeats_nothing(
    database: TestDatabase, death: str
) -> None:
    command = [sys.executable, "-m", killed_commits.__name__, database.url, database.folder, death]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    staged = [Path(database.folder, f"{death}.{number}").read_bytes() for number in range(2)]
    job = Job(database, killed_commits.SCHEMA, death, begin=False)
    for _ in range(2):
        job.driver().commit(staged)
    assert database.rows(f"SELECT n FROM {death} ORDER BY n") == [(1,), (2,), (3,)]


def test_a_new_attempt_removes_what_the_last_one_staged(sqlite: TestDatabase) -> None:
    job = Job(sqlite, SCHEMA)
    kept, dropped = job.stage(("a", 1)), job.stage(("b", 2))
    job.begin(keep=tuple(kept))
    job.driver().commit(kept)
    job.begin()
    assert sqlite.rows("SELECT * FROM t") == [("a", 1)]
    assert not list(Path(sqlite.folder, "staged").rglob("*.arrow"))
    with pytest.raises(UnrestorableError, match=r"1 rows that were staged for checkpoint 2 .* exist"):
        job.driver().commit(dropped)


@pytest.mark.parametrize("what", ["ledger", "rows"])
def test_a_database_that_has_lost_rows_is_an_error(what: str, sqlite: TestDatabase) -> None:
    job = Job(sqlite, SCHEMA)
    job.put(("a", 1))
    job.put(("b", 1))
    staged = job.stage(("c", 2))
    if what == "ledger":
        sqlite.run("DELETE FROM rheos_ledger")
    else:
        sqlite.run("UPDATE rheos_ledger SET checkpoint = 1")
    with pytest.raises(
        UnrestorableError, match=r"committed checkpoint 2.*has (none|only checkpoint 1)"
    ):
        job.own.commit(staged)
    assert len(sqlite.rows("SELECT * FROM t")) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"writer": "../../x"},
        {"published": 7},
        {"columns": []},
        {"subtask": -1},
    ],
)
def test_a_damaged_committable_is_an_error(damage: dict[str, Any], sqlite: TestDatabase) -> None:
    job = Job(sqlite, SCHEMA)
    epoch = msgspec.msgpack.decode(job.stage(("a", 1))[0])
    with pytest.raises(UnrestorableError, match="is damaged"):
        job.driver().commit([msgspec.msgpack.encode(epoch | damage)])


def test_each_row_is_in_the_table_once_after_crashes(sqlite: TestDatabase) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=200, rate_per_s=200, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.sql_database.sink(f"t{seed}", url=sqlite.url))
        return rows

    for seed in range(2):
        simulate(numbers, seed=seed, faults=Faults(crash_slot=1.0, crash_driver=0.5))
        assert sqlite.rows(f"SELECT n FROM t{seed} ORDER BY n") == [(n,) for n in range(200)]


# --- what does not fit ------------------------------------------------------------------------------

MYSQL, POSTGRES, SQLITE = "mysql", "postgresql", "sqlite"
COLUMNS: list[tuple[str, str, pa.DataType, Any, Any]] = [
    (MYSQL, "smallint", pa.int64(), 32767, 32768),
    (MYSQL, "tinyint unsigned", pa.int64(), 255, -1),
    (MYSQL, "bigint unsigned", pa.int64(), 5, -5),
    (MYSQL, "decimal(5,2)", pa.int64(), 999, 1000),
    (MYSQL, "varchar(3)", pa.string(), "語語語", "abcd"),
    (MYSQL, "char(3)", pa.string(), "abc", "a "),
    (MYSQL, "tinytext", pa.string(), "a" * 255, "語" * 100),
    (MYSQL, "varbinary(2)", pa.binary(), b"ab", b"abc"),
    (MYSQL, "datetime", pa.timestamp("us"), datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 5)),
    (
        MYSQL,
        "datetime(3)",
        pa.timestamp("us"),
        datetime(2020, 1, 1, 0, 0, 0, 1000),
        datetime(999, 1, 1),
    ),
    (MYSQL, "double", pa.float64(), 0.1, math.nan),
    (MYSQL, "double", pa.float64(), -0.1, math.inf),
    (MYSQL, "bigint not null", pa.int64(), 0, None),
    (POSTGRES, "smallint", pa.int64(), -32768, -32769),
    (POSTGRES, "numeric(3)", pa.int32(), 999, -1000),
    (POSTGRES, "varchar(3)", pa.string(), "語語語", "abcd"),
    (POSTGRES, "text", pa.string(), "a", "a\0b"),
    (POSTGRES, "timestamp(3)", pa.timestamp("us"), datetime(1, 1, 1), datetime(1, 1, 1, 0, 0, 0, 1)),
    (POSTGRES, "jsonb", pa.string(), None, "a\0b"),
    (SQLITE, "double", pa.float64(), math.inf, math.nan),
    (SQLITE, "text not null", pa.string(), "", None),
    (SQLITE, "integer", pa.uint64(), 2**63 - 1, 2**63),
]


def test_values_that_a_column_would_change_are_refused_with_their_row(database: TestDatabase) -> None:
    for number, (of, sql, stored, good, bad) in enumerate(COLUMNS):
        if of != database.backend:
            continue
        database.run(f"CREATE TABLE c{number} (id bigint, v {sql})")
        job = Job(database, pa.schema({"id": pa.int64(), "v": stored}), f"c{number}")
        job.put((1, good))
        with pytest.raises(InputError, match=f"column 'v' is .*c{number} cannot store") as raised:
            job.stage((1, good), (2, bad))
        assert "'id': 2" in str(raised.value.record), sql
        [(_, found)] = database.rows(f"SELECT * FROM c{number}")
        assert good == found, sql


UNFIT: list[tuple[str, str, pa.DataType]] = [
    (MYSQL, "float", pa.float64()),
    (MYSQL, "double(5,2)", pa.float64()),
    (MYSQL, "decimal(10,2)", pa.decimal128(12, 3)),
    (MYSQL, "decimal(10,2)", pa.float64()),
    (MYSQL, "timestamp null", pa.timestamp("us")),
    (MYSQL, "binary(3)", pa.binary()),
    (MYSQL, "int", pa.string()),
    (MYSQL, "set('a','b')", pa.string()),
    (POSTGRES, "real", pa.float64()),
    (POSTGRES, "numeric(5,2)", pa.decimal128(6, 2)),
    (POSTGRES, "timestamptz", pa.timestamp("us")),
    (POSTGRES, "timestamp", pa.timestamp("us", "UTC")),
    (POSTGRES, "integer", pa.string()),
    (POSTGRES, "bytea", pa.string()),
    (SQLITE, "numeric", pa.string()),
    (SQLITE, "integer", pa.string()),
    (SQLITE, "datetime", pa.string()),
    (SQLITE, "text", pa.int64()),
]


def test_columns_that_would_change_values_are_refused_at_the_start(database: TestDatabase) -> None:
    for number, (of, sql, stored) in enumerate(UNFIT):
        if of == database.backend:
            database.run(f"CREATE TABLE u{number} (v {sql})")
            with pytest.raises(SchemaError, match=f"column 'v' is .* in the table u{number}"):
                Job(database, pa.schema({"v": stored}), f"u{number}")


def test_a_row_that_the_database_refuses_is_named(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (k varchar(9), n bigint CHECK (n <> 5678))")
    job = Job(database, SCHEMA)
    staged = job.stage(*((str(n), n) for n in range(7000)))
    with pytest.raises(InputError, match="rejects a row; checkpoint 1") as raised:
        job.own.commit(staged)
    assert raised.value.record == "{'k': '5678', 'n': 5678}"
    assert database.rows("SELECT * FROM t") == []
    database.run("DROP TABLE t", "CREATE TABLE t (k varchar(9), n bigint)")
    job.own.commit(staged)
    assert database.rows("SELECT count(*), min(n), max(n) FROM t") == [(7000, 0, 6999)]


TABLES: list[tuple[str, str, dict[str, Any], type[RheosError], str]] = [
    ("", "k varchar(9), other bigint", {}, SchemaError, "has no column 'n'"),
    ("", "K varchar(9), n bigint", {}, SchemaError, "is called 'K'"),
    ("", "k varchar(9), n bigint, m bigint NOT NULL", {}, SchemaError, "requires a value for 'm'"),
    (
        "",
        "k varchar(9), n bigint",
        {"key": "k"},
        ConfigurationError,
        "no primary key or unique index on k",
    ),
    (
        MYSQL,
        "k varchar(9) PRIMARY KEY, n bigint UNIQUE",
        {"key": "k"},
        ConfigurationError,
        "another unique",
    ),
    (MYSQL, "k varchar(9), n bigint AS (3)", {}, SchemaError, "'n' of the table t is generated"),
    (
        POSTGRES,
        "k text, n bigint GENERATED ALWAYS AS IDENTITY",
        {},
        SchemaError,
        "'n' of .* is generated",
    ),
    ("", "k varchar(9), n bigint", {"key": "x"}, SchemaError, "x"),
]


@pytest.mark.parametrize("case", range(len(TABLES)))
def test_a_table_that_does_not_fit_is_refused(case: int, database: TestDatabase) -> None:
    backend, columns, how, kind, words = TABLES[case]
    if backend in ("", database.backend):
        if database.backend is DatabaseSystem.POSTGRES:
            columns = columns.replace("K ", '"K" ')
        database.run(f"CREATE TABLE t ({columns})")
        with pytest.raises(kind, match=words):
            Job(database, SCHEMA, **how)


def test_a_table_without_transactions_is_refused(mariadb: TestDatabase) -> None:
    mariadb.run("CREATE TABLE t (k varchar(9), n bigint) ENGINE = MyISAM")
    with pytest.raises(ConfigurationError, match="MyISAM, which has no transactions"):
        Job(mariadb, SCHEMA)


# --- arguments and addresses ------------------------------------------------------------------------

ARGUMENTS: list[tuple[tuple[Any, ...], str]] = [
    (("t", ""), "does not name a database"),
    (("t", "oracle://u:secret@h/x"), "oracle, which Rheos does not write"),
    (("t", "postgresql+asyncpg://u:secret@h/x"), "does not write"),
    (("t", "sqlite://"), "names no file"),
    (("t", "mysql://u:secret@h"), "lacks the host or the database"),
    (("t", "mysql://u:sec:ret@h:x/d"), "is not the URL"),
    (("t", "mysql://u:secret@h/d?charset=latin1"), "'charset' is set by Rheos"),
    (("a.b.c", "mysql://u:secret@h/d"), "not a valid table name"),
    (("rheos_ledger", "mysql://u:secret@h/d"), "is the sink's own"),
]


@pytest.mark.parametrize(("given", "words"), ARGUMENTS)
def test_arguments_are_checked(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ProgramError, match=words) as raised:
        rh.sql_database.sink(given[0], url=given[1])
    assert "secret" not in str(raised.value)


def test_secrets_are_shown_nowhere() -> None:
    sink = rh.sql_database.sink(
        "shop.t", url="mysql://ada:s%2Fcret@localhost:1/x", options={"ssl_key_password": "hidden"}
    )
    with pytest.raises(UnavailableError) as raised:
        sink.prepared(SCHEMA, ("job", "sink"))
    for shown in (repr(sink), sink.describe(), str(raised.value)):
        assert "cret" not in shown
        assert "hidden" not in shown
    assert "localhost:1/x" in sink.describe()


def test_sql_writes_by_the_primary_key(sqlite: TestDatabase) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.register("numbers", env.from_source(rh.collection([{"n": n % 3} for n in range(7)])))
    path = sqlite.url.removeprefix("sqlite:///")
    env.sql_script(
        f"""SET state_ttl = 'forever';
        CREATE TABLE totals (n BIGINT, number BIGINT, PRIMARY KEY (n) NOT ENFORCED)
        WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'totals');
        INSERT INTO totals SELECT n, count(*) FROM numbers GROUP BY n"""
    )
    env.execute("totals")
    assert sqlite.rows("SELECT * FROM totals ORDER BY n") == [(0, 3), (1, 2), (2, 2)]
