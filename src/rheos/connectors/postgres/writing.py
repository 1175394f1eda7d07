"""Who stages a subtask's rows, and who commits them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from rheos.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.connectors.postgres.column_types import as_csv
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.errors import of_catalog, postgres_error
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.staged_rows import (
    StagedTableRows,
    StageTable,
    apply,
    clear,
    decode_staged,
    owner_of,
    stage_prefix,
)
from rheos.connectors.postgres.tables import TargetTable
from rheos.errors import FencedError, RheosError
from rheos.protocol.elements import Batch
from rheos.protocol.ids import Attempt, CheckpointId, JobId
from rheos.protocol.shown_rows import shown_record

_GATHER_ROWS = 32_768
_GATHER_BYTES = 8 << 20
_COLUMN = re.compile(r"line \d+, column ([^:]+)")


@dataclass(frozen=True)
class TableTarget:
    """What writers and committers know of the table."""

    options: ServerOptions
    key: tuple[str, ...]
    table: TargetTable
    staging_schema: str
    gone: str | None = None
    """The column of the rows that says which of them delete the row with their key."""
    owner: str = ""

    def in_folder(self, folder: str) -> TableTarget:
        return replace(self, owner=owner_of(folder))


class TableStagingWriter(SinkWriter):
    """Stages each epoch in a table. It has a name of its own, drawn when it is opened (PE1)."""

    def __init__(self, target: TableTarget, ctx: SinkContext) -> None:
        self._target = target
        self._ctx = ctx
        self._name = uuid4().hex[:12]
        self._session = RetryingSession(target.options, f"the table {target.table} cannot be written")
        self._committer = StagedRowsCommitter(target, keeps_session=True)
        self._batches: list[Batch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._number = 0
        self._stage = self._new_stage()
        self._staged_rows = 0
        """In the epoch's table."""

    def committer(self) -> Committer:
        return self._committer

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _GATHER_ROWS or self._gathered_bytes >= _GATHER_BYTES:
            self._put()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._put()
        for counts in (self._session.counted(), self._committer.session.counted()):
            for name, count in counts.items():
                self._ctx.count(name, count)
        if not self._staged_rows:
            return []
        ctx, target = self._ctx, self._target
        staged = StagedTableRows(
            job=ctx.job,
            operator=ctx.operator,
            subtask=ctx.subtask,
            attempt=ctx.attempt,
            writer=self._name,
            checkpoint=checkpoint,
            rows=self._staged_rows,
            staging_schema=target.staging_schema,
            stage=self._stage_name(),
            schema=target.table.schema,
            table=target.table.name,
            columns=[name for name in ctx.schema.names if name != target.gone],
            key=list(target.key),
            gone=target.gone,
        )
        self._number += 1
        self._stage, self._staged_rows = self._new_stage(), 0
        return [staged.encoded()]

    def close(self) -> None:
        try:
            if self._staged_rows:
                self._session.do(self._stage.drop)
        except RheosError:
            pass  # The server is away: the next attempt drops it.
        finally:
            self._session.close()
            self._committer.session.close()

    def _stage_name(self) -> str:
        prefix = stage_prefix(self._target.owner, self._ctx.job)
        return f"{prefix}{self._ctx.attempt:x}_{self._name}_{self._number:x}"

    def _new_stage(self) -> StageTable:
        target = self._target
        columns = self._ctx.schema.names
        return StageTable.of(
            self._stage_name(), target.staging_schema, target.table, columns, target.key, target.gone
        )

    def _put(self) -> None:
        batches, self._batches, self._gathered_rows, self._gathered_bytes = self._batches, [], 0, 0
        if not batches:
            return
        table = pa.Table.from_batches(batches, self._ctx.schema).combine_chunks()
        for rows in table.to_batches():
            before = self._staged_rows
            numbers = pa.array(np.arange(before, before + rows.num_rows, dtype=np.int64))
            data = as_csv(rows, numbers)
            tries = 0

            def put(
                session: ServerSession, data: Any = data, before: int = before, rows: Batch = rows
            ) -> None:
                nonlocal tries
                tries += 1
                try:
                    self._stage.put(session, data, before, rows.num_rows, again=tries > 1)
                except client().errors.UndefinedTable as error:
                    raise self._fenced() from error
                except (client().DataError, client().IntegrityError) as error:
                    if of_catalog(error):
                        raise
                    raise self._refused(error, rows, session) from error

            self._session.do(put)
            self._staged_rows += rows.num_rows

    def _refused(self, error: Any, rows: Batch, session: ServerSession) -> RheosError:
        """With the row that it is about, which is looked for by halves."""
        begin, end = 0, rows.num_rows
        while end - begin > 1:
            middle = (begin + end) // 2
            first = rows.slice(begin, middle - begin)
            if self._stage.refuses(session, as_csv(first, pa.array(range(first.num_rows), pa.int64()))):
                end = middle
            else:
                begin = middle
        named = _COLUMN.search(error.diag.context or "")
        column = error.diag.column_name or (named and named[1])
        raised = postgres_error(
            error,
            f"a row is refused by the table {self._target.table}"
            + (f", column {column}" if column else ""),
            self._target.options,
            record=shown_record(rows, begin, limit=1000),
        )
        raised.what = raised.what.replace(self._stage_name(), self._target.table.name)
        return raised

    def _fenced(self) -> FencedError:
        return FencedError(
            f"the table of staged rows {self._stage.sql} is not there any more",
            hint="a newer attempt of the job has begun, which drops what older ones staged",
        )


class StagedRowsCommitter(Committer):
    """Puts staged rows into the target, an epoch in a transaction."""

    def __init__(self, target: TableTarget, *, keeps_session: bool = False) -> None:
        self._target = target
        self._keeps_session = keeps_session
        self.session = RetryingSession(target.options, f"the table {target.table} cannot be written")

    def commit(self, committables: Sequence[bytes]) -> None:
        staged = sorted(map(decode_staged, committables), key=lambda each: each.checkpoint)
        try:
            for each in staged:
                self._commit(each)
        finally:
            if not self._keeps_session:
                self.session.close()

    def _commit(self, staged: StagedTableRows) -> None:
        def work(session: ServerSession) -> None:
            try:
                apply(session, staged)
            except (client().DataError, client().IntegrityError) as error:
                where = f"a row is refused by the table {staged.schema}.{staged.table}"
                raise postgres_error(
                    error, f"{where}; checkpoint {staged.checkpoint}", self._target.options
                ) from error

        self.session.do(work)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        target, kept = self._target, list(map(decode_staged, keep))
        prefix = stage_prefix(target.owner, job)
        try:
            self.session.do(lambda s: clear(s, target.staging_schema, prefix, job, before, kept))
        finally:
            if not self._keeps_session:
                self.session.close()
