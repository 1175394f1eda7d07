"""The sink while its server is down: where rows are staged, and that each row is published once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psycopg
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.postgres import retrying, writing
from rheos.connectors.postgres.connection import ServerOptions, ServerSession
from rheos.connectors.postgres.staged_rows import StagedTableRows, StageTable, decode_staged
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.errors import InputError, RheosError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.ops.chaos.faulty_proxy import FaultyProxy
from rheos.runtimes.host.io import InlineIo
from tests.connectors.ports import ManualClock
from tests.connectors.postgres.databases import Database

SCHEMA = pa.schema({"key": pa.int64(), "n": pa.int64()})
JOB = JobId("job")
SEEDS = 10
WEIGHED = (*["write"] * 4, *["checkpoint", "commit"] * 2, "crash", "zombies")
AWAY = psycopg.OperationalError("server closed the connection unexpectedly")


def prepared(sink: Sink, folder: str = "sink") -> Sink:
    return sink.prepared(SCHEMA, ("job", "sink")).staged(f"memory://outages/{folder}")


def opened(sink: Sink, clock: ManualClock | None = None, attempt: int = 1) -> SinkWriter:
    return sink.open(
        SinkContext(
            job=JOB,
            attempt=Attempt(attempt),
            operator="op-1",
            subtask=0,
            clock=clock or ManualClock(),
            io=InlineIo(),
            schema=SCHEMA,
        )
    )


def rows(numbers: range, keys: int = 3) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"key": n % keys, "n": n} for n in numbers], SCHEMA)


def own_committer(writer: SinkWriter) -> Committer:
    committer = writer.committer()
    assert committer is not None
    return committer


def staged_by(writer: SinkWriter, checkpoint: int) -> StagedTableRows:
    [committable] = writer.prepare(CheckpointId(checkpoint))
    return decode_staged(committable)


def take_the_server_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server unreachable for writers, but not for committers, until the test ends."""

    def away(*args: object) -> None:
        raise AWAY

    monkeypatch.setattr(StageTable, "put", away)


@pytest.mark.proves("PostgreSQL", faults=["the server is unreachable"])
def test_rows_are_staged_in_files_during_an_outage_and_then_in_the_server(
    database: Database,
) -> None:
    database.run("CREATE TABLE away (key bigint, n bigint)")
    port = int(database.server.address.rpartition(":")[2])
    with FaultyProxy(port) as proxy:
        url = database.url.replace(database.server.address, f"127.0.0.1:{proxy.port}")
        clock = ManualClock()
        writer = opened(prepared(rh.postgres.sink("away", url=url)), clock)
        committer = own_committer(writer)
        writer.write(rows(range(3)))
        first = staged_by(writer, 1)
        assert first.spilled is None
        committer.commit([first.encoded()])
        database.server.kill()
        writer.write(rows(range(3, 5)))
        second = staged_by(writer, 2)
        assert second.spilled is not None
        assert (second.rows_in_stage, second.spilled.rows, second.published) == (0, 2, 1)
        with pytest.raises(UnavailableError):
            committer.commit([second.encoded()])
        database.server.start()
        clock.us += 60_000_000
        writer.write(rows(range(5, 6)))
        third = staged_by(writer, 3)
        assert third.spilled is not None  # No commit has shown that the server is back.
        committer.commit([second.encoded(), third.encoded()])
        writer.write(rows(range(6, 7)))
        fourth = staged_by(writer, 4)
        assert fourth.spilled is None
        committer.commit([fourth.encoded()])
        writer.close()
    assert database.rows("SELECT n FROM away ORDER BY n") == [(n,) for n in range(7)]
    assert database.rows("SELECT relname FROM pg_class WHERE relname ~ 'rheos_(stage|spill)'") == []


@pytest.mark.proves("PostgreSQL", faults=["the server is frozen"])
def test_a_silent_server_blocks_the_writer_only_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE frozen (key bigint, n bigint)")
    monkeypatch.setattr(writing, "_STAGED_WITHIN_S", 0.2)
    monkeypatch.setattr(writing, "_GATHER_ROWS", 1)
    port = int(database.server.address.rpartition(":")[2])
    with FaultyProxy(port) as proxy:
        url = database.url.replace(database.server.address, f"127.0.0.1:{proxy.port}")
        sink = prepared(rh.postgres.sink("frozen", url=url))
        writer = opened(sink)
        writer.write(rows(range(2)))
        proxy.freeze()
        for n in range(2, 30):
            writer.write(rows(range(n, n + 1)))
        staged = staged_by(writer, 1)
        assert staged.spilled is not None
        assert (staged.rows_in_stage, staged.spilled.rows) == (2, 28)
        proxy.thaw()
        own_committer(writer).commit([staged.encoded()])
        writer.close()
    assert database.rows("SELECT n FROM frozen ORDER BY n") == [(n,) for n in range(30)]


def test_a_writer_without_a_server_has_no_room_once_enough_is_staged(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE full_up (key bigint, n bigint)")
    monkeypatch.setattr(writing, "_AHEAD_BYTES", 1000)
    sink = prepared(rh.postgres.sink("full_up", url=database.url))
    nobody = ServerOptions.of("postgresql://ada@127.0.0.1:1/shop")
    monkeypatch.setattr(ServerOptions, "connect", lambda self, doing: _connect(nobody, doing))
    writer = opened(sink)
    writer.write(rows(range(10)))
    staged = writer.prepare(CheckpointId(1))
    writer.write(rows(range(100)))
    assert writer.has_room()  # The barrier for the commit is to come.
    with pytest.raises(UnavailableError):
        own_committer(writer).commit(staged)
    assert not writer.has_room()
    monkeypatch.undo()
    own_committer(writer).commit(staged)
    assert writer.has_room()
    writer.close()


def test_a_refused_row_of_an_outage_is_named_and_written_once_the_table_fits(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE strict_later (key bigint, n int CONSTRAINT small CHECK (n < 100))")
    sink = prepared(rh.postgres.sink("strict_later", url=database.url))
    writer = opened(sink)
    take_the_server_away(monkeypatch)
    writer.write(rows(range(98, 103)))
    staged = writer.prepare(CheckpointId(1))
    committer = sink.committer()
    assert committer is not None
    with pytest.raises(InputError, match='"strict_later" violates check constraint "small"') as raised:
        committer.commit(staged)
    assert raised.value.record == str({"key": 100 % 3, "n": 100})
    database.run("ALTER TABLE strict_later DROP CONSTRAINT small")
    committer.commit(staged)
    writer.close()
    assert database.rows("SELECT n FROM strict_later ORDER BY n") == [(n,) for n in range(98, 103)]


def test_files_of_earlier_attempts_are_removed_except_those_in_the_log(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE tidy (key bigint, n bigint)")
    sink = prepared(rh.postgres.sink("tidy", url=database.url))
    take_the_server_away(monkeypatch)
    kept, dropped = opened(sink), opened(sink)
    for writer in (kept, dropped):
        writer.write(rows(range(2)))
    in_log = kept.prepare(CheckpointId(1))
    gone = dropped.prepare(CheckpointId(1))
    committer = sink.committer()
    assert committer is not None
    committer.abort_stale(JOB, Attempt(2), in_log)
    committer.commit(in_log)
    with pytest.raises(UnrestorableError, match=r"2 rows .* does not exist"):
        committer.commit(gone)
    assert database.rows("SELECT n FROM tidy ORDER BY n") == [(0,), (1,)]


@pytest.mark.proves("PostgreSQL", faults=["the server loses rows that it had accepted"])
@pytest.mark.parametrize(
    ("done", "said"),
    [
        ("DROP TABLE reset_0", "may be lost: .*reset_0"),
        ("DROP TABLE rheos_epochs", 'relation "public.rheos_epochs" does not exist'),
        ("DELETE FROM rheos_epochs", "has lost rows that were published: .* has none"),
        ("UPDATE rheos_epochs SET checkpoint = 1", "has lost rows .* has only checkpoint 1"),
        ("DROP SCHEMA public CASCADE", "may be lost"),
    ],
)
@pytest.mark.parametrize("during_outage", [False, True])
def test_a_database_that_lost_published_rows_is_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch, done: str, said: str, during_outage: bool
) -> None:
    database.run("DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    database.run("CREATE TABLE reset_0 (key bigint, n bigint)")
    writer = opened(prepared(rh.postgres.sink("reset_0", url=database.url)))
    committer = own_committer(writer)
    for checkpoint in (1, 2):
        writer.write(rows(range(checkpoint, checkpoint + 1)))
        committer.commit(writer.prepare(CheckpointId(checkpoint)))
    writer.write(rows(range(3, 4)))
    if during_outage:
        take_the_server_away(monkeypatch)
    staged = writer.prepare(CheckpointId(3))
    database.run(done)
    with pytest.raises(UnrestorableError, match=said) as raised:
        committer.commit(staged)
    assert "check whether the database was recreated, restored from a copy, or" in str(raised.value)
    writer.close()
    database.run("CREATE SCHEMA IF NOT EXISTS public")


@dataclass
class Failing:
    """Simulated server: operations that fail, and transactions that end later than their client."""

    rng: Random
    url: str
    up: bool = True
    zombies: list[tuple[Any, bool]] = field(default_factory=list)
    """Connections with an open transaction, and whether that creates a table."""

    def connect(self, options: ServerOptions, doing: str) -> FailingSession:
        if not self.up or self.rng.random() < 0.1:
            raise UnavailableError(f"{doing}: nobody is there")
        real = _connect(options, doing)
        return FailingSession(real.connection, self)

    def end_zombies(self, *, creating: bool) -> None:
        for connection, creates in list(self.zombies):
            if creates and not creating:
                continue
            self.zombies.remove((connection, creates))
            with suppress(psycopg.Error):
                connection.execute("COMMIT" if self.rng.random() < 0.7 else "ROLLBACK")
            connection.close()


_connect = ServerOptions.connect


class FailingSession(ServerSession):
    def __init__(self, connection: Any, server: Failing) -> None:
        super().__init__(connection)
        self._server = server
        self._created = self._copied = False

    def run(self, sql: str, values: Any = None) -> int:
        self._fail()
        self._created |= sql.startswith("CREATE TABLE IF NOT EXISTS")
        return super().run(sql, values)

    def copy_in(self, sql: str, parts: Any) -> None:
        self._fail()
        self._copied = "rheos_stage" in sql
        super().copy_in(sql, parts)

    @contextmanager
    def transaction(self, *, rolled_back: bool = False) -> Iterator[None]:
        rng, server = self._server.rng, self._server
        self._created = self._copied = False
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.execute("ROLLBACK")
            raise
        chance = rng.random()
        if rolled_back or chance < 0.15:
            self.connection.execute("ROLLBACK")
        elif chance < 0.3 and self._copied:
            server.zombies.append((self.connection, self._created))
            self.connection = SimpleClosed()
        else:
            self.connection.execute("COMMIT")
        if not rolled_back and chance < 0.4:
            raise AWAY

    def _fail(self) -> None:
        if not self._server.up or self._server.rng.random() < 0.04:
            raise AWAY


class SimpleClosed:
    """Connection whose client is lost."""

    closed = broken = True

    def close(self) -> None:
        pass


@pytest.mark.proves("PostgreSQL", faults=["calls fail, and their answers are lost"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_each_row_is_published_once_after_any_failure(
    database: Database, monkeypatch: pytest.MonkeyPatch, mode: Literal["append", "upsert"]
) -> None:
    monkeypatch.setattr(retrying.time, "sleep", lambda pause_s: None)
    monkeypatch.setattr(writing, "_GATHER_ROWS", 2)
    seen = {"spilled": 0, "parted": 0, "zombies": 0}
    for seed in range(SEEDS):
        table = f"world_{mode}_{seed}"
        key = ", PRIMARY KEY (key)" if mode == "upsert" else ""
        database.run(f"CREATE TABLE {table} (key bigint, n bigint{key})")
        by = {"key": "key"} if mode == "upsert" else {}
        sink = prepared(rh.postgres.sink(table, url=database.url, mode=mode, **by), table)
        server = Failing(Random(seed), database.url)
        with monkeypatch.context() as patched:
            patched.setattr(
                ServerOptions,
                "connect",
                lambda options, doing, server=server: server.connect(options, doing),
            )
            published = _live(sink, server, seen)
        if mode == "append":
            found = database.rows(f"SELECT n FROM {table} ORDER BY n")
            assert found == [(n,) for n in range(published)], seed
        else:
            newest = {n % 3: n for n in range(published)}
            assert dict(database.rows(f"SELECT key, n FROM {table}")) == newest, seed
    assert min(seen.values()) >= 3, seen


def _live(sink: Sink, server: Failing, seen: dict[str, int]) -> int:
    """Run a job for its whole life. Return the number of published rows."""
    rng, clock = server.rng, ManualClock()
    attempt, checkpoint, written, position = 1, 0, 0, 0
    staged: list[bytes] = []
    """By the writer, and not committed."""
    in_log: list[bytes] = []
    """Of those, what complete checkpoints have."""
    writer = opened(sink, clock)
    left: list[SinkWriter] = []

    def recovered() -> None:
        committer = sink.committer()
        assert committer is not None
        for step in range(100):
            server.end_zombies(creating=False)
            server.up = server.up or step > 3
            with suppress(UnavailableError):
                committer.commit(in_log)
                committer.abort_stale(JOB, Attempt(attempt), in_log)
                return
        raise AssertionError("no recovery in a hundred tries")

    for _ in range(40):
        clock.us += rng.randrange(3_000_000)
        server.up = rng.random() < (0.9 if server.up else 0.3)
        match rng.choice(WEIGHED):
            case "write":
                count = rng.randrange(1, 9)
                writer.write(rows(range(written, written + count)))
                written += count
            case "checkpoint":
                checkpoint += 1
                staged += writer.prepare(CheckpointId(checkpoint))
                for each in map(decode_staged, staged):
                    seen["spilled"] += each.spilled is not None
                    seen["parted"] += each.spilled is not None and each.rows_in_stage > 0
                if rng.random() < 0.8:  # Else the checkpoint fails, and the next one lists it, too.
                    position, in_log = written, list(staged)
            case "commit":
                seen["zombies"] += len(server.zombies)
                server.end_zombies(creating=False)
                with suppress(UnavailableError):
                    own_committer(writer).commit(in_log)
                    staged = staged[len(in_log) :]
                    in_log = []
            case "crash":
                attempt += 1
                left.append(writer)
                recovered()
                staged, in_log, written = [], [], position
                writer = opened(sink, clock, attempt)
            case "zombies":
                server.end_zombies(creating=True)
    server.up = True
    server.end_zombies(creating=True)
    in_log = [*staged, *writer.prepare(CheckpointId(checkpoint + 1))]
    attempt += 1
    recovered()
    for old in [*left, writer]:
        with suppress(RheosError):
            old.close()
    server.end_zombies(creating=True)
    return written
