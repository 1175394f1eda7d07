"""Writer that stages a subtask's rows in files next to the checkpoints, and the committer that writes
them to the database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

import polars as pl
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.sql_database.address import DatabaseAddress, client
from rheos.connectors.sql_database.errors import database_error, refuses_a_row
from rheos.connectors.sql_database.ledger import commit_epoch, forget_attempts
from rheos.connectors.sql_database.ledger_commit import RESTORED, LedgerEpoch, decoded_epoch
from rheos.connectors.sql_database.row_checks import RowChecks, frame_for, values_of
from rheos.connectors.sql_database.session import DatabaseSession
from rheos.connectors.sql_database.statements import PUT_ROWS, TableWriting
from rheos.connectors.sql_database.target_table import WrittenTable
from rheos.connectors.staged_files import (
    StagedFileWriter,
    StagingRoom,
    clear_attempts,
    read_staged,
    staging_error,
)
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.polars_frames import polars_frame
from rheos.core.redaction import redacted_repr

_GATHER_ROWS = 32_768
_GATHER_BYTES = 8 << 20
_AHEAD_BYTES = 256 << 20
"""Maximum bytes staged while a commit runs or is retried, unless the commit itself is larger."""


class StagedTarget(Protocol):
    """Table whose rows a `LedgerWriter` stages."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return the key of upserts; empty to append rows."""

    @property
    def table(self) -> WrittenTable:
        """Return the table, with the limits of its columns."""

    @property
    def gone(self) -> str | None:
        """Return the boolean column that marks rows which delete the row with their key."""

    @property
    def folder(self) -> str:
        """Return the folder for staged rows."""


@dataclass(frozen=True, repr=False)
class DatabaseTarget:
    """Configuration of the table for writers and committers."""

    address: DatabaseAddress
    key: tuple[str, ...]
    table: WrittenTable
    gone: str | None
    """Boolean column of the rows: where it is true, the row with the same key is deleted."""
    folder: str = ""
    """Folder for staged rows."""

    __repr__ = redacted_repr

    @property
    def doing(self) -> str:
        """Return the beginning of error messages."""
        return f"the table {self.table} cannot be written"

    def in_folder(self, folder: str) -> DatabaseTarget:
        return replace(self, folder=folder)


class LedgerWriter(SinkWriter):
    """Writer that stages each epoch in a file. Its name is generated when it is opened (SL1)."""

    def __init__(
        self, target: StagedTarget, ctx: SinkContext, committer: OwnEpochsCommitter | None
    ) -> None:
        """Create a writer.

        Args:
            target: The table.
            ctx: The environment of the writer.
            committer: The committer of this writer's epochs; None if the driver commits them, each
                before the next one.
        """
        self._target = target
        self._ctx = ctx
        self._name = uuid4().hex[:12]
        self._committer = committer
        self._checks = RowChecks(str(target.table), target.table.limits, target.key, target.gone)
        self._file = StagedFileWriter(SinkFolder(target.folder))
        self._number = 0
        self._batches: list[Batch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._epoch_bytes = 0
        self._staged_bytes = 0
        """Size of everything that the writer has staged."""
        self._newest = 0
        """Checkpoint of the newest epoch."""

    def committer(self) -> Committer | None:
        return self._committer

    def write(self, batch: Batch) -> None:
        self._checks.check(batch)
        self._batches.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= _GATHER_ROWS or self._gathered_bytes >= _GATHER_BYTES:
            self._put()

    def has_room(self) -> bool:
        staged_bytes = self._staged_bytes + self._gathered_bytes
        return self._committer is None or self._committer.room.has_room(staged_bytes)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._put()
        if not self._file.is_open:
            return []
        ctx, target = self._ctx, self._target
        try:
            file = self._file.finish()
        except OSError as error:
            raise self._unwritable(error) from error
        epoch = LedgerEpoch(
            job=ctx.job,
            operator=ctx.operator,
            subtask=ctx.subtask,
            attempt=ctx.attempt,
            writer=self._name,
            checkpoint=checkpoint,
            schema=target.table.schema,
            table=target.table.name,
            columns=[name for name in ctx.schema.names if name != target.gone],
            key=list(target.key),
            gone=target.gone,
            file=file,
            size_bytes=self._epoch_bytes,
            published=self._newest if self._committer is None else self._committer.published,
        )
        self._newest = checkpoint
        self._number += 1
        self._epoch_bytes = 0
        return [epoch.encoded()]

    def close(self) -> None:
        self._file.abandon()
        if self._committer is not None:
            self._committer.session.close()

    def _put(self) -> None:
        batches, self._batches, self._gathered_rows, self._gathered_bytes = self._batches, [], 0, 0
        if not batches:
            return
        table = pa.Table.from_batches(batches, self._ctx.schema).combine_chunks()
        for rows in table.to_batches():
            self._epoch_bytes += rows.nbytes
            self._staged_bytes += rows.nbytes
            try:
                self._file.write(f"{self._ctx.attempt}/{self._name}-{self._number}.arrow", rows)
            except OSError as error:
                raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> CheckpointError:
        where = f"rows could not be staged in {self._target.folder}"
        return staging_error(where, error, self._ctx.name)


class LedgerCommitter(Committer):
    """Committer that writes each epoch in a transaction, which also notes it in the ledger."""

    def __init__(self, target: DatabaseTarget) -> None:
        self._target = target
        self.session = DatabaseSession(target.address, target.doing)

    def commit(self, committables: Sequence[bytes]) -> None:
        try:
            self._commit_all(list(map(decoded_epoch, committables)))
        finally:
            self.session.close()

    def _commit_all(self, epochs: Sequence[LedgerEpoch]) -> None:
        folder = SinkFolder(self._target.folder)
        for epoch in sorted(epochs, key=lambda epoch: (epoch.writer, epoch.checkpoint)):
            self.session.do(
                lambda connection, progressed, epoch=epoch: commit_epoch(  # type: ignore[misc]
                    connection, epoch, lambda epoch: self._put(connection, epoch, progressed)
                )
            )
            # SL6: not before the commit has succeeded. If it fails, the next attempt removes the file.
            with contextlib.suppress(OSError):
                folder.remove(epoch.file.path)
            self._committed(epoch)

    def _committed(self, epoch: LedgerEpoch) -> None:
        """Run after each committed epoch; subclasses override it."""

    def _put(self, connection: Any, epoch: LedgerEpoch, progressed: Progressed) -> None:
        backend = self._target.address.backend
        writing = TableWriting(
            backend,
            connection.dialect,
            epoch.schema,
            epoch.table,
            tuple(epoch.columns),
            tuple(epoch.key),
        )
        for rows in staged_rows(SinkFolder(self._target.folder), epoch):
            frame, deleted = changes_of(frame_for(backend, polars_frame(rows)), epoch.key, epoch.gone)
            if deleted is not None:
                writing.delete(connection, deleted, progressed)
            frame = frame.select(epoch.columns)
            for part in frame.iter_slices(PUT_ROWS):
                self._insert(connection, writing, epoch, part)
                progressed()

    def _insert(
        self, connection: Any, writing: TableWriting, epoch: LedgerEpoch, rows: pl.DataFrame
    ) -> None:
        """Write some rows. If the database refuses one, write them singly, to find which one."""
        errors, address = client().exc.SQLAlchemyError, self._target.address
        values = values_of(rows)
        try:
            with connection.begin_nested():
                writing.insert(connection, values)
            return
        except errors as raised:
            if not refuses_a_row(raised, address):
                raise
            refused = raised
        named = f"the table {epoch.target} rejects a row; checkpoint {epoch.checkpoint}"
        for row in values:
            try:
                writing.insert(connection, [row])
            except errors as raised:
                record = repr(dict(zip(epoch.columns, row, strict=True)))[:1000]
                raise database_error(raised, named, address, record=record) from None
        raise database_error(refused, named, address) from None

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = list(map(decoded_epoch, keep))
        schema, writers = self._target.table.schema, {epoch.writer for epoch in kept}
        try:
            self.session.do(
                lambda connection, _: forget_attempts(connection, schema, job, before, writers)
            )
        finally:
            self.session.close()
        folder = SinkFolder(self._target.folder)
        clear_attempts(folder, before, {epoch.file.path for epoch in kept})


class OwnEpochsCommitter(LedgerCommitter):
    """Committer of a task, for the epochs of its own writer. It keeps its connection."""

    def __init__(self, target: DatabaseTarget) -> None:
        super().__init__(target)
        self.room = StagingRoom(_AHEAD_BYTES)
        self.published = 0
        """Newest checkpoint that was committed."""

    def commit(self, committables: Sequence[bytes]) -> None:
        epochs = list(map(decoded_epoch, committables))
        sizes = {each.checkpoint: each.size_bytes for each in epochs}
        self.room.begin(sizes)
        self._commit_all(epochs)
        self.room.end(sizes)

    def _committed(self, epoch: LedgerEpoch) -> None:
        self.published = max(self.published, epoch.checkpoint)


def staged_rows(folder: SinkFolder, epoch: LedgerEpoch) -> Iterator[Batch]:
    """Yield the batches of the epoch's file. Raises UnrestorableError if they are lost (SL4)."""
    try:
        yield from read_staged(folder, epoch.file)
    except FileNotFoundError:
        raise _make_lost_error(folder, epoch, "it does not exist") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise _make_lost_error(folder, epoch, str(error)) from error


def _make_lost_error(folder: SinkFolder, epoch: LedgerEpoch, why: str) -> UnrestorableError:
    return UnrestorableError(
        f"{epoch.file.rows} rows that were staged for checkpoint {epoch.checkpoint} are not in the "
        f"table {epoch.target}, and their file {folder.path(epoch.file.path)} cannot be read: {why}",
        hint=RESTORED,
    )


def changes_of(
    frame: pl.DataFrame, key: Sequence[str], gone: str | None
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the rows to write, and the keys to delete before that; None without deletions.

    The last row of each key counts. The rows are sorted by key, so that concurrent
    commits lock keys in the same order.
    """
    if not key:
        return frame, None
    newest = frame.unique(key, keep="last", maintain_order=True).sort(key)
    if gone is None:
        return newest, None
    deletes = newest[gone].fill_null(False)
    return newest.filter(~deletes), newest.filter(deletes).select(key)
