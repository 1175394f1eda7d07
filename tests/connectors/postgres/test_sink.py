"""Tables as a sink on the real server: content after each checkpoint, and what is refused."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.postgres import retrying
from rheos.connectors.postgres.connection import ServerOptions
from rheos.connectors.postgres.staged_rows import StageTable
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.errors import (
    ConfigurationError,
    FencedError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.testing import Faults, simulate
from tests.connectors.postgres.databases import Database

SCHEMA = pa.schema({"page": pa.string(), "n": pa.int64()})
ONLY_PAGE = pa.schema({"page": pa.string()})
JOB = JobId("job")


def prepared(sink: Sink, schema: pa.Schema = SCHEMA) -> Sink:
    return sink.prepared(schema, ("job", "sink")).staged("memory://checkpoints/sink")


def opened(
    sink: Sink, schema: pa.Schema = SCHEMA, counts: Counter[str] | None = None, attempt: int = 1
) -> SinkWriter:
    counted = Counter() if counts is None else counts
    return sink.open(
        SinkContext(
            job=JOB,
            attempt=Attempt(attempt),
            operator="op-1",
            subtask=0,
            clock=SimClock(),
            io=InlineIo(),
            schema=schema,
            name="counts",
            count=lambda name, by: counted.update({name: by}),
        )
    )


def rows(*pairs: tuple[str | None, int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"page": page, "n": n} for page, n in pairs], SCHEMA)


def commit(sink: Sink, staged: Sequence[bytes]) -> None:
    committer = sink.committer()
    assert committer is not None
    committer.commit(staged)


def stages(database: Database) -> list[tuple[Any, ...]]:
    return database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'rheos_stage%'")


def test_the_last_row_of_each_key_is_kept(database: Database) -> None:
    database.run("CREATE TABLE counts (page text PRIMARY KEY, n int, seen text DEFAULT 'kept')")
    database.run("INSERT INTO counts VALUES ('b', 0, 'before'), ('z', 26, 'before')")
    sink = prepared(rh.postgres.sink("counts", url=database.url, mode="upsert", key="page"))
    writer = opened(sink)
    writer.write(rows(("a", 1), ("b", 2), ("a", 3)))
    writer.write(rows(("c", 1), ("a", 4)))
    first = writer.prepare(CheckpointId(1))
    writer.write(rows(("c", None), ("b", 5)))
    second = writer.prepare(CheckpointId(2))
    commit(sink, [*second, *first])
    writer.close()
    assert database.rows("SELECT * FROM counts ORDER BY page") == [
        ("a", 4, "kept"),
        ("b", 5, "before"),
        ("c", None, "kept"),
        ("z", 26, "before"),
    ]
    assert stages(database) == []
    assert database.rows(
        "SELECT job, operator, attempt, subtask, checkpoint, rows FROM rheos_epochs"
    ) == [("job", "op-1", 1, 0, 2, 7)]


def test_deletes_are_applied_with_their_epoch(database: Database) -> None:
    database.run("CREATE TABLE there (page text PRIMARY KEY, n int NOT NULL CHECK (n > 0), seen text)")
    database.run("INSERT INTO there VALUES ('b', 2, 'before'), ('z', 26, 'before')")
    made = rh.postgres.sink("there", url=database.url, mode="upsert", key="page")
    schema = SCHEMA.append(pa.field("deleted", pa.bool_()))
    sink = prepared(made.of_changes(["page"], "deleted"), schema)
    writer = opened(sink, schema)

    def given(*changes: tuple[str, int | None, bool]) -> pa.RecordBatch:
        columns = [list(values) for values in zip(*changes, strict=True)]
        return pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )

    writer.write(given(("a", 1, False), ("b", None, True), ("c", 1, False), ("c", None, True)))
    writer.write(given(("d", None, True), ("d", 4, False)))
    commit(sink, writer.prepare(CheckpointId(1)))
    assert database.rows("SELECT * FROM there ORDER BY page") == [
        ("a", 1, None),
        ("d", 4, None),
        ("z", 26, "before"),
    ]
    writer.write(given(("e", None, False)))
    with pytest.raises(InputError, match="rejects a row"):
        writer.prepare(CheckpointId(2))
    writer.close()


def test_changes_are_written_by_the_tables_key(database: Database) -> None:
    rows = rh.Environment(1).from_source(rh.collection([{"id": 1, "n": 2}]))
    table = rows.key_by("id").table(n=rh.agg.count())
    for written in ({"mode": "append"}, {"mode": "upsert", "key": "n"}):
        sink = rh.postgres.sink("counts", url=database.url, **written)  # type: ignore[arg-type]
        with pytest.raises(ProgramError, match="changes of a table with the key id"):
            table.sink_to(sink)


def test_each_row_is_written_once_despite_failed_commits_and_crashes(
    database: Database,
) -> None:
    def numbers(block: Any) -> Any:
        return {"n": block.number()}

    def build(env: rh.Environment) -> Any:
        made = env.from_source(rh.generator(numbers, count=300, rate_per_s=100))
        made.sink_to(rh.postgres.sink("numbers", url=database.url))
        return made

    done = simulate(build, seed=3, faults=Faults(crash_slot=2.0, commit_error=0.3))
    assert done.crashes > 0
    written = database.rows("SELECT n FROM numbers ORDER BY n")
    assert written == [(n,) for n in sorted(done.out["n"].to_pylist())]
    assert len(written) == 300


def test_a_server_that_restarts_is_waited_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE restarted (page text, n bigint)")
    counts: Counter[str] = Counter()
    sink = prepared(rh.postgres.sink("restarted", url=database.url))
    writer = opened(sink, counts=counts)
    own = writer.committer()
    assert own is not None
    writer.write(rows(("a", 1)))
    own.commit(writer.prepare(CheckpointId(1)))
    writer.write(rows(("b", 2)))
    database.server.kill()
    staged = writer.prepare(CheckpointId(2))
    for _ in range(2):
        with pytest.raises(UnavailableError):
            own.commit(staged)
    monkeypatch.setattr(retrying.time, "sleep", lambda pause_s: database.server.start())
    commit(sink, staged)  # A driver that recovers waits.
    own.commit(staged)
    own.commit(staged)
    writer.prepare(CheckpointId(3))
    writer.close()
    assert database.rows("SELECT * FROM restarted ORDER BY n") == [("a", 1), ("b", 2)]
    assert counts["server_away"] == 1
    assert counts["retries"] >= 2


def test_a_server_that_stays_away_ends_the_attempt(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying.time, "sleep", lambda pause_s: None)
    nobody = rh.postgres.sink("counts", url="postgresql://ada:secret-word@127.0.0.1:1/shop")
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1/shop") as raised:
        prepared(nobody)
    assert "secret-word" not in str(raised.value)


def test_rows_are_staged_once_if_the_answer_was_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    database.run("CREATE TABLE answers (page text, n bigint)")
    sink = prepared(rh.postgres.sink("answers", url=database.url))
    put = StageTable.put
    lost = iter((True, False, True))

    def put_and_lose(*given: Any, **more: Any) -> None:
        put(*given, **more)
        if next(lost, False):
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(StageTable, "put", put_and_lose)
    writer = opened(sink)
    writer.write(rows(("a", 1), ("b", 2)))
    first = writer.prepare(CheckpointId(1))
    writer.write(rows(("c", 3)))
    commit(sink, [*first, *writer.prepare(CheckpointId(2))])
    writer.close()
    assert database.rows("SELECT * FROM answers ORDER BY n") == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("longer\nthan five", 1), r"column page.*too long for type character varying\(5\)"),
        ((None, 1), "column page.*not-null"),
        (("odd", 1), 'relation "strict" violates check constraint "even"'),
        (("big", 2**40), "column n.*out of range"),
        (("a\0b", 2), "zero byte"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_before_its_checkpoint(
    database: Database, row: tuple[str | None, int], said: str
) -> None:
    database.run(
        "DROP TABLE IF EXISTS strict",
        "CREATE TABLE strict (page varchar(5) NOT NULL, n int CONSTRAINT even CHECK (n % 2 = 0))",
    )
    sink = prepared(rh.postgres.sink("strict", url=database.url))
    writer = opened(sink)
    writer.write(rows(("a\nb", 2), ("c", 4)))
    writer.write(rows(row, ("d", 6)))
    with pytest.raises(InputError, match=r"public\.strict") as raised:
        writer.prepare(CheckpointId(1))
    writer.close()
    message = str(raised.value).replace("\n", " ")
    assert re.search(said, message), message
    assert raised.value.record == str({"page": row[0], "n": row[1]})
    assert raised.value.hint
    assert database.rows("SELECT * FROM strict") == []
    assert stages(database) == []


def test_a_row_that_violates_a_unique_index_fails_the_whole_epoch(
    database: Database,
) -> None:
    database.run("CREATE TABLE single (page text UNIQUE, n bigint)")
    database.run("INSERT INTO single VALUES ('b', 1)")
    sink = prepared(rh.postgres.sink("single", url=database.url))
    writer = opened(sink)
    writer.write(rows(("a", 1), ("b", 2)))
    staged = writer.prepare(CheckpointId(7))
    with pytest.raises(InputError) as raised:
        commit(sink, staged)
    assert "public.single rejects a row; checkpoint 7" in str(raised.value)
    assert "Key (page)=(b) already exists" in str(raised.value)
    assert 'mode="upsert"' in str(raised.value)
    assert database.rows("SELECT * FROM single") == [("b", 1)]
    # Once the table is put right, the same checkpoint is committed.
    database.run("DELETE FROM single")
    commit(sink, staged)
    writer.close()
    assert database.rows("SELECT * FROM single ORDER BY n") == [("a", 1), ("b", 2)]


def test_attempts_of_batch_jobs_have_large_numbers(database: Database) -> None:
    database.run("CREATE TABLE large (page text, n bigint)")
    sink = prepared(rh.postgres.sink("large", url=database.url))
    attempt = 2**63 - 1
    writer, left = opened(sink, attempt=attempt), opened(sink, attempt=attempt)
    for each in (writer, left):
        each.write(rows(("a", 1)))
    staged = writer.prepare(CheckpointId(1))
    left.prepare(CheckpointId(1))
    committer = sink.committer()
    assert committer is not None
    committer.abort_stale(JOB, Attempt(attempt), [])
    assert len(stages(database)) == 2
    commit(sink, staged)
    writer.close()
    left.close()
    assert database.rows("SELECT * FROM large") == [("a", 1)]
    database.run(f'DROP TABLE "{stages(database)[0][0]}"')


def test_missing_stages_and_targets_are_errors(database: Database) -> None:
    database.run("CREATE TABLE lost (page text, n bigint)")
    sink = prepared(rh.postgres.sink("lost", url=database.url))
    writer = opened(sink)
    writer.write(rows(("a", 1)))
    staged = writer.prepare(CheckpointId(1))
    committer = sink.committer()
    assert committer is not None
    committer.abort_stale(JOB, Attempt(2), [])
    assert stages(database) == []
    with pytest.raises(UnrestorableError, match="checkpoint 1 are not in the table"):
        commit(sink, staged)
    with pytest.raises(UnrestorableError, match="the checkpoint's list of staged rows is damaged"):
        commit(sink, [b"\x80"])
    writer.write(rows(*[("b", n) for n in range(40_000)]))
    committer.abort_stale(JOB, Attempt(2), [])
    writer.write(rows(("c", 3)))
    with pytest.raises(FencedError):
        writer.prepare(CheckpointId(2))
    writer.close()
    assert database.rows("SELECT * FROM lost") == []


def test_a_stage_with_missing_rows_is_an_error(database: Database) -> None:
    database.run("CREATE TABLE fewer (page text, n bigint)")
    sink = prepared(rh.postgres.sink("fewer", url=database.url))
    writer = opened(sink)
    writer.write(rows(("a", 1), ("b", 2)))
    staged = writer.prepare(CheckpointId(1))
    [(stage,)] = stages(database)
    database.run(f'DELETE FROM "{stage}" WHERE n = 2')
    with pytest.raises(UnrestorableError, match=r"2 rows .* has 1 rows"):
        commit(sink, staged)
    writer.close()
    assert database.rows("SELECT * FROM fewer") == []
    database.run(f'DROP TABLE "{stage}"')


@pytest.mark.parametrize(("server", "session"), [("off", "on"), ("on", "on"), ("local", "local")])
def test_commits_are_durable_with_any_server_default(
    database: Database, server: str, session: str
) -> None:
    database.run(f"ALTER DATABASE {database.name} SET synchronous_commit TO {server}")
    connected = ServerOptions.of(database.url).connect("it cannot be reached")
    try:
        assert connected.rows("SHOW synchronous_commit") == [(session,)]
    finally:
        connected.close()
        database.run(f"ALTER DATABASE {database.name} RESET synchronous_commit")


def test_concurrent_creation_of_a_stage_is_not_a_rows_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    class InTheCatalog(psycopg.errors.UniqueViolation):
        diag: Any = SimpleNamespace(
            message_primary='duplicate key value violates "pg_type_typname_nsp_index"',
            message_detail=None,
            column_name=None,
            schema_name="pg_catalog",
            constraint_name="pg_type_typname_nsp_index",
        )

    database.run("CREATE TABLE at_once (page text, n bigint)")
    sink = prepared(rh.postgres.sink("at_once", url=database.url))
    put = StageTable.put
    fails = iter([True])

    def fail_and_put(*given: Any, **more: Any) -> None:
        if next(fails, False):
            raise InTheCatalog("duplicate key value")
        put(*given, **more)

    monkeypatch.setattr(StageTable, "put", fail_and_put)
    writer = opened(sink)
    writer.write(rows(("a", 1)))
    commit(sink, writer.prepare(CheckpointId(1)))
    writer.close()
    assert database.rows("SELECT * FROM at_once") == [("a", 1)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("(page text)", "has no column 'n'"),
        ("(page text, n text)", "is text, but the rows have int64"),
        ("(page int, n bigint)", "'page' .* is integer, but the rows have string"),
        ("(page text, n bigint GENERATED ALWAYS AS IDENTITY)", "'n' .* is generated"),
        ("(page text, n bigint, more int NOT NULL)", "requires a value for 'more'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(database: Database, table: str, message: str) -> None:
    database.run("DROP TABLE IF EXISTS misfit", f"CREATE TABLE misfit {table}")
    with pytest.raises(SchemaError, match=message):
        prepared(rh.postgres.sink("misfit", url=database.url))


def test_evolve_adds_columns_and_commits_rows_that_were_staged_without_them(database: Database) -> None:
    database.run("CREATE TABLE grows (page text PRIMARY KEY)")
    before = prepared(rh.postgres.sink("grows", url=database.url, key="page"), ONLY_PAGE)
    writer = opened(before, ONLY_PAGE)
    writer.write(pa.RecordBatch.from_pydict({"page": ["a"]}))
    staged = writer.prepare(CheckpointId(1))
    writer.close()
    sink = prepared(rh.postgres.sink("grows", url=database.url, key="page", evolve=True))
    commit(sink, staged)
    writer = opened(sink)
    writer.write(rows(("b", 2)))
    commit(sink, writer.prepare(CheckpointId(2)))
    writer.close()
    assert database.rows("SELECT page, n FROM grows ORDER BY page") == [("a", None), ("b", 2)]
    with pytest.raises(ProgramError, match="evolve='yes' is neither True nor False"):
        rh.postgres.sink("grows", url=database.url, evolve="yes")  # type: ignore[arg-type]


def test_an_upsert_requires_a_unique_key(database: Database) -> None:
    database.run("CREATE TABLE keyless (page text, n bigint)")
    sink = rh.postgres.sink("keyless", url=database.url, mode="upsert", key=["page", "n"])
    with pytest.raises(ConfigurationError, match=r"has no primary key or unique index on page, n"):
        prepared(sink)
    database.run("ALTER TABLE keyless ADD CONSTRAINT late UNIQUE (n, page) DEFERRABLE")
    with pytest.raises(ConfigurationError, match=r"has no primary key or unique index on page, n"):
        prepared(sink)
    database.run("CREATE UNIQUE INDEX ON keyless (n, page)")
    prepared(sink)


def test_invalid_arguments_are_refused_at_their_line(database: Database) -> None:
    url = database.url
    for build, message in [
        (lambda: rh.postgres.sink("a.b.c", url=url), "is not a valid table name"),
        (lambda: rh.postgres.sink("t", url=url, mode="merge"), "mode='merge'"),
        (lambda: rh.postgres.sink("t", url=url, mode="upsert"), 'mode="upsert" needs a key'),
        (lambda: rh.postgres.sink("t", url=url, mode="append", key="page"), 'needs mode="upsert"'),
        (lambda: rh.postgres.sink("t", url="secret-word"), "libpq cannot parse url= or options="),
        (lambda: rh.postgres.sink("t", url=url, options={"replication": "database"}), "set by Rheos"),
    ]:
        with pytest.raises(ProgramError, match=message) as raised:
            build()
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
    sink = rh.postgres.sink("t", url=url, mode="upsert", key="key")
    with pytest.raises(SchemaError, match="the key column 'key' does not exist"):
        sink.validate(SCHEMA)
    with pytest.raises(SchemaError, match="which PostgreSQL cannot store"):
        sink.validate(pa.schema({"key": pa.list_(pa.int64())}))


def test_secrets_are_sent_and_not_shown(database: Database) -> None:
    sink = prepared(rh.postgres.sink("hidden", url=database.url, options={"sslmode": "prefer"}))
    shown = f"{sink!r} {sink.describe()} {sink.committer()!r}"
    assert database.password not in shown
    assert f"{database.server.address}/{database.name}" in shown
    opened(pickle.loads(pickle.dumps(sink))).close()
    guessed = rh.postgres.sink("t", url=database.url.replace(database.password, "guessed-word"))
    with pytest.raises(ConfigurationError, match="password authentication failed") as raised:
        prepared(guessed)
    assert "guessed-word" not in str(raised.value)
