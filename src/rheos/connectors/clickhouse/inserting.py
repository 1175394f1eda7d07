"""Inserts rows, some megabytes at a time, and each block with a token.

The server remembers the tokens of the last blocks of a table, its deduplication window, and drops a
block whose token it knows. An epoch's blocks and tokens follow from its staged file, so a later try
repeats them. Before the first try, a note next to the file records how many blocks the table has had.
If a later try finds that too many blocks were inserted since then, it does not insert.
"""

from __future__ import annotations

import posixpath
from functools import partial
from uuid import uuid4

import msgspec
import polars as pl
import pyarrow as pa

from rheos.connectors.clickhouse.session import LOGGER, ClickhouseSession, ServerAddress, quoted
from rheos.connectors.clickhouse.target_table import InsertTarget
from rheos.connectors.epoch_notes import EpochNotes
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.outage_patience import Patience
from rheos.connectors.spilling import Count, TargetDelivery
from rheos.core.errors import UnrestorableError
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.protocol.elements import Batch

_MOST_ROWS = 65_536
_MOST_BYTES = 16 << 20
_SETTINGS = {
    "async_insert": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # The sink has checked that NULL is only in rows that delete others.
    "input_format_null_as_default": 1,
    "max_insert_block_size": 1_048_576,
}
"""Settings of each INSERT. A request has fewer rows than a block, so it is one block."""


class TableBlocks(msgspec.Struct, frozen=True):
    """Note of what a table had when its server was asked."""

    blocks: int
    """Number of blocks that were inserted so far; mutations count, too."""
    time_s: int
    """The server's time."""


_NOTES = EpochNotes(TableBlocks)


class InsertDelivery(TargetDelivery):
    """Inserts rows into one table.

    Args:
        server: Address and login.
        table: The table.
        count: Counts the retries (`retries`).
        patience_ms: How long to retry.
        once: Whether rows of an epoch must not be inserted if it is unknown whether they were.
    """

    def __init__(
        self, server: ServerAddress, table: InsertTarget, count: Count, patience_ms: int, once: bool
    ) -> None:
        self._table = table
        self._once = once
        self._patience = Patience(patience_ms, lambda: count("retries", 1), LOGGER)
        self._session = ClickhouseSession(server, f"the table {table.name} cannot be written")
        self._gathered: list[Batch] = []
        self._rows = 0
        self._size_bytes = 0
        self._epoch: str | None = None
        self._blocks = 0

    def begin_epoch(self, folder: SinkFolder, path: str) -> None:
        self.settle()
        self._epoch, self._blocks = posixpath.basename(path), 0
        if self._once:
            now = self._patience.ask(self._inserted)
            then = _NOTES.kept(folder, path, now)
            if then is not now:
                self._check_window(then, now)

    def write(self, batch: Batch) -> None:
        for begin in range(0, batch.num_rows, _MOST_ROWS):
            rows = batch.slice(begin, _MOST_ROWS)
            if self._rows + rows.num_rows > _MOST_ROWS:
                self.settle()
            self._gathered.append(rows)
            self._rows += rows.num_rows
            self._size_bytes += rows.nbytes
            if self._size_bytes >= _MOST_BYTES:
                self.settle()

    def settle(self) -> None:
        if not self._gathered:
            return
        rows, count = pa.concat_batches(self._gathered), self._rows
        self._gathered, self._rows, self._size_bytes = [], 0, 0
        epoch = self._epoch or uuid4().hex
        token = f"rheos/{epoch}/{self._blocks}"
        self._blocks += 1
        table = self._table
        body = _encoded(_stored(table, rows))
        names = ", ".join(quoted(name) for name in body.names)
        query = f"INSERT INTO {table.name.sql} ({names}) FORMAT ArrowStream"
        settings = {**_SETTINGS, **dict(table.settings), "insert_deduplication_token": token}
        self._patience.begin()
        self._patience.ask(partial(self._session.ask, query, settings, body.content))
        self.settled_rows += count

    def close(self) -> None:
        self._session.close()

    def _inserted(self) -> TableBlocks:
        # The blocks of a replicated table are numbered in each partition.
        where = self._table.name.where("table")
        newest = f"SELECT max(max_block_number) AS n FROM system.parts WHERE {where}"
        if self._table.is_replicated:
            newest += " GROUP BY partition_id"
        query = f"SELECT toInt64(sum(n)) AS blocks, toUnixTimestamp(now()) AS time_s FROM ({newest})"
        [found] = self._session.rows(query, TableBlocks)
        return found

    def _check_window(self, then: TableBlocks, now: TableBlocks) -> None:
        blocks, seconds = self._table.window
        # Half of it is for blocks that are being inserted.
        since, for_s = now.blocks - then.blocks, now.time_s - then.time_s
        if since > blocks // 2 or (seconds is not None and for_s > seconds // 2):
            raise UnrestorableError(
                f"rows that were staged for {self._table.name} may be in the table or not: {since} "
                f"blocks were inserted in {for_s} s since the first try, and the table recognises "
                f"repeated blocks among the last {blocks}"
                + (f" of {seconds} s" if seconds is not None else ""),
                hint='start the job once with delivery="at_least_once", which inserts them again; or '
                "from an earlier savepoint. Enlarge the table's deduplication window",
            )


class _Body(msgspec.Struct, frozen=True):
    names: list[str]
    content: bytes


def _stored(table: InsertTarget, rows: Batch) -> Batch:
    """Return rows with the columns of the table; of each key the last row, if that one is current."""
    if table.keeps_last:
        frame = pl.DataFrame({name: pl.Series(rows.column(name)) for name in table.key})
        last = frame.with_row_index("row").group_by(pl.exclude("row")).agg(pl.col("row").last())
        if len(last) < rows.num_rows:
            rows = rows.take(last["row"].sort().to_arrow())
    names = [limit.name for limit in table.limits]
    columns = [rows.column(name) for name in names]
    if table.gone is not None:
        marked, marks = table.gone
        names.append(marks)
        columns.append(rows.column(marked).fill_null(False).cast(pa.uint8()))
    return pa.RecordBatch.from_arrays(columns, names)


def _encoded(rows: Batch) -> _Body:
    return _Body(list(rows.schema.names), table_bytes(rows))
