"""Writer that stages a subtask's rows, and the committer."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.postgres.column_types import as_csv
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client, quoted
from rheos.connectors.postgres.errors import of_catalog, postgres_error
from rheos.connectors.postgres.exact_times import exact_times
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.spilled_rows import SpilledStaging, find_refused
from rheos.connectors.postgres.staged_rows import (
    StagedTableRows,
    StageTable,
    apply,
    clear,
    decode_staged,
    owner_of,
    stage_prefix,
    table_gone,
    together,
)
from rheos.connectors.postgres.target_table import TargetTable
from rheos.connectors.staged_files import (
    StagedFileWriter,
    StagedRowsFile,
    StagingRoom,
    staging_error,
)
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.backoff import Backoff
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.errors import CheckpointError, FencedError, RheosError, UnavailableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.redaction import redacted_repr

LOGGER = logging.getLogger("rheos.sinks")
SERVER_AWAY = "server_away"
_GATHER_ROWS = 32_768
_GATHER_BYTES = 8 << 20
_AHEAD_BYTES = 256 << 20
"""Maximum bytes staged while a commit runs or is retried, unless the commit itself is larger. At this
limit the writer accepts no more rows, and they wait."""
_STAGED_WITHIN_S = 5.0
"""Seconds without progress after which the writer treats the server as down and writes rows to a file.
The subtask is blocked for that time."""
_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 60_000_000
_FOR_EVER_US = 1 << 62
_COLUMN = re.compile(r"line \d+, column ([^:]+)")


@dataclass(frozen=True, repr=False)
class PostgresTarget:
    """Configuration of the table for writers and committers."""

    options: ServerOptions
    key: tuple[str, ...]
    table: TargetTable
    staging_schema: str
    gone: str | None = None
    """Boolean column of the rows: where it is true, the row with the same key is deleted."""
    owner: str = ""
    folder: str = ""
    """Folder for rows that are staged while the server is down."""

    __repr__ = redacted_repr

    @property
    def doing(self) -> str:
        """Return the beginning of error messages."""
        return f"the table {self.table} cannot be written"

    def in_folder(self, folder: str) -> PostgresTarget:
        return replace(self, owner=owner_of(folder), folder=folder)


class TableStagingWriter(SinkWriter):
    """Writer that stages each epoch in a table. Its name is generated when it is opened (PE1).

    If the server is down, the rest of the epoch is staged in a file, and so are the epochs after it,
    until a commit has succeeded.
    """

    def __init__(self, target: PostgresTarget, ctx: SinkContext) -> None:
        self._target = target
        self._ctx = ctx
        self._name = uuid4().hex[:12]
        self._session = RetryingSession(
            target.options, target.doing, retries=False, hasty_s=_STAGED_WITHIN_S
        )
        self._room = StagingRoom(_AHEAD_BYTES)
        self._committer = OwnRowsCommitter(target, self._room)
        self._batches: list[Batch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._number = 0
        self._stage = self._new_stage()
        self._stage_rows = 0
        """Number of rows that the epoch's table has."""
        self._file = StagedFileWriter(SinkFolder(target.folder))
        self._epoch_bytes = 0
        self._staged_bytes = 0
        """Size of everything that the writer has staged."""
        self._pauses = Backoff(_FOR_EVER_US, first_us=_FIRST_PAUSE_US, longest_us=_LONGEST_PAUSE_US)
        self._away_since: tuple[int, int] | None = None
        """Data about an outage of the server: the number of commits that had succeeded at the failure,
        and the time before which the writer does not retry. None while the server is available."""

    def committer(self) -> Committer:
        return self._committer

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _GATHER_ROWS or self._gathered_bytes >= _GATHER_BYTES:
            self._put()

    def has_room(self) -> bool:
        return self._room.has_room(self._staged_bytes + self._gathered_bytes)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._put()
        spilled = self._finish_file() if self._file.is_open else None
        for counts in (self._session.counted(), self._committer.session.counted()):
            for name, count in counts.items():
                self._ctx.count(name, count)
        rows = self._stage_rows + (0 if spilled is None else spilled.rows)
        if not rows:
            return []
        ctx, target = self._ctx, self._target
        staged = StagedTableRows(
            job=ctx.job,
            operator=ctx.operator,
            subtask=ctx.subtask,
            attempt=ctx.attempt,
            writer=self._name,
            checkpoint=checkpoint,
            rows=rows,
            staging_schema=target.staging_schema,
            stage=self._stage_name(),
            schema=target.table.schema,
            table=target.table.name,
            columns=[name for name in ctx.schema.names if name != target.gone],
            key=list(target.key),
            gone=target.gone,
            spilled=spilled,
            size_bytes=self._epoch_bytes,
            published=self._committer.published,
        )
        self._number += 1
        self._stage, self._stage_rows, self._epoch_bytes = self._new_stage(), 0, 0
        return [staged.encoded()]

    def close(self) -> None:
        self._file.abandon()
        try:
            if self._stage_rows and self._away_since is None:
                self._session.do(self._stage.drop)
        except RheosError:
            pass  # The server is down: the next attempt drops it.
        finally:
            self._session.close()
            self._committer.session.close()

    def _stage_name(self) -> str:
        prefix = stage_prefix(self._target.owner, self._ctx.job)
        return f"{prefix}{self._ctx.attempt:x}_{self._name}_{self._number:x}"

    def _new_stage(self) -> StageTable:
        target = self._target
        sql = f"{quoted(target.staging_schema)}.{quoted(self._stage_name())}"
        return StageTable.of(sql, target.table, self._ctx.schema.names, target.key, target.gone)

    def _put(self) -> None:
        batches, self._batches, self._gathered_rows, self._gathered_bytes = self._batches, [], 0, 0
        if not batches:
            return
        table = pa.Table.from_batches(batches, self._ctx.schema).combine_chunks()
        for rows in table.to_batches():
            self._epoch_bytes += rows.nbytes
            self._staged_bytes += rows.nbytes
            if not (self._server_is_tried() and self._stage_in_server(rows)):
                self._spill(rows)

    def _server_is_tried(self) -> bool:
        """Return whether rows are sent to the server. They are not if the file already has rows of the
        epoch."""
        if self._file.is_open:
            return False
        if self._away_since is None:
            return True
        commits, not_before_us = self._away_since
        return self._committer.commits > commits and self._ctx.clock.monotonic_us() >= not_before_us

    def _stage_in_server(self, rows: Batch) -> bool:
        """Stage rows in the epoch's table. Return False if the server is down: it is unknown then
        whether the table has them (PE5)."""
        before = self._stage_rows
        data = as_csv(rows, pa.array(np.arange(before, before + rows.num_rows, dtype=np.int64)))

        def put(session: ServerSession) -> None:
            try:
                self._stage.put(session, data, before)
            except client().errors.UndefinedTable as error:
                raise self._fenced() from error
            except (client().DataError, client().IntegrityError) as error:
                if of_catalog(error):
                    raise
                row = find_refused(rows, lambda data: self._stage.refuses(session, data))
                raise refused_row(error, self._target, self._stage.sql, rows, row) from error

        now_us = self._ctx.clock.monotonic_us()
        try:
            self._session.do(put)
        except UnavailableError as error:
            if not self._pauses.failing:
                LOGGER.warning("%s; staging rows in files until it is back", error.what)
            pause_us = self._pauses.failed(now_us)
            assert pause_us is not None, "the server is tried without end"
            now_us = self._ctx.clock.monotonic_us()
            self._away_since = self._committer.commits, now_us + pause_us
            SERVERS_AWAY.forget(self._session)  # From now on the committer reports whether it is down.
            self._ctx.count(SERVER_AWAY, 1)
            return False
        self._pauses.restore()
        self._away_since = None
        self._stage_rows += rows.num_rows
        return True

    def _spill(self, rows: Batch) -> None:
        exact_times(rows)  # refuses times that the server would truncate, as `as_csv` does
        try:
            self._file.write(f"{self._ctx.attempt}/{self._name}-{self._number}.arrow", rows)
        except OSError as error:
            raise self._unwritable(error) from error

    def _finish_file(self) -> StagedRowsFile:
        try:
            return self._file.finish()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> CheckpointError:
        where = f"rows could not be staged in {self._target.folder} while the server is unavailable"
        return staging_error(where, error, self._ctx.name)

    def _fenced(self) -> FencedError:
        return FencedError(
            f"the table of staged rows {self._stage.sql} no longer exists",
            hint="a newer attempt of the job has started, which drops rows staged by older ones; or "
            "the database was recreated, or restored from a copy",
        )


class StagedRowsCommitter(Committer):
    """Committer that moves staged rows to the target, each epoch in a transaction."""

    def __init__(self, target: PostgresTarget, *, retries: bool = True) -> None:
        self._target = target
        self._spilled = SpilledStaging(target.folder)
        self.session = RetryingSession(target.options, target.doing, retries=retries)

    def commit(self, committables: Sequence[bytes]) -> None:
        try:
            self._commit_all(list(map(decode_staged, committables)))
        finally:
            self.session.close()

    def _commit_all(self, staged: Sequence[StagedTableRows]) -> None:
        for epochs in together(staged):
            self.session.do(partial(self._apply, epochs))
            for each in epochs:
                self._spilled.remove(each)
                self._committed(each)

    def _committed(self, staged: StagedTableRows) -> None:
        """Run after each committed epoch; subclasses override it."""

    def _apply(self, epochs: Sequence[StagedTableRows], session: ServerSession) -> None:
        psycopg, staged = client(), epochs[-1]
        try:
            apply(session, epochs, self._spilled.load)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise table_gone(staged, self._target.options.redact(str(error).splitlines()[0])) from error
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            if of_catalog(error):
                raise
            refused = None if staged.spilled is None else self._spilled.refused(session, epochs)
            if refused is not None:
                raise refused_row(error, self._target, staged.spill_sql, *refused) from error
            where = f"the table {staged.schema}.{staged.table} rejects a row"
            raise postgres_error(
                error, f"{where}; checkpoint {staged.checkpoint}", self._target.options
            ) from error

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        target, kept = self._target, list(map(decode_staged, keep))
        prefix = stage_prefix(target.owner, job)
        try:
            self.session.do(lambda s: clear(s, target.staging_schema, prefix, job, before, kept))
        finally:
            self.session.close()
        self._spilled.clear(before, kept)


class OwnRowsCommitter(StagedRowsCommitter):
    """Committer of a task, for the epochs of its own writer. Its caller retries."""

    def __init__(self, target: PostgresTarget, room: StagingRoom) -> None:
        super().__init__(target, retries=False)
        self._room = room
        self.commits = 0
        """Number of committed epochs."""
        self.published = 0
        """Newest checkpoint that was committed."""

    def commit(self, committables: Sequence[bytes]) -> None:
        staged = list(map(decode_staged, committables))
        sizes = {each.checkpoint: each.size_bytes for each in staged}
        self._room.begin(sizes)
        self._commit_all(staged)
        self._room.end(sizes)

    def _committed(self, staged: StagedTableRows) -> None:
        self.published = max(self.published, staged.checkpoint)
        self.commits += 1


def refused_row(error: Any, target: PostgresTarget, stage: str, rows: Batch, row: int) -> RheosError:
    """Return the error of a refused row, from PostgreSQL's error about the table `stage`."""
    named = _COLUMN.search(error.diag.context or "")
    column = error.diag.column_name or (named and named[1])
    raised = postgres_error(
        error,
        f"the table {target.table} rejects a row" + (f", column {column}" if column else ""),
        target.options,
        record=shown_record(rows, row, limit=1000),
    )
    raised.what = raised.what.replace(stage.rpartition(".")[2].strip('"'), target.table.name)
    return raised
