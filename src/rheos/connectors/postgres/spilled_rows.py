"""Files for rows that are staged while the server is down, next to the job's checkpoints.

When the server is available again, the transaction that commits the epoch loads them. The staging
folder of a sink contains

<attempt>/<writer>-<number>.arrow      the last rows of an epoch

A file is removed once its epoch is committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.postgres.column_types import as_csv
from rheos.connectors.postgres.connection import ServerSession
from rheos.connectors.postgres.staged_rows import StagedTableRows, StageTable, lost, table_gone
from rheos.connectors.postgres.target_table import find_table_by_sql
from rheos.connectors.staged_files import clear_attempts, read_staged
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt
from rheos.core.redaction import redacted_repr


@dataclass(frozen=True, repr=False)
class SpilledStaging:
    """The staging folder of a sink, for committers."""

    folder: str

    __repr__ = redacted_repr

    def load(
        self, session: ServerSession, staged: StagedTableRows, epochs: Sequence[StagedTableRows]
    ) -> None:
        """Copy the rows of the epochs' files to a table, which the transaction drops later. It has the
        target's current definition: if the target was changed after a refusal, the row may fit now.
        Raises psycopg.Error and UnrestorableError."""
        table = self._table(session, staged)
        session.run(f"CREATE UNLOGGED TABLE {table.sql} ({table.definition})")
        table.copy(session, (as_csv(rows, numbers) for rows, numbers in self._numbered(epochs)))

    def refused(
        self, session: ServerSession, epochs: Sequence[StagedTableRows]
    ) -> tuple[Batch, int] | None:
        """Return the batch and the row in it that the target refuses; None if it refuses none."""
        table = self._table(session, epochs[-1])
        for rows, _ in self._numbered(epochs):
            if table.refuses(session, as_csv(rows, _places(0, rows.num_rows))):
                return rows, find_refused(rows, lambda data: table.refuses(session, data))
        return None

    def remove(self, staged: StagedTableRows) -> None:
        """Remove the file of a committed epoch."""
        if staged.spilled is not None:
            with contextlib.suppress(OSError):  # The next attempt removes it.
                SinkFolder(self.folder).remove(staged.spilled.path)

    def clear(self, before: Attempt, keep: Sequence[StagedTableRows]) -> None:
        """Remove the files of attempts before `before`, except those of `keep`."""
        assert self.folder, "a runtime passes each sink its own folder"
        kept = {staged.spilled.path for staged in keep if staged.spilled is not None}
        clear_attempts(SinkFolder(self.folder), before, kept)

    def _table(self, session: ServerSession, staged: StagedTableRows) -> StageTable:
        target = find_table_by_sql(session, staged.target_sql)
        if target is None:
            raise table_gone(staged, f"the table {staged.target_sql} does not exist")
        return StageTable.of(staged.spill_sql, target, staged.all_columns, staged.key, staged.gone)

    def _numbered(self, epochs: Sequence[StagedTableRows]) -> Iterator[tuple[Batch, pa.Array]]:
        """Yield the batches of the files, each with the numbers of its rows over all epochs."""
        before = epochs[0].rows_in_stage
        folder = SinkFolder(self.folder)
        for staged in epochs:
            assert staged.spilled is not None, "the epoch has a file"
            path = folder.path(staged.spilled.path)
            try:
                for found in read_staged(folder, staged.spilled):
                    rows = found.select(staged.all_columns)
                    yield rows, _places(before, rows.num_rows)
                    before += rows.num_rows
            except FileNotFoundError as error:
                raise lost(staged, f"{path} does not exist") from error
            except (OSError, pa.ArrowInvalid) as error:
                raise lost(staged, f"{path}: {error}") from error


def find_refused(rows: Batch, refuses: Callable[[pa.Buffer], bool]) -> int:
    """Return the index of the row that is refused, by bisection. `refuses` tests rows as CSV."""
    begin, end = 0, rows.num_rows
    while end - begin > 1:
        middle = (begin + end) // 2
        first = rows.slice(begin, middle - begin)
        if refuses(as_csv(first, _places(0, first.num_rows))):
            end = middle
        else:
            begin = middle
    return begin


def _places(before: int, rows: int) -> pa.Array:
    return pa.array(np.arange(before, before + rows, dtype=np.int64))
