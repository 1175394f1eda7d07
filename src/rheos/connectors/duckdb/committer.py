"""Committer of the sink: the driver writes the staged rows of a checkpoint in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.duckdb.database_file import TRANSACTION, DuckDbFile, quoted
from rheos.connectors.duckdb.ledger import commit_epochs, forget_attempts
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.sql_database.ledger_commit import LedgerEpoch, decoded_epoch
from rheos.connectors.sql_database.target_table import WrittenTable
from rheos.connectors.sql_database.writing import changes_of, staged_rows
from rheos.connectors.staged_files import clear_attempts
from rheos.core.connectors.contract import Committer
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.polars_frames import arrow_table

T = TypeVar("T")

_ROWS = "rheos_rows"
"""Name by which a statement refers to the rows in memory."""


@dataclass(frozen=True)
class DuckDbTarget:
    """Configuration of the table for writers and the committer."""

    file: DuckDbFile
    key: tuple[str, ...]
    table: WrittenTable
    gone: str | None
    """Boolean column of the rows: where it is true, the row with the same key is deleted."""
    folder: str = ""
    """Folder for staged rows."""


@dataclass(frozen=True)
class DuckDbCommitter(Committer):
    target: DuckDbTarget

    on_driver = True

    def commit(self, committables: Sequence[bytes]) -> None:
        epochs = sorted(
            map(decoded_epoch, committables), key=lambda each: (each.checkpoint, each.writer)
        )
        folder = SinkFolder(self.target.folder)
        for _, of_checkpoint in groupby(epochs, key=lambda each: each.checkpoint):
            together = list(of_checkpoint)
            self._do(_commit_of(folder, together))
            # SL6: not before the commit has succeeded. If it fails, the next attempt removes the file.
            for epoch in together:
                with contextlib.suppress(OSError):
                    folder.remove(epoch.file.path)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = list(map(decoded_epoch, keep))
        schema, writers = self.target.table.schema, {epoch.writer for epoch in kept}
        self._do(lambda connection, _: forget_attempts(connection, schema, job, before, writers))
        clear_attempts(SinkFolder(self.target.folder), before, {epoch.file.path for epoch in kept})

    def _do(self, work: Callable[[Any, Progressed], T]) -> T:
        doing = f"the table {self.target.table} cannot be written"
        return self.target.file.do(doing, TRANSACTION, work, writes=True)


def _commit_of(folder: SinkFolder, epochs: Sequence[LedgerEpoch]) -> Callable[[Any, Progressed], None]:
    def work(connection: Any, progressed: Progressed) -> None:
        commit_epochs(connection, epochs, lambda epoch: _put(connection, folder, epoch, progressed))

    return work


def _put(connection: Any, folder: SinkFolder, epoch: LedgerEpoch, progressed: Progressed) -> None:
    for rows in staged_rows(folder, epoch):
        frame, deleted = changes_of(pl.DataFrame(rows), epoch.key, epoch.gone)
        if deleted is not None and deleted.height:
            _run_with(connection, deletion(epoch), arrow_table(deleted))
            progressed()
        if frame.height:
            _run_with(connection, insertion(epoch), arrow_table(frame.select(epoch.columns)))
            progressed()


def _run_with(connection: Any, statement: str, rows: pa.Table) -> None:
    connection.register(_ROWS, rows)
    connection.execute(statement)
    connection.unregister(_ROWS)


def insertion(epoch: LedgerEpoch) -> str:
    """Return the INSERT of the rows in memory, which replaces rows with the same key."""
    columns = ", ".join(map(quoted, epoch.columns))
    insert = (
        f"INSERT INTO {quoted(epoch.schema, epoch.table)} ({columns}) SELECT {columns} FROM {_ROWS}"
    )
    if not epoch.key:
        return insert
    others = [quoted(name) for name in epoch.columns if name not in epoch.key]
    values = ", ".join(f"{name} = excluded.{name}" for name in others)
    then = f"UPDATE SET {values}" if others else "NOTHING"
    return f"{insert} ON CONFLICT ({', '.join(map(quoted, epoch.key))}) DO {then}"


def deletion(epoch: LedgerEpoch) -> str:
    """Return the DELETE of the rows with the keys in memory."""
    table = quoted(epoch.schema, epoch.table)
    same = " AND ".join(f"{table}.{quoted(name)} = {_ROWS}.{quoted(name)}" for name in epoch.key)
    return f"DELETE FROM {table} USING {_ROWS} WHERE {same}"
