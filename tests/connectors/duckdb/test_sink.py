"""Tables of DuckDB have each row once, whatever fails, and contain the values that were written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.duckdb import database_file, ledger
from rheos.connectors.sql_database.ledger_commit import PutRows
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
from tests.connectors.duckdb import killed_commits
from tests.connectors.duckdb.tables import HandJob, run

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64()})
CHANGES = pa.schema({"k": pa.string(), "n": pa.int64(), "gone": pa.bool_()})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.duckdb"


@pytest.mark.slow
def test_the_sink_keeps_the_contract(path: Path) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        def rows() -> list[dict[str, Any]]:
            with duckdb.connect(str(path)) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                found = connection.sql(f'FROM "{name}"').to_arrow_table()
                return list(found.to_pylist())

        return rh.duckdb.sink(name, path=path), rows

    assert {"int64", "float64", "string", "binary", "timestamp", "decimal", "list"} <= set(
        check_sink(make)
    )


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, 127]),
    "unsigned": (pa.uint64(), [0, 2**64 - 1]),
    "double": (pa.float64(), [float("inf"), -5e-324]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), None]),
    "text": (pa.large_string(), ["é語\U0001f600 $1 'quoted' \0", " blanks "]),
    "fixed": (pa.binary(2), [b"\0\xff", b"ab"]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "at": (pa.timestamp("ns"), [datetime(2000, 1, 1, 0, 0, 0, 1), None]),
    "hour": (pa.time32("ms"), [time(0, 0), time(23, 59, 59, 999_000)]),
    "nested": (pa.struct({"a": pa.list_(pa.int32())}), [{"a": [1, None]}, {"a": None}]),
    "map": (pa.map_(pa.string(), pa.int8()), [[("a", 1)], []]),
}


def test_values_arrive_unchanged(path: Path) -> None:
    schema = pa.schema({name: kind for name, (kind, _) in VALUES.items()})
    rows = list(zip(*(values for _, values in VALUES.values()), strict=True))
    HandJob(path, schema).put(*rows, tuple(None for _ in schema))
    expected = pa.table(
        [pa.array([*values, None], kind) for kind, values in VALUES.values()], schema=schema
    )
    with duckdb.connect(str(path)) as connection:
        found = connection.sql("FROM t").to_arrow_table()
    assert found.cast(schema).to_pylist() == expected.to_pylist()


def test_the_last_row_of_each_key_is_kept_and_deletions_delete(path: Path) -> None:
    run(
        path,
        "CREATE TABLE t (k VARCHAR UNIQUE, n BIGINT, seen VARCHAR DEFAULT 'new')",
        "INSERT INTO t VALUES ('a', 0, 'before'), ('b', 0, 'before'), ('z', 26, 'before')",
    )
    job = HandJob(path, CHANGES, key="k", changes=True)
    job.put(("a", 1, False), ("c", 1, False), ("a", 2, False), ("b", None, True), ("d", 1, False))
    expected = [("a", 2, "before"), ("c", 1, "new"), ("d", 1, "new"), ("z", 26, "before")]
    assert run(path, "FROM t ORDER BY k") == expected
    # Several checkpoints in one call, as after an outage.
    many = [
        job.stage(*((f"many {n}", n, False) for n in range(100)), ("c", None, True)),
        job.stage(*((f"many {n}", None, True) for n in range(100)), ("d", 2, False)),
        job.stage(("d", None, True), ("a", 3, False)),
    ]
    job.driver().commit([each for staged in many for each in staged])
    assert run(path, "SELECT k, n FROM t ORDER BY k") == [("a", 3), ("z", 26)]


def test_names_are_quoted(path: Path) -> None:
    schema = pa.schema({'sel"ect': pa.string(), "$n": pa.int64()})
    job = HandJob(path, schema, key='sel"ect')
    job.put(("a", 1), ("b'; DROP TABLE t", 2))
    job.put(("a", 3))
    assert run(path, "FROM t ORDER BY 1") == [("a", 3), ("b'; DROP TABLE t", 2)]


def test_rows_are_visible_after_their_checkpoint_and_once(path: Path) -> None:
    job = HandJob(path, SCHEMA)
    first, second = job.stage(("a", 1), ("b", 2)), job.stage(("c", 3))
    assert run(path, "FROM t") == []
    job.driver().commit(first)
    job.driver().commit(first)
    job.driver().commit([*second, *first])
    assert run(path, "FROM t ORDER BY k") == [("a", 1), ("b", 2), ("c", 3)]
    assert run(path, "SELECT checkpoint, row_count FROM rheos_ledger") == [(2, 3)]
    assert job.stage() == [], "an epoch without rows"


@pytest.mark.parametrize("lost", ["before", "after"])
def test_the_ledger_decides_after_a_failure(
    lost: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = HandJob(path, SCHEMA)
    job.put(("a", 1))
    staged, right = job.stage(("b", 2)), ledger.commit_epochs

    def fails(connection: Any, epochs: Any, put: Any) -> None:
        if lost == "after":
            right(connection, epochs, put)
        else:
            connection.execute("BEGIN")
            ledger.execute_statement(connection, '"rheos_ledger"', PutRows(epochs[0]), put)
        raise duckdb.IOException("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("rheos.connectors.duckdb.committer.commit_epochs", fails)
        with pytest.raises(UnavailableError, match="the disk is gone"):
            job.driver().commit(staged)
    job.driver().commit(staged)
    assert run(path, "FROM t ORDER BY k") == [("a", 1), ("b", 2)]


def test_a_lost_ledger_or_file_is_an_error(path: Path) -> None:
    job = HandJob(path, SCHEMA)
    job.put(("a", 1))
    staged = job.stage(("b", 2))
    run(path, "CREATE TABLE kept AS FROM rheos_ledger", "DELETE FROM rheos_ledger")
    with pytest.raises(UnrestorableError, match="the database has lost rows"):
        job.driver().commit(staged)
    run(path, "INSERT INTO rheos_ledger FROM kept")
    for file in path.parent.rglob("*.arrow"):
        file.unlink()
    with pytest.raises(UnrestorableError, match="cannot be read: it does not exist"):
        job.driver().commit(staged)


def test_a_commit_waits_for_the_lock_of_another_process(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = HandJob(path, SCHEMA)
    staged = job.stage(("a", 1))
    hold = f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    monkeypatch.setattr(database_file, "_LOCK_S", 0.1)
    with pytest.raises(UnavailableError, match=f"PID {holder.pid}"):
        job.driver().commit(staged)
    holder.communicate("\n")
    with duckdb.connect(str(path)):  # A connection of this process does not disturb.
        job.driver().commit(staged)
        rh.duckdb.lookup("t", path=path, key="k")
    assert run(path, "FROM t") == [("a", 1)]


@pytest.mark.slow
@pytest.mark.proves(
    "DuckDB", faults=["a process dies within a commit"], slow_because="each death is a process"
)
@pytest.mark.parametrize("death", killed_commits.DEATHS)
def test_a_process_dies_within_a_commit(death: str, path: Path) -> None:
    command = [sys.executable, "-m", "tests.connectors.duckdb.killed_commits", str(path), death]
    assert subprocess.run(command, timeout=120, check=False).returncode == -signal.SIGKILL
    job = HandJob(path, killed_commits.SCHEMA)
    names = sorted(os.listdir(path.parent))
    staged = [(path.parent / name).read_bytes() for name in names if name.endswith(".epoch")]
    job.driver().commit(staged)
    assert run(path, "FROM t ORDER BY n") == [(1,), (2,), (3,)]


@pytest.mark.slow
def test_each_row_is_in_the_table_once_after_crashes(path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=200, rate_per_s=200, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.duckdb.sink("t", path=path))
        return rows

    simulate(numbers, seed=1, faults=Faults(crash_slot=1.0, crash_driver=0.5))
    assert run(path, "FROM t ORDER BY n") == [(n,) for n in range(200)]


def test_a_refused_row_is_an_error_that_names_the_value(path: Path) -> None:
    run(path, "CREATE TABLE t (k VARCHAR PRIMARY KEY, n SMALLINT CHECK (n <> 7))")
    job = HandJob(path, SCHEMA)
    with pytest.raises(InputError, match="SMALLINT ends at 32767"):
        job.stage(("a", 2**15))
    job = HandJob(path, SCHEMA)
    with pytest.raises(InputError, match="CHECK constraint failed"):
        job.put(("a", 7))
    job = HandJob(path, SCHEMA)
    job.put(("a", 1))
    with pytest.raises(InputError, match='Duplicate key "k: a"'):
        job.put(("a", 2))


def prepare(schema: pa.Schema, **arguments: Any) -> None:
    made = rh.duckdb.sink(**arguments)
    made.validate(schema)
    made.prepared(schema, ("job", "sink"))


def test_wrong_targets_are_errors(path: Path, tmp_path: Path) -> None:
    run(path, "CREATE TABLE t (k VARCHAR, n SMALLINT, m INTEGER NOT NULL, g AS (n + 1))")
    (tmp_path / "text").write_text("no database" * 1000)
    wrong: list[tuple[dict[str, Any], pa.Schema, type[RheosError], str]] = [
        ({}, SCHEMA, SchemaError, "requires a value for 'm'"),
        ({}, pa.schema({"k": pa.string(), "x": pa.int8()}), SchemaError, "has no column 'x'"),
        ({}, pa.schema({"k": pa.int64()}), SchemaError, "but VARCHAR in the table t"),
        ({}, pa.schema({"g": pa.int64()}), SchemaError, "is generated"),
        ({}, pa.schema({"k": pa.duration("us")}), SchemaError, "cannot store unchanged"),
        (
            {"key": "k"},
            pa.schema({"k": pa.string(), "m": pa.int32()}),
            ConfigurationError,
            "no PRIMARY",
        ),
        ({"key": "k", "table": "rheos_ledger"}, SCHEMA, ProgramError, "is the sink's own"),
        ({"path": tmp_path / "text"}, SCHEMA, ConfigurationError, "not a valid DuckDB database"),
        ({"path": ":memory:"}, SCHEMA, ProgramError, "names no file"),
        ({"path": "md:shop"}, SCHEMA, ProgramError, "is not a local file"),
    ]
    for arguments, schema, kind, message in wrong:
        with pytest.raises(kind, match=message):
            prepare(schema, **{"table": "t", "path": path, **arguments})
    with pytest.raises(ProgramError, match="has a connector of its own") as raised:
        rh.sql_database.sink("t", url=f"duckdb:///{path}")
    assert "rh.duckdb.sink" in str(raised.value.hint)
