"""Changes of a table on the real server: existing rows first, then each change, once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.postgres import watched_session
from rheos.connectors.postgres.change_positions import ChangesPosition
from rheos.connectors.postgres.connection import ServerOptions
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.capabilities import stop_reason
from rheos.core.connectors.contract import EndOfSplit
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, SchemaError
from rheos.ops.chaos.faulty_proxy import FaultyProxy
from rheos.testing import Faults, simulate
from rheos.testing.connector_kit.reading import SplitReading
from tests.connectors.postgres.databases import Database, read
from tests.waiting import wait_for

PATIENCE_S = 120.0


class Reading:
    """Reader of the table's only split, from a position on."""

    def __init__(self, source: Any, position: bytes | None = None) -> None:
        [split] = source.splits()
        self._reading = SplitReading(source, split, position, PATIENCE_S)
        self.client: Any = self._reading._client

    def take(self, count: int) -> list[dict[str, Any]]:
        """Return the next rows."""
        rows: list[dict[str, Any]] = []
        while len(rows) < count:
            polled = self._reading.poll(count - len(rows))
            assert not isinstance(polled, EndOfSplit), rows
            rows += polled.to_pylist()
        return rows

    def rest(self) -> list[dict[str, Any]]:
        """Return the rows up to the end."""
        rows: list[dict[str, Any]] = []
        while not isinstance(polled := self._reading.poll(1000), EndOfSplit):
            rows += polled.to_pylist()
        return rows

    def stopped(self) -> tuple[str, bytes]:
        """Wait until the reader stops the job; return the reason, and the position to continue at."""
        assert self.rest() == []
        reason = stop_reason(self._reading.reader)
        assert reason is not None
        return reason, self.position

    def poll_once(self) -> bool:
        self._reading.reader.poll(1)
        return True

    @property
    def position(self) -> bytes:
        return self._reading.reader.position()

    @property
    def lsn(self) -> int:
        return ChangesPosition.decode(self.position).lsn

    def close(self) -> None:
        self._reading.close()


@contextmanager
def reading(source: Any, position: bytes | None = None) -> Iterator[Reading]:
    opened = Reading(source, position)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def slots(database: Database) -> Iterator[None]:
    """Drop the slots, of which a server has only a few."""
    yield
    database.run(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active",
    )
    wait_for(lambda: database.rows("SELECT 1 FROM pg_replication_slots WHERE active") == [])
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


pytestmark = pytest.mark.usefixtures("slots")


def confirmed(database: Database) -> int:
    [(lsn,)] = database.rows("SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots")
    return int(lsn)


def applied(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return the table `(id, ...)` that results from the changes, each of which must be applicable."""
    table: dict[Any, Any] = {}
    for row in rows:
        op, id = row["op"], row["id"]
        if op in ("snapshot", "insert"):
            assert id not in table, row
            table[id] = {name: row[name] for name in row if name not in ("op", "before")}
        elif op == "update":
            before = row["before"] or row
            del table[before["id"]]
            table[id] = {name: row[name] for name in row if name not in ("op", "before")}
        elif op == "delete":
            del table[id]
        else:
            table.clear()
    return table


def test_existing_rows_are_followed_by_changes(database: Database) -> None:
    database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, page text)",
        "INSERT INTO orders VALUES (1, 'a'), (3, NULL), (2, '')",
    )
    source = rh.postgres.changes("orders", url=database.url, metadata=["op", "before"])
    assert source.schema.names == ["id", "page", "op", "before"]
    with reading(source) as reader:
        assert [(r["id"], r["page"], r["op"]) for r in reader.take(3)] == [
            (1, "a", "snapshot"),
            (2, "", "snapshot"),
            (3, None, "snapshot"),
        ]
        database.run(
            "INSERT INTO orders VALUES (4, E'two\\nlines, \"quoted\"')",
            "UPDATE orders SET page = 'b' WHERE id = 1",
            "UPDATE orders SET id = 5 WHERE id = 2",
            "DELETE FROM orders WHERE id = 3",
            "ALTER TABLE orders REPLICA IDENTITY FULL",
            "UPDATE orders SET page = 'c' WHERE id = 1",
            "TRUNCATE orders",
        )
        key_of_2, key_of_3 = {"id": 2, "page": None}, {"id": 3, "page": None}
        assert [tuple(row.values()) for row in reader.take(6)] == [
            (4, 'two\nlines, "quoted"', "insert", None),
            (1, "b", "update", None),
            (5, "", "update", key_of_2),
            (3, None, "delete", key_of_3),
            (1, "c", "update", {"id": 1, "page": "b"}),
            (None, None, "truncate", None),
        ]


def test_a_killed_reader_resumes_without_gap_or_duplicate(
    database: Database,
) -> None:
    database.run(
        "CREATE TABLE accounts (id text PRIMARY KEY, n int)",
        "INSERT INTO accounts SELECT 'k' || i, i FROM generate_series(1, 30) i",
    )
    source = rh.postgres.changes("accounts", url=database.url, metadata=["op", "before"])
    rows: list[dict[str, Any]] = []
    position = None
    changed = [
        ["UPDATE accounts SET n = -n WHERE n % 3 = 0", "DELETE FROM accounts WHERE n % 7 = 0"],
        [
            "UPDATE accounts SET id = 'a' || n WHERE n IN (25, 26)",
            "INSERT INTO accounts VALUES ('Z', 0)",
        ],
        ["UPDATE accounts SET id = 'z' || n WHERE n IN (1, 2)", "UPDATE accounts SET n = n + 1000"],
        ["DELETE FROM accounts WHERE n < 1005", "INSERT INTO accounts VALUES ('last', 1)"],
    ]
    for statements in changed:
        with reading(source, position) as reader:
            rows += reader.take(7)
            position = reader.position
        database.run(*statements)
    while rows[-1]["id"] != "last":
        with reading(source, position) as reader:
            for _ in range(9):
                rows += [] if rows[-1]["id"] == "last" else reader.take(1)
            position = reader.position
    assert {row["op"] for row in rows} >= {"snapshot", "insert", "update", "delete"}
    table = {row["id"]: row for row in read(database, "accounts")}
    assert applied(rows) == table


def test_values_of_all_types(database: Database) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('glad')",
        "CREATE TABLE typed (id bigint PRIMARY KEY, b bool, r real, d double precision, "
        "x numeric(20, 3), y numeric, t varchar(9), raw bytea, day date, at timestamptz, "
        "local timestamp(3), clock time, j jsonb, u uuid, e mood, a int[])",
        "CREATE TABLE typed_values AS SELECT * FROM typed",
        "INSERT INTO typed_values VALUES (1, true, 1.5, 'NaN', 12345678901234567.125, 1e40, '', "
        "'\\x00ff', '2026-03-01', '1960-01-01 00:00:00.5+01', '2026-03-01 12:30:15.123', "
        "'01:02:03.000004', '{\"a\": 1}', '00000000-0000-0000-0000-000000000001', "
        "'glad', '{1,NULL}')",
        "INSERT INTO typed_values VALUES (2)",
        "INSERT INTO typed SELECT * FROM typed_values",
    )
    source = rh.postgres.changes("typed", url=database.url)
    with reading(source) as reader:
        there = reader.take(2)
        database.run(
            "UPDATE typed_values SET id = id + 2", "INSERT INTO typed SELECT * FROM typed_values"
        )
        added = reader.take(2)
    first = {
        "id": 1,
        "b": True,
        "r": 1.5,
        "d": pytest.approx(float("nan"), nan_ok=True),
        "x": Decimal("12345678901234567.125"),
        "y": "1" + "0" * 40,
        "t": "",
        "raw": b"\x00\xff",
        "day": date(2026, 3, 1),
        "at": datetime(1959, 12, 31, 23, 0, 0, 500_000, tzinfo=UTC),
        "local": datetime(2026, 3, 1, 12, 30, 15, 123_000),
        "clock": time(1, 2, 3, 4),
        "j": '{"a": 1}',
        "u": "00000000-0000-0000-0000-000000000001",
        "e": "glad",
        "a": "{1,NULL}",
        "op": "snapshot",
    }
    nothing = {**dict.fromkeys(first), "id": 2, "op": "snapshot"}
    assert there == [first, nothing]
    assert added == [{**first, "id": 3, "op": "insert"}, {**nothing, "id": 4, "op": "insert"}]


def test_a_restarted_server_causes_no_gap_or_duplicate(
    database: Database,
) -> None:
    database.run("CREATE TABLE restarts (id int PRIMARY KEY)", "INSERT INTO restarts VALUES (1)")
    source = rh.postgres.changes("restarts", url=database.url)
    with reading(source) as reader:
        rows = reader.take(1)
        database.run("INSERT INTO restarts VALUES (2), (3)")
        rows += reader.take(1)
        for number, end in enumerate((database.server.kill, database.server.stop)):
            end()
            database.server.start()
            database.run(f"INSERT INTO restarts VALUES ({number + 4})")
            rows += reader.take(1)
        rows += reader.take(1)
        position = reader.position
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5]
    with reading(source, position) as reader:
        database.run("INSERT INTO restarts VALUES (6)")
        assert [row["id"] for row in reader.take(1)] == [6]


def test_a_frozen_server_is_noticed_and_causes_no_gap_or_duplicate(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(watched_session.STATEMENT), "limit_s", 0.5)
    monkeypatch.setattr(watched_session, "_ALIVE_S", 2.0)  # libpq knows none that is shorter.
    database.run("CREATE TABLE freezes (id int PRIMARY KEY)", "INSERT INTO freezes VALUES (1)")
    parameters = dict(ServerOptions.of(database.url).parameters)
    with FaultyProxy(int(parameters["port"]), parameters["host"]) as proxy:
        options = {"host": "127.0.0.1", "port": proxy.port, "sslmode": "disable"}
        with reading(rh.postgres.changes("freezes", url=database.url, options=options)) as reader:
            rows = reader.take(1)
            proxy.freeze()
            database.run("INSERT INTO freezes VALUES (2), (3)")
            wait_for(lambda: SERVERS_AWAY.is_away(reader.client))
            proxy.thaw()
            rows += reader.take(2)
            database.run("INSERT INTO freezes VALUES (4)")
            rows += reader.take(1)
    assert [row["id"] for row in rows] == [1, 2, 3, 4]


def test_the_server_keeps_the_log_since_the_last_checkpoint(database: Database) -> None:
    database.run(
        "CREATE TABLE kept (id int PRIMARY KEY)",
        "CREATE TABLE others (id int)",
        "INSERT INTO kept VALUES (0)",
    )
    source = rh.postgres.changes("kept", url=database.url, metadata=["op", "lsn"])
    with reading(source) as reader:
        made = confirmed(database)
        reader.take(1)
        database.run("INSERT INTO kept VALUES (1)", "INSERT INTO kept VALUES (2)")
        first, second = reader.take(2)
        in_checkpoint = ChangesPosition(in_snapshot=False, lsn=first["lsn"] + 1).encode()
        assert confirmed(database) == made
        reader.client.completed({"rheos_kept": in_checkpoint})
        wait_for(lambda: confirmed(database) == first["lsn"] + 1)
        # What others change moves it on, too: the server need not keep that.
        database.run("INSERT INTO others SELECT generate_series(1, 1000)")
        wait_for(lambda: reader.poll_once() and reader.lsn > second["lsn"] + 10_000)
        reader.client.completed({"rheos_kept": reader.position})
        wait_for(lambda: confirmed(database) == reader.lsn)
    with (
        pytest.raises(InputError, match="the changes in between are lost\\. Check whether the slot"),
        reading(source, in_checkpoint) as r,
    ):
        r.take(1)
    database.run("SELECT pg_drop_replication_slot('rheos_kept')")
    later = ChangesPosition(in_snapshot=False, lsn=second["lsn"]).encode()
    with pytest.raises(InputError, match="the changes in between are"), reading(source, later) as r:
        r.take(1)
    with reading(source) as reader:
        assert len(reader.take(3)) == 3


def test_reading_continues_in_a_new_timeline_that_has_everything_read(
    database: Database,
) -> None:
    server = database.server
    database.run("CREATE TABLE promoted (id int PRIMARY KEY)", "INSERT INTO promoted VALUES (1)")
    source = rh.postgres.changes("promoted", url=database.url, metadata=["op", "lsn"])
    with reading(source) as reader:
        reader.take(1)
        database.run("INSERT INTO promoted VALUES (2)")
        reader.take(1)
        position = ChangesPosition.decode(reader.position)
    assert position.timeline > 0
    database.run("ALTER SYSTEM SET restore_command = 'false'")
    server.stop()
    # It takes its own log for an archive's, to whose end it goes, and begins a new timeline there.
    (server.log.parent / "data" / "recovery.signal").touch()
    server.start()
    database.run("ALTER SYSTEM RESET restore_command")
    database.run("INSERT INTO promoted VALUES (3)", "INSERT INTO promoted VALUES (4)")
    with reading(source, position.encode()) as reader:
        rows = reader.take(2)
        assert [row["id"] for row in rows] == [3, 4]
        assert ChangesPosition.decode(reader.position).timeline == position.timeline + 1
    ahead = msgspec.structs.replace(position, lsn=rows[0]["lsn"])
    with (
        pytest.raises(InputError, match="\\. Check whether this is another server, one restored"),
        reading(source, ahead.encode()) as reader,
    ):
        reader.take(1)


def test_a_slot_that_is_dropped_under_the_job_is_an_error(database: Database) -> None:
    database.run("CREATE TABLE dropped (id int PRIMARY KEY)")
    source = rh.postgres.changes("dropped", url=database.url)
    with reading(source) as reader:
        database.run("INSERT INTO dropped VALUES (1)")
        reader.take(1)

        def drop() -> bool:
            database.run(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
            )
            try:
                database.run("SELECT pg_drop_replication_slot('rheos_dropped')")
            except Exception:
                return False  # It reads again already.
            return True

        wait_for(drop)
        with pytest.raises(InputError, match="rheos_dropped no longer exists"):
            reader.take(1)


def test_a_table_that_is_changed_under_the_job_is_an_error(database: Database) -> None:
    database.run("CREATE TABLE altered (id int PRIMARY KEY, a text)")
    source = rh.postgres.changes("altered", url=database.url)
    chosen = rh.postgres.changes(
        "altered", url=database.url, slot="chosen", schema=pa.schema({"id": pa.int64()})
    )
    with reading(source) as reader, reading(chosen) as other:
        database.run("INSERT INTO altered VALUES (1, 'a')")
        reader.take(1)
        other.take(1)
        database.run("ALTER TABLE altered ADD b text", "INSERT INTO altered VALUES (2, 'b', 'c')")
        with pytest.raises(InputError, match=r"public\.altered was altered .* new column 'b'"):
            reader.take(1)
        assert other.take(1) == [{"id": 2, "op": "insert"}]
        database.run("ALTER TABLE altered ALTER id TYPE text", "INSERT INTO altered VALUES ('x')")
        with pytest.raises(InputError, match="the column 'id' has another type"):
            other.take(1)


def test_altered_columns_are_followed_by_the_next_run(database: Database) -> None:
    """The server sends the rows again in the form in which they were written."""
    database.run("CREATE TABLE moved (id int PRIMARY KEY, a text, price numeric(5,2))")

    def source() -> Any:
        return rh.postgres.changes("moved", url=database.url, on_schema_change="follow", snapshot=False)

    with reading(source()) as reader:
        database.run("INSERT INTO moved VALUES (1, 'a', 1.5)")
        reader.take(1)
        begin = reader.position
        database.run(
            "INSERT INTO moved VALUES (2, 'b', 2)",
            "ALTER TABLE moved ALTER price TYPE numeric(7,2), DROP a, ADD n int",
            "INSERT INTO moved VALUES (3, 99999.25, 3)",
        )
        assert [row["id"] for row in reader.take(1)] == [2]
        reason, position = reader.stopped()
        assert "'price' has another type: numeric(5,2) became numeric(7,2)" in reason
    last = {"id": 3, "price": Decimal("99999.25"), "n": 3, "op": "insert"}
    with reading(source(), position) as reader:
        assert reader.take(1) == [last]
    with reading(source(), begin) as reader:
        assert reader.take(2) == [{"id": 2, "price": Decimal(2), "n": None, "op": "insert"}, last]


def test_a_bounded_change_source_is_read_in_batch(database: Database) -> None:
    database.run(
        "CREATE TABLE bounded (id int PRIMARY KEY, page text)",
        "INSERT INTO bounded SELECT i, 'p' || i % 3 FROM generate_series(1, 100) i",
    )
    env = rh.Environment(runtime="simulated")
    pages = env.from_source(rh.postgres.changes("bounded", url=database.url, end="now"))
    pages.key_by("page").running(n=rh.agg.count()).collect("pages")
    found = env.execute("count").collected["pages"].to_pylist()
    assert max((row["n"] for row in found if row["page"] == "p1"), default=0) == 34


def test_the_last_checkpoint_of_a_bounded_source_releases_the_log(database: Database) -> None:
    database.run("CREATE TABLE ended (id int PRIMARY KEY)", "INSERT INTO ended VALUES (1)")
    rh.postgres.changes("ended", url=database.url).splits()  # From here on changes are kept.
    database.run("INSERT INTO ended VALUES (2)")
    with reading(rh.postgres.changes("ended", url=database.url, end="now")) as reader:
        assert [row["id"] for row in reader.rest()] == [1, 2]
        assert confirmed(database) < reader.lsn
        reader.client.completed({"rheos_ended": reader.position})
        assert confirmed(database) == reader.lsn
        reader.client.completed({"rheos_ended": reader.position})


def test_a_table_whose_updates_would_be_refused_is_not_published(database: Database) -> None:
    database.run(
        "CREATE TABLE nameless (id int, a text)",
        "CREATE TABLE parted (id int, a text) PARTITION BY LIST (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)",
        "CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    )
    for table, refused in [
        ("nameless", "nameless"),
        ("parted", "parted_1"),
        ("deferred", "deferred"),
        ("nothing", "nothing"),
    ]:
        source = rh.postgres.changes(table, url=database.url, snapshot=False)
        with pytest.raises(
            ConfigurationError,
            match=r"has no REPLICA IDENTITY",
        ) as raised:
            source.splits()
        assert f"ALTER TABLE {refused} REPLICA IDENTITY FULL" in str(raised.value)
        assert database.rows(f"SELECT 1 FROM pg_publication WHERE pubname = 'rheos_{table}'") == []
        database.run(f"ALTER TABLE {refused} REPLICA IDENTITY FULL")
        source.splits()
        database.run(f"UPDATE {table} SET id = id", f"DROP PUBLICATION rheos_{table}")


def test_generated_columns_are_left_out_and_identities_are_not(database: Database) -> None:
    database.run(
        "CREATE TABLE computed (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, "
        "twice int GENERATED ALWAYS AS (2 * n) STORED)",
        "INSERT INTO computed (n) VALUES (1)",
    )
    with reading(rh.postgres.changes("computed", url=database.url)) as reader:
        rows = reader.take(1)
        database.run("INSERT INTO computed (n) VALUES (2)")
        rows += reader.take(1)
    assert rows == [{"id": 1, "n": 1, "op": "snapshot"}, {"id": 2, "n": 2, "op": "insert"}]
    named = pa.schema({"id": pa.int64(), "twice": pa.int64()})
    with pytest.raises(SchemaError, match=r"the column 'twice' of public\.computed is generated"):
        rh.postgres.changes("computed", url=database.url, schema=named)


def test_a_table_with_inheriting_tables_is_refused(database: Database) -> None:
    database.run("CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child () INHERITS (parent)")
    with pytest.raises(ConfigurationError, match=r"other tables inherit from public\.parent, and"):
        rh.postgres.changes("parent", url=database.url)


def test_invalid_arguments_are_refused_at_their_line(database: Database) -> None:
    database.run(
        "CREATE TABLE plain (id int PRIMARY KEY, op text)", "CREATE TABLE keyless (id int, a text)"
    )

    def change(table: str = "plain", **more: Any) -> Any:
        return rh.postgres.changes(table, url=database.url, **more)

    wrong: list[tuple[Any, type[RheosError], str]] = [
        (lambda: change("nowhere"), ConfigurationError, "the table nowhere does not exist"),
        (lambda: change("keyless"), ConfigurationError, "no primary key"),
        (lambda: change(), SchemaError, "two columns are named 'op': one of the table, and one from"),
        (lambda: change(metadata=["when"]), ProgramError, "'when'"),
        (lambda: change(metadata=(), slot="No"), ProgramError, "slot='No'"),
        (lambda: change(metadata=(), end="then"), ProgramError, "end='then'"),
        (
            lambda: change(metadata=(), schema=pa.schema({"id": pa.date32()})),
            SchemaError,
            "is integer, but schema= has date32",
        ),
        (
            lambda: change(metadata=(), schema=pa.schema({"ident": pa.int64()})),
            SchemaError,
            "no column 'ident'",
        ),
    ]
    for build, kind, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            build()
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
    source = change(metadata={"op": "change"}, snapshot=False)
    assert source.schema.names == ["id", "op", "change"]
    shown = f"{source!r} {source.describe()}"
    assert database.password not in shown
    assert pickle.loads(pickle.dumps(source)) == source
    database.run("CREATE PUBLICATION rheos_plain FOR TABLE keyless")
    with pytest.raises(ConfigurationError, match=r"exists, but does not contain the table"):
        source.splits()


def test_a_job_whose_workers_crash_follows_a_table_into_another(database: Database) -> None:
    database.run(
        "CREATE TABLE followed (id int PRIMARY KEY, n int)",
        "INSERT INTO followed SELECT i, i FROM generate_series(1, 200) i",
    )

    def build(env: rh.Environment) -> Any:
        change = rh.postgres.changes("followed", url=database.url, end="now")
        rows = env.from_source(change, uid="changes")
        rows.sink_to(rh.postgres.sink("follows", url=database.url), uid="sink")
        return rows

    done = simulate(build, seed=5, faults=Faults(crash_slot=2.0, commit_error=0.2))
    assert done.crashes > 0
    assert database.rows("SELECT id, n, op FROM follows ORDER BY id") == [
        (n, n, "snapshot") for n in range(1, 201)
    ]
