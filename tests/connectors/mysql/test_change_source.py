"""Changes of a table on the real server: existing rows first, then each change, once."""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, SchemaError
from tests.connectors.mysql.databases import Database, reading
from tests.connectors.mysql.test_log_worlds import applied
from tests.waiting import wait_for

TYPES: dict[str, tuple[str, str, Any]] = {
    "tiny": ("tinyint", "-128", -128),
    "small": ("smallint unsigned", "65535", 65535),
    "medium": ("mediumint", "-8388608", -8388608),
    "whole": ("int unsigned", "4294967295", 4294967295),
    "big": ("bigint unsigned", "18446744073709551615", 18446744073709551615),
    "made": ("bigint as (tiny + 1)", "DEFAULT", -127),
    "price": ("decimal(20,5)", "-12345.67891", Decimal("-12345.67891")),
    "part": ("decimal(5,5)", "-0.00012", Decimal("-0.00012")),
    "digits": (
        "decimal(50,2)",
        "123456789012345678901234567890.12",
        "123456789012345678901234567890.12",
    ),
    "near": ("float", "1.1", 1.100000023841858),
    "exact": ("double", "-0.1", -0.1),
    "day": ("date", "'0001-02-03'", date(1, 2, 3)),
    "local": ("datetime(3)", "'9999-12-31 23:59:59.987'", datetime(9999, 12, 31, 23, 59, 59, 987000)),
    "instant": (
        "timestamp(6) NULL",
        "'2024-01-02 03:04:05.678901'",
        datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    ),
    "span": ("time(2)", "'-838:59:58.76'", -timedelta(hours=838, minutes=59, seconds=58.76)),
    "season": ("year", "1901", 1901),
    "colour": ("enum('red','gr''ün')", "'gr''ün'", "gr'ün"),
    "flags": ("set('a','b','c')", "'c,a'", "a,c"),
    "bits": ("bit(9)", "b'100000001'", 257),
    "yes": ("bit(1)", "1", True),
    "fixed": ("binary(4)", "'ab'", b"ab\0\0"),
    "bytes": ("varbinary(300)", "x'00ff'", b"\x00\xff"),
    "blob_": ("blob", "repeat('x', 1000)", b"x" * 1000),
    "words": ("text", "'naïve €'", "naïve €"),
    "padded": ("char(200)", "'a '", "a"),
    "old": ("varchar(20) character set latin1", "'é€'", "é€"),
    "wide": ("varchar(20) character set utf16", "'é€'", "é€"),
    "json_": ("json", "'{\"a\": [1]}'", '{"a": [1]}'),
}


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_types_are_equal_in_the_snapshot_and_in_the_log(database: Database, compressed: str) -> None:
    columns = ", ".join(f"{name} {type}" for name, (type, _, _) in TYPES.items())
    values = ", ".join(value for _, value, _ in TYPES.values())
    database.run(
        f"SET GLOBAL log_bin_compress = {compressed}, log_bin_compress_min_len = 10",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values})",
        "INSERT INTO t (id, tiny) VALUES (2, -128)",
    )
    source = rh.mysql.changes("t", url=database.url, metadata=["op", "position", "commit_time"])
    expected = {name: value for name, (_, _, value) in TYPES.items()}
    empty = dict.fromkeys(TYPES) | {"tiny": -128, "made": -127}
    with reading(source) as reader:
        found = reader.take(2)
        database.run(f"INSERT INTO t VALUES (3, {values})", "DELETE FROM t")
        found += reader.take(4)
    database.run("SET GLOBAL log_bin_compress = OFF")
    assert [row["op"] for row in found] == ["snapshot"] * 2 + ["insert"] + ["delete"] * 3
    for row in found:
        assert {name: row[name] for name in TYPES} == (empty if row["id"] == 2 else expected), row
    texts = {
        name: str for name in ("id", *TYPES) if not pa.types.is_binary(source.schema.field(name).type)
    }
    assert (
        rh.mysql.changes("t", url=database.url, schema=texts).schema.field("price").type == pa.string()
    )


class _Writer(threading.Thread):
    """Client that changes a table until it is stopped, and survives a kill of the server."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self.database = database
        self.stopped = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        import pymysql

        rng = Random(7)
        while not self.stopped.is_set():
            try:
                with self.database.session() as session, session.cursor() as cursor:
                    while not self.stopped.wait(0.002):
                        session.begin()
                        for _ in range(rng.randrange(1, 4)):
                            self._change(cursor, rng)
                        session.commit()
            except pymysql.err.OperationalError:
                continue
            except BaseException as error:
                self.failed = error
                return

    def _change(self, cursor: Any, rng: Random) -> None:
        id, value = rng.randrange(3000), f"v{rng.randrange(100)}"
        match rng.randrange(4):
            case 0:
                cursor.execute("DELETE FROM t WHERE id = %s", (id,))
            case 1:
                cursor.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", (rng.randrange(3000), id))
            case _:
                sql = "INSERT INTO t VALUES (%s, %s) ON DUPLICATE KEY UPDATE v = %s"
                cursor.execute(sql, (id, value, value))


@pytest.mark.proves("MariaDB", faults=["a killed server", "a resumed reader"])
def test_changes_during_the_snapshot_and_a_kill_of_the_server_are_read_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.connectors.mysql.snapshot_blocks.MAX_ROWS", 100)
    monkeypatch.setattr("rheos.connectors.mysql.snapshot_blocks._FIRST_ROWS", 50)
    many = ", ".join(f"({id}, 'v')" for id in range(0, 3000, 2))
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", f"INSERT INTO t VALUES {many}")
    source = rh.mysql.changes("t", url=database.url, metadata=["op", "before"])
    assert pickle.loads(pickle.dumps(source)) == source
    writer = _Writer(database)
    table: dict[int, Any] = {}
    position: bytes | None = None
    writer.start()
    try:
        for number, count in enumerate((300, 700, 1500)):
            with reading(source, position) as reader:
                applied(table, reader.take(count))
                if number == 1:
                    database.server.kill()
                    database.server.start()
                    applied(table, reader.take(100))
                position = reader.position
    finally:
        writer.stopped.set()
        writer.join()
    assert writer.failed is None
    with reading(
        rh.mysql.changes("t", url=database.url, metadata=["op", "before"], end="now")
    ) as reader:
        fresh: dict[int, Any] = {}
        applied(fresh, reader.rest())
    ended = rh.mysql.changes("t", url=database.url, metadata=["op", "before"], end="now")
    with reading(ended, position) as reader:
        applied(table, reader.rest())
    assert table == fresh == dict(database.rows("SELECT id, v FROM t"))


KEYS = {
    "varchar(9)": ["''", "'B'", "'a'", "'ab'", "'é'", "'z z'", "'1%'"],
    "varbinary(9)": ["x'00'", "x'ff'", "x'7f01'"],
    "date": ["'2024-01-02'", "'1999-12-31'", "'2024-01-01'"],
    "decimal(5,2)": ["-1", "-2.5", "10", "9"],
    "bigint unsigned": ["18446744073709551615", "0", "9223372036854775808"],
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("type", KEYS)
def test_keys_of_all_types_divide_the_snapshot(
    database: Database, type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.connectors.mysql.snapshot_blocks.MAX_ROWS", 2)
    monkeypatch.setattr("rheos.connectors.mysql.snapshot_blocks._FIRST_ROWS", 2)
    rows = ", ".join(f"({number}, {key})" for key in KEYS[type] for number in (1, 2))
    database.run(
        f"CREATE TABLE t (number int, `k%s` {type}, PRIMARY KEY (`k%s`, number))",
        f"INSERT INTO t VALUES {rows}",
    )
    source = rh.mysql.changes("t", url=database.url, end="now")
    with reading(source) as reader:
        database.run("UPDATE t SET number = number + 10 WHERE number = 1")
        found = reader.rest()
        position = reader.position
    later = rh.mysql.changes("t", url=database.url, end="now")
    with reading(later, position) as reader:
        found += reader.rest()
    there = set()
    for row in found:
        key = row["number"], row["k%s"]
        assert (key in there) is (row["op"] == "delete"), row
        there ^= {key}
    with reading(later) as reader:
        assert there == {(row["number"], row["k%s"]) for row in reader.rest()}
    assert len(there) == 2 * len(KEYS[type])


def test_zero_dates_are_refused_kept_or_null(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, day date, at timestamp NULL)",
        "INSERT INTO t VALUES (1, '2024-00-10', '0000-00-00 00:00:00')",
    )
    with (
        reading(rh.mysql.changes("t", url=database.url)) as reader,
        pytest.raises(InputError) as raised,
    ):
        reader.take(1)
    assert "the column 'day'" in str(raised.value)
    assert 'zero_dates="null"' in str(raised.value)
    texts = {"id": int, "day": str, "at": str}
    for more, expected in (
        ({"zero_dates": "null"}, (None, None)),
        ({"schema": texts}, ("2024-00-10", "0000-00-00 00:00:00")),
    ):
        with reading(rh.mysql.changes("t", url=database.url, **more)) as reader:  # type: ignore[arg-type]
            found = reader.take(1)
            database.run("UPDATE t SET id = id + 1")
            found += reader.take(2)
            database.run("UPDATE t SET id = 1")
        assert [(row["day"], row["at"]) for row in found] == [expected] * 3


ALTERED = {
    "ALTER TABLE t ADD COLUMN n int FIRST": "it has a new column 'n'",
    "ALTER TABLE t DROP COLUMN v": "it no longer has the column 'v'",
    "ALTER TABLE t MODIFY v int": "the column 'v' has another type",
    "RENAME TABLE t TO gone": "dropped, renamed or replaced",
    "DROP TABLE t": "dropped, renamed or replaced",
    "SET SESSION binlog_format = 'STATEMENT'; UPDATE t SET v = '3'": "logged as a statement",
    "SET SESSION binlog_row_image = 'MINIMAL'; UPDATE t SET v = '3'": "a row lacks columns",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("statement", ALTERED)
def test_altered_tables_are_an_error(database: Database, statement: str) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "INSERT INTO t VALUES (1, '1')")
    with reading(rh.mysql.changes("t", url=database.url)) as reader:
        reader.take(1)
        database.run(*statement.split("; "))
        if "ALTER" in statement:
            database.run("INSERT INTO t (id) VALUES (2)")
        with pytest.raises(InputError, match=ALTERED[statement]):
            reader.take(1)


def test_selected_columns_follow_altered_tables(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "INSERT INTO t VALUES (1, '1')")
    schema = {"v": str, "id": int}
    with reading(rh.mysql.changes("t", url=database.url, schema=schema)) as reader:
        reader.take(1)
        database.run(
            "ALTER TABLE t ADD COLUMN n int FIRST, MODIFY id bigint, MODIFY v text",
            f"INSERT INTO t VALUES (7, {1 << 40}, '2')",
            "TRUNCATE TABLE t",
        )
        assert reader.take(2) == [
            {"id": 1 << 40, "v": "2", "op": "insert"},
            {"id": None, "v": None, "op": "truncate"},
        ]


ALTERED_SOMEHOW = (
    "INSERT INTO t VALUES (2, 'b')",
    "ALTER TABLE t ADD COLUMN n int FIRST",
    "INSERT INTO t VALUES (3, 3, 'c')",
    "ALTER TABLE t DROP COLUMN v, MODIFY n decimal(6,2)",
    "INSERT INTO t VALUES (4.5, 4)",
)


def test_altered_columns_are_ignored(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "INSERT INTO t VALUES (1, 'a')")
    source = rh.mysql.changes("t", url=database.url, on_schema_change="ignore")
    needed = rh.mysql.changes(
        "t",
        url=database.url,
        on_schema_change="ignore",
        schema=pa.schema([pa.field("id", pa.int32()), pa.field("v", pa.string(), nullable=False)]),
    )
    with reading(source) as reader, reading(needed) as strict:
        reader.take(1)
        strict.take(1)
        database.run(*ALTERED_SOMEHOW)
        rows = [{"id": id, "v": v, "op": "insert"} for id, v in ((2, "b"), (3, "c"), (4, None))]
        assert reader.take(3) == rows
        with pytest.raises(InputError, match=r"no column 'v', which may not be null"):
            strict.take(3)


def test_altered_columns_are_followed_by_the_next_run(database: Database) -> None:
    """A run ends exactly before the first row of another form. The next one reads all rows up to the
    table of its start by the names of the columns."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "INSERT INTO t VALUES (1, 'a')")

    def source() -> Any:
        return rh.mysql.changes("t", url=database.url, on_schema_change="follow")

    with reading(source()) as reader:
        reader.take(1)
        database.run(*ALTERED_SOMEHOW[:3])
        assert reader.take(1) == [{"id": 2, "v": "b", "op": "insert"}]
        reason, position = reader.stopped()
        assert "has a new column 'n' (int)" in reason
    with reading(source(), position) as reader:
        assert reader.take(1) == [{"n": 3, "id": 3, "v": "c", "op": "insert"}]
        database.run(*ALTERED_SOMEHOW[3:])
        reason, position = reader.stopped()
        assert "'n' has another type: int became decimal(6,2)" in reason
    with reading(source(), position) as reader:
        assert reader.take(1) == [{"n": Decimal("4.50"), "id": 4, "op": "insert"}]


def test_a_created_table_stops_the_job_that_reads_all_tables(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (0)",
        "CREATE TABLE log (line text)",
    )

    def sources() -> dict[str, Any]:
        found = rh.mysql.tables(database.url, exclude=["tmp_*"])
        return {
            table.name: rh.mysql.changes(table, url=database.url, on_schema_change="follow")
            for table in found
        }

    with reading(sources()["t"]) as reader:
        # The log is read from the place of the snapshot on.
        assert [row["id"] for row in reader.take(1)] == [0]
        database.run(
            "CREATE TABLE tmp_t (id int PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE u (id int PRIMARY KEY)",
            "INSERT INTO t VALUES (2)",
        )
        assert [row["id"] for row in reader.take(1)] == [1]
        reason, position = reader.stopped()
        assert f"the table {database.name}.u was created" in reason
    assert [*sources()] == ["t", "u"]
    with reading(sources()["t"], position) as reader:
        assert reader.take(1) == [{"id": 2, "op": "insert"}]


def test_rows_of_all_earlier_forms_are_read_as_the_table_is_now(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "INSERT INTO t VALUES (1, 'a')")
    with reading(rh.mysql.changes("t", url=database.url, on_schema_change="follow")) as reader:
        reader.take(1)
        position = reader.position
    database.run(*ALTERED_SOMEHOW)
    for policy in ("fail", "ignore", "follow"):
        source = rh.mysql.changes("t", url=database.url, on_schema_change=policy)  # type: ignore[arg-type]
        with reading(source, position) as reader:
            numbers = [(row["n"], row["id"]) for row in reader.take(3)]
        assert numbers == [(None, 2), (Decimal("3.00"), 3), (Decimal("4.50"), 4)]


def test_without_a_snapshot_changes_since_the_start_are_read(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    with reading(rh.mysql.changes("t", url=database.url, snapshot=False)) as reader:
        database.run("INSERT INTO t VALUES (2)")
        assert reader.take(1) == [{"v": 2, "op": "insert"}]


def test_a_removed_log_is_an_error(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = rh.mysql.changes("t", url=database.url)
    with reading(source) as reader:
        reader.take(1)
        position = reader.position
    [(last,)] = [(file,) for file, *_ in database.rows("SHOW MASTER STATUS")]
    database.run("FLUSH LOGS", "FLUSH LOGS")
    [(current,)] = [(file,) for file, *_ in database.rows("SHOW MASTER STATUS")]

    def is_removed() -> bool:
        # The server keeps a file until it has noticed, while it writes, that the reader has gone.
        database.run("FLUSH LOGS", f"PURGE BINARY LOGS TO '{current}'")
        return last not in [file for file, *_ in database.rows("SHOW BINARY LOGS")]

    wait_for(is_removed)
    with (
        reading(source, position) as reader,
        pytest.raises(ConfigurationError, match="removed this file"),
    ):
        reader.take(1)
    assert last != current


def test_wrong_arguments_are_errors_before_the_job_runs(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(9), u uuid)",
        "CREATE TABLE bare (v int)",
        "CREATE TABLE flat (v int PRIMARY KEY) ENGINE = MyISAM",
    )
    url, secret = database.url, "wrong-secret"
    cases: list[tuple[type[RheosError], str, str, dict[str, Any]]] = [
        (ConfigurationError, "no_such does not exist", "no_such", {}),
        (ConfigurationError, "no primary key", "bare", {}),
        (ConfigurationError, "not of InnoDB", "flat", {}),
        (SchemaError, "'u' of .* is uuid, which cannot be read", "t", {}),
        (SchemaError, "has no column 'x'", "t", {"schema": {"id": int, "x": int}}),
        (SchemaError, "but schema= has int64", "t", {"schema": {"id": int, "v": int}}),
        (SchemaError, "primary-key column 'id'", "t", {"schema": {"v": str}}),
        (
            SchemaError,
            "two columns are named 'v'",
            "bare",
            {"metadata": {"op": "v"}, "snapshot": False},
        ),
        (ProgramError, "unknown field 'lsn'", "t", {"metadata": "lsn"}),
        (ProgramError, "unknown option 'charset'", "t", {"options": {"charset": "x"}}),
        (ConfigurationError, "Access denied", "t", {"url": url.replace(database.password, secret)}),
        (ConfigurationError, "Access denied|Unknown database", "t", {"url": url + "_none"}),
        (ProgramError, "lacks the host, the user or the database", "t", {"url": "mysql://ada@host"}),
    ]
    for kind, words, table, more in cases:
        with pytest.raises(kind, match=words) as raised:
            rh.mysql.changes(table, **{"url": url, **more})
        assert secret not in str(raised.value)
        assert database.password not in repr(raised.value)


def test_sql_reads_changes_with_flinks_options(database: Database) -> None:
    database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, page varchar(9), cents bigint)",
        "INSERT INTO orders VALUES (1, 'a', 5), (2, 'b', 7), (3, 'a', 9)",
        "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@'%' IDENTIFIED BY 'pw'",
    )
    env = rh.Environment(runtime="simulated")
    host, port = database.server.address.split(":")
    env.sql_script(
        "CREATE TABLE orders (id INT, page STRING, cents BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ("
        f"'connector' = 'mysql-cdc', 'hostname' = '{host}', 'port' = '{port}', 'username' = 'reader', "
        f"'password' = 'pw', 'database-name' = '{database.name}', 'table-name' = 'orders', "
        "'end' = 'now')"
    )
    env.sql("SELECT page, SUM(cents) AS cents FROM orders GROUP BY page").collect("found")
    found = env.execute("orders").collected["found"].to_pylist()
    last = {row["page"]: row["cents"] for row in found}
    assert last == {"a": 14, "b": 7}
