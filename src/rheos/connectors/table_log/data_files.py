"""Data files of a table with a log. They are written where the table will have them.

A reader sees a data file only once the table's log names it. So files are neither hidden nor renamed.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import AnyContext, Partition, PartitionedFiles
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import RenamePublication
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.sorted_rows import SortedRows
from rheos.connectors.table_log.target import TableTarget
from rheos.core.connectors.contract import SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class DataFiles(ABC):
    """Data files of one writer: one per partition and checkpoint, or several if they grow large."""

    compression = "zstd"

    def __init__(
        self,
        target: TableTarget,
        columns: pa.Schema,
        partitions: Sequence[str],
        ctx: AnyContext,
        *,
        in_folders: bool,
        sort_by: Sequence[str] = (),
    ) -> None:
        """Create the writer, without opening a file.

        Args:
            target: the table.
            columns: columns of the files.
            partitions: columns of the written rows that determine the partition; empty for files of
                changes, because two changes of a key may be in different partitions, and the newer one
                must be known. The files do not have these columns.
            ctx: names the files.
            in_folders: whether each partition has a folder of its own.
            sort_by: columns by which the rows of each file are sorted.
        """
        self._target = target
        self._columns = columns
        self._ctx = ctx
        self._in_folders = in_folders
        self._folder = SinkFolder(target.folder)
        self._publication = RenamePublication(self._folder)
        # DL1, IC1: a job that starts over has the same ids, so a random number is part of each name.
        owner = secrets.token_hex(8)
        self._sink = FileSink(target.folder, "parquet", ROLL_BYTES, self.compression, owner=owner)
        self._files = PartitionedFiles(ctx, partitions, self._opened)
        # Rows of one partition leave together, so few files are open at a time.
        self._unwritten = SortedRows([*partitions, *sort_by]) if sort_by else None
        self._written: list[tuple[Partition, FileCommittable]] = []
        """Files of sorted rows that were closed before the checkpoint."""

    def _opened(self, part: AnyContext, folder: str) -> SinkWriter:
        # The columns have metadata, such as field ids, that the rows of one partition have lost.
        part = replace(part, schema=self._columns)
        below = folder if self._in_folders else ""
        return FileWriter(self._sink, part, self._publication, below, staging=below)

    @abstractmethod
    def stored(self, batch: Batch) -> Batch:
        """Return rows with the table's types, and with the partition columns. Raises InputError if a
        value does not fit the table's column."""

    @abstractmethod
    def statistics(self, footer: pq.FileMetaData) -> str:
        """Return the statistics of a file as a committable has them."""

    def write(self, batch: Batch) -> None:
        """Write rows. Raises InputError if a value does not fit the table's column."""
        rows = self.stored(batch)
        if self._unwritten is None:
            self._files.write(rows)
            return
        self._unwritten.add(rows)
        if self._unwritten.is_full:
            self._written += self._sorted_files(self._unwritten, CheckpointId(0))

    def _sorted_files(
        self, unwritten: SortedRows, checkpoint: CheckpointId
    ) -> list[tuple[Partition, FileCommittable]]:
        """Write rows to new files, and close these."""
        for rows in unwritten.drain():
            self._files.write(rows)
        return self._files.prepare(checkpoint)

    def finish(self, checkpoint: CheckpointId) -> list[StagedDataFile]:
        """Make the files durable that were written since the last call, and describe them."""
        if self._unwritten is None:
            files = self._files.prepare(checkpoint)
        else:
            files = [*self._written, *self._sorted_files(self._unwritten, checkpoint)]
            self._written = []
        self._publication.tidy([file for _, file in files])
        return [
            self._described(checkpoint, partition, file, order)
            for order, (partition, file) in enumerate(files)
        ]

    def close(self) -> None:
        """Remove files that are still open."""
        self._files.close()
        if self._unwritten is not None:
            self._unwritten.close()

    def _described(
        self, checkpoint: CheckpointId, partition: Partition, file: FileCommittable, order: int
    ) -> StagedDataFile:
        with self._folder.system.open(self._folder.path(file.target), "rb") as written:
            footer = pq.read_metadata(written)
        return StagedDataFile(
            table=self._target.identity,
            job=self._ctx.job,
            operator=self._ctx.operator,
            checkpoint=checkpoint,
            path=file.target,
            rows=file.rows,
            size_bytes=file.size_bytes,
            partition=list(partition),
            statistics=self.statistics(footer),
            key=list(self._target.key),
            order=order,
        )


class TableLogWriter(SinkWriter):
    """Writer of one subtask. No version has the files of its rows, or of the changes of an upsert."""

    def __init__(self, files: DataFiles) -> None:
        self._files = files

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return [msgspec.msgpack.encode(file) for file in self._files.finish(checkpoint)]

    def close(self) -> None:
        self._files.close()
