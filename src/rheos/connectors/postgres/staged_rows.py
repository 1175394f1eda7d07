"""Epochs that are written but not committed: their rows are in staging tables on the target's server.

The staging schema contains

    rheos_stage_<owner and job>_<attempt>_<writer>_<number>   an epoch's rows
    rheos_epochs                                              the newest committed epoch of each writer

An epoch's table is created with its first rows, and dropped in the transaction that moves them to the
target and notes the epoch (PE2). A writer's name is drawn at random, and never used twice (PE1). Rows
that arrive while the server is down are in a file of the checkpoint directory (`spilled_rows.py`).
docs/protocols/postgres-sink.md has the protocol.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from rheos.connectors.postgres.connection import ServerSession, client, listed, quoted
from rheos.connectors.postgres.target_table import TargetTable
from rheos.connectors.staged_files import StagedRowsFile
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId

ROW = "rheos_row"
"""Column of an epoch's table with each row's number: the last row of a key wins."""
EPOCHS = "rheos_epochs"
_STAGE = re.compile(r"rheos_stage_[0-9a-f]{12}_([0-9a-f]{1,16})_[0-9a-f]{12}_[0-9a-f]{1,8}")
"""Pattern of the names of staging tables, which have at most 63 characters, PostgreSQL's limit.
Attempts of batch jobs are large numbers."""
_WRITER = re.compile(r"[0-9a-f]{12}")
_FILE = re.compile(r"\d+/[0-9a-f]{12}-\d+\.arrow")
_TOGETHER_EPOCHS = 256
_TOGETHER_BYTES = 64 << 20
"""Maximum number and size of the epochs that one transaction commits, unless one alone is larger."""
_KEPT_DAYS = 30
"""Days after which the note of a writer is removed if no committer reads it any more."""
_LOCK_WITHIN = "SET LOCAL lock_timeout TO '5s'"


class StagedTableRows(msgspec.Struct, frozen=True):
    """Committable: the rows that one writer staged at the barrier of one checkpoint."""

    job: str
    operator: str
    subtask: int
    attempt: int
    writer: str
    checkpoint: int
    rows: int
    staging_schema: str
    stage: str
    schema: str
    """Schema of the target table."""
    table: str
    columns: list[str]
    key: list[str]
    """Key of an upsert; empty to append rows."""
    gone: str | None = None
    """Boolean column of the staged rows: where it is true, the row with the same key is deleted."""
    spilled: StagedRowsFile | None = None
    """File with the last rows of the epoch, which the server could not take; None if it took all."""
    size_bytes: int = 0
    """Size of all rows in memory."""
    published: int = 0
    """The writer's newest checkpoint that was known to be committed at this one's barrier (PE7)."""

    @property
    def all_columns(self) -> list[str]:
        """Return the columns of the staged rows."""
        return [*self.columns, *([] if self.gone is None else [self.gone])]

    @property
    def rows_in_stage(self) -> int:
        """Return the number of rows that the epoch's table is known to have."""
        return self.rows - (0 if self.spilled is None else self.spilled.rows)

    @property
    def spill_sql(self) -> str:
        """Return the name of the table that contains the file's rows during a commit."""
        name = quoted(f"rheos_spill_{self.writer}_{self.checkpoint:x}")
        return f"{quoted(self.staging_schema)}.{name}"

    @property
    def source_sql(self) -> str:
        """Return a table expression for all rows of the epoch. Rows beyond `rows_in_stage` are
        excluded: they are of a COPY with an unknown outcome, so the file contains them, too."""
        if self.spilled is None:
            return self.stage_sql
        if not self.rows_in_stage:
            return self.spill_sql
        columns = listed([ROW, *self.all_columns])
        return (
            f"(SELECT {columns} FROM {self.stage_sql} WHERE {ROW} < {self.rows_in_stage} UNION ALL "
            f"SELECT {columns} FROM {self.spill_sql}) AS staged"
        )

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @property
    def target_sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def stage_sql(self) -> str:
        return f"{quoted(self.staging_schema)}.{quoted(self.stage)}"

    @property
    def epochs_sql(self) -> str:
        return f"{quoted(self.staging_schema)}.{EPOCHS}"


_decoder = msgspec.msgpack.Decoder(StagedTableRows)


def decode_staged(committable: bytes) -> StagedTableRows:
    """Decode a committable. Raises UnrestorableError if it is damaged."""
    try:
        staged = _decoder.decode(committable)
        assert _STAGE.fullmatch(staged.stage), f"its table is {staged.stage!r}"
        assert min(staged.attempt, staged.rows, staged.checkpoint - 1) >= 0, (
            "a number in it is negative"
        )
        assert staged.columns, "no columns"
        if staged.spilled is not None:
            assert _WRITER.fullmatch(staged.writer), f"its writer is {staged.writer!r}"
            assert _FILE.fullmatch(staged.spilled.path), f"its file is {staged.spilled.path!r}"
            assert 0 < staged.spilled.rows <= staged.rows, "a number of rows"
    except (msgspec.MsgspecError, ValueError, RecursionError, AssertionError) as error:
        raise UnrestorableError(
            f"the checkpoint's list of staged rows is damaged: {error}",
            hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
        ) from error
    return staged


def owner_of(folder: str) -> str:
    """Return an identity for a sink, derived from its folder, which no other sink has."""
    return hashlib.sha256(folder.encode()).hexdigest()[:16]


def stage_prefix(owner: str, job: JobId) -> str:
    return f"rheos_stage_{hashlib.sha256(f'{owner} {job}'.encode()).hexdigest()[:12]}_"


def make_epochs(session: ServerSession, staging_schema: str) -> None:
    """Create the table of epochs unless it exists."""
    session.run(
        f"CREATE TABLE IF NOT EXISTS {quoted(staging_schema)}.{EPOCHS} (job text NOT NULL, "
        "operator text NOT NULL, subtask integer NOT NULL, attempt bigint NOT NULL, "
        "writer text PRIMARY KEY, checkpoint bigint NOT NULL, rows bigint NOT NULL, "
        "committed_at timestamptz NOT NULL DEFAULT now())"
    )


@dataclass(frozen=True)
class StageTable:
    """Table of one epoch, while it is written."""

    sql: str
    definition: str
    columns: str

    @classmethod
    def of(
        cls,
        sql: str,
        table: TargetTable,
        columns: Sequence[str],
        key: Sequence[str],
        gone: str | None,
    ) -> StageTable:
        """Describe the table with the name `sql`. It has the target's types, NOT NULL and CHECK
        constraints, so that most rows which the target would refuse are refused before the checkpoint
        is complete. If a row deletes another one (`gone`), only its key must fit."""
        parts = [f"{ROW} bigint NOT NULL"]
        unless = ""
        if gone is not None:
            parts.append(f"{quoted(gone)} boolean NOT NULL")
            unless = f"{quoted(gone)} OR "
        for column in table.columns:
            if column.name not in columns:
                continue
            of_column = f"{quoted(column.name)} {column.type}"
            if column.name in key or (column.not_null and not unless):
                of_column += " NOT NULL"
            elif column.not_null:
                of_column += f" CHECK ({unless}{quoted(column.name)} IS NOT NULL)"
            parts.append(of_column)
        parts += [
            f"CONSTRAINT {check} CHECK ({unless}({condition}))"
            for check, condition, about in table.checks
            if about and set(about) <= set(columns)
        ]
        return cls(sql, ", ".join(parts), f"{ROW}, {listed(columns)}")

    def put(self, session: ServerSession, data: object, before: int) -> None:
        """Add rows in a transaction. `before` is the number of rows that were added earlier."""
        with session.transaction():
            if before == 0:
                session.run(f"CREATE TABLE IF NOT EXISTS {self.sql} ({self.definition})")
            self.copy(session, [data])

    def copy(self, session: ServerSession, parts: Iterable[object]) -> None:
        """Add rows as CSV."""
        session.copy_in(f"COPY {self.sql} ({self.columns}) FROM STDIN (FORMAT csv)", parts)

    def refuses(self, session: ServerSession, data: object) -> bool:
        """Return whether the table refuses rows because of their values. Adds nothing."""
        psycopg = client()
        try:
            with session.transaction(rolled_back=True):
                session.run(f"CREATE TABLE IF NOT EXISTS {self.sql} ({self.definition})")
                self.copy(session, [data])
        except (psycopg.DataError, psycopg.IntegrityError):
            return True
        return False

    def drop(self, session: ServerSession) -> None:
        session.run(f"DROP TABLE IF EXISTS {self.sql}")


def together(epochs: Sequence[StagedTableRows]) -> Iterator[list[StagedTableRows]]:
    """Yield epochs, the oldest first, in groups that one transaction commits. Epochs of a writer are
    grouped if the files have all of their rows: after an outage there may be hundreds."""
    group: list[StagedTableRows] = []
    for epoch in sorted(epochs, key=lambda epoch: (epoch.writer, epoch.checkpoint)):
        if group and not _may_join(group, epoch):
            yield group
            group = []
        group.append(epoch)
    if group:
        yield group


def _may_join(group: Sequence[StagedTableRows], epoch: StagedTableRows) -> bool:
    last = group[-1]
    return (
        len(group) < _TOGETHER_EPOCHS
        and sum(each.size_bytes for each in group) + epoch.size_bytes <= _TOGETHER_BYTES
        and not (last.rows_in_stage or epoch.rows_in_stage)
        and (last.writer, last.target_sql, last.all_columns, last.key, last.staging_schema)
        == (epoch.writer, epoch.target_sql, epoch.all_columns, epoch.key, epoch.staging_schema)
    )


def apply(
    session: ServerSession,
    epochs: Sequence[StagedTableRows],
    load: Callable[[ServerSession, StagedTableRows, Sequence[StagedTableRows]], None],
) -> None:
    """Move the rows of a group of epochs (`together`) to the target, once.

    Args:
        session: the connection.
        epochs: the group.
        load: function that creates the table of rows that were staged in files. It receives the
            session, the group combined into one epoch, and the epochs whose files it loads.

    Raises psycopg.Error, UnrestorableError, and the errors of `load`.
    """
    newest = epochs[-1]
    with session.transaction():
        session.run(
            f"INSERT INTO {newest.epochs_sql} (job, operator, subtask, attempt, writer, checkpoint, "
            "rows) VALUES (%s, %s, %s, %s, %s, 0, 0) ON CONFLICT (writer) DO NOTHING",
            [newest.job, newest.operator, newest.subtask, newest.attempt, newest.writer],
        )
        # PE3: any other committer of this writer waits here.
        [(mark,)] = session.rows(
            f"SELECT checkpoint FROM {newest.epochs_sql} WHERE writer = %s FOR UPDATE", [newest.writer]
        )
        for epoch in epochs:
            if mark < epoch.published:
                raise _forgotten(epoch, mark)
        left = [epoch for epoch in epochs if epoch.checkpoint > mark]
        if not left:
            return
        staged = _as_one(left)
        if staged.rows_in_stage:
            _check_stage(session, staged)
        if staged.spilled is not None:
            load(session, staged, left)
        if staged.gone is not None:
            session.run(_delete(staged, staged.gone))
        session.run(_insert(staged))
        session.run(
            f"UPDATE {staged.epochs_sql} SET checkpoint = %s, rows = rows + %s, committed_at = now() "
            "WHERE writer = %s",
            [staged.checkpoint, staged.rows, staged.writer],
        )
        session.run(f"DROP TABLE IF EXISTS {', '.join(epoch.stage_sql for epoch in left)}")
        if staged.spilled is not None:
            session.run(f"DROP TABLE {staged.spill_sql}")


def _as_one(epochs: Sequence[StagedTableRows]) -> StagedTableRows:
    """Combine epochs: return the newest one, with the number of rows of all."""
    if len(epochs) == 1:
        return epochs[0]
    rows = sum(epoch.rows for epoch in epochs)
    return msgspec.structs.replace(epochs[-1], rows=rows, spilled=StagedRowsFile("", rows, 0, b""))


def _check_stage(session: ServerSession, staged: StagedTableRows) -> None:
    if session.rows("SELECT to_regclass(%s) IS NULL", [staged.stage_sql]) == [(True,)]:
        raise lost(staged, f"their table {staged.stage_sql} no longer exists")
    beyond = "" if staged.spilled is None else f" WHERE {ROW} < {staged.rows_in_stage}"
    [(there,)] = session.rows(f"SELECT count(*) FROM {staged.stage_sql}{beyond}")
    if there != staged.rows_in_stage:
        raise lost(staged, f"their table {staged.stage_sql} has {there} rows")


def _insert(staged: StagedTableRows) -> str:
    columns, key = listed(staged.columns), listed(staged.key)
    if not staged.key:
        return (
            f"INSERT INTO {staged.target_sql} ({columns}) "
            f"SELECT {columns} FROM {staged.source_sql} ORDER BY {ROW}"
        )
    others = [quoted(name) for name in staged.columns if name not in staged.key]
    sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
    newest, there = _newest(staged), "" if staged.gone is None else f"WHERE NOT {quoted(staged.gone)} "
    # Sorted by key, so that concurrent commits with the same keys wait for each other without a
    # deadlock.
    return (
        f"INSERT INTO {staged.target_sql} ({columns}) SELECT {columns} FROM ({newest}) AS newest "
        f"{there}ORDER BY {key} ON CONFLICT ({key}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")
    )


def _delete(staged: StagedTableRows, gone: str) -> str:
    same = " AND ".join(f"target.{name} = newest.{name}" for name in map(quoted, staged.key))
    return (
        f"DELETE FROM {staged.target_sql} AS target USING ({_newest(staged)}) AS newest "
        f"WHERE newest.{quoted(gone)} AND {same}"
    )


def _newest(staged: StagedTableRows) -> str:
    """Return the query for the last row of each key."""
    key = listed(staged.key)
    return f"SELECT DISTINCT ON ({key}) * FROM {staged.source_sql} ORDER BY {key}, {ROW} DESC"


def lost(staged: StagedTableRows, why: str) -> UnrestorableError:
    """Return the error that rows of the epoch are neither in the target nor staged."""
    return UnrestorableError(
        f"{staged.rows} rows that were staged for checkpoint {staged.checkpoint} are not in the table "
        f"{staged.schema}.{staged.table}, and {why}",
        hint=_RESTORED,
    )


def table_gone(staged: StagedTableRows, message: str) -> UnrestorableError:
    """Return the error that the target, or the table of epochs, does not exist any more."""
    return UnrestorableError(
        f"checkpoint {staged.checkpoint} cannot be committed to the table "
        f"{staged.schema}.{staged.table}, and rows published before may be lost: {message}",
        hint=_RESTORED,
    )


def _forgotten(staged: StagedTableRows, mark: int) -> UnrestorableError:
    return UnrestorableError(
        f"the table {staged.schema}.{staged.table} has lost rows that were published: subtask "
        f"{staged.subtask} committed checkpoint {staged.published}, and {staged.epochs_sql} has "
        f"{'none' if mark == 0 else f'only checkpoint {mark}'}",
        hint=_RESTORED,
    )


_RESTORED = (
    "check whether the database was recreated, restored from a copy, or changed by hand. "
    "Restore a copy that has these rows; or empty the table, and start the job from a "
    "savepoint taken before them, or anew with another checkpoint directory"
)


def clear(
    session: ServerSession,
    schema: str,
    prefix: str,
    job: JobId,
    before: Attempt,
    keep: Sequence[StagedTableRows],
) -> None:
    """Drop the tables of attempts before `before`, except those of `keep`. Delete old notes, too."""
    psycopg = client()
    kept = {staged.stage for staged in keep}
    found = session.rows(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, %s)",
        [schema, prefix],
    )
    for (name,) in found:
        match = _STAGE.fullmatch(name)
        if match is None or int(match[1], 16) >= before or name in kept:
            continue
        try:
            with session.transaction():
                session.run(_LOCK_WITHIN)
                session.run(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(name)}")
        except psycopg.errors.LockNotAvailable:
            continue  # A replaced attempt still uses it. The next attempt tries again.
    session.run(
        f"DELETE FROM {quoted(schema)}.{EPOCHS} WHERE job = %s AND attempt < %s AND NOT "
        f"(writer = ANY (%s)) AND committed_at < now() - interval '{_KEPT_DAYS} days'",
        [job, before, [staged.writer for staged in keep]],
    )
