"""Writers of a Delta table: they write data files where the table will have them.

A reader sees a data file only once the table's log names it. So files are neither hidden nor renamed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_rows
from rheos.connectors.delta.delta_log import DeltaTarget
from rheos.connectors.delta.statistics import file_statistics
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import AnyContext, Partition, PartitionedFiles
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import RenamePublication
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class DataFiles:
    """Data files of one writer: one per partition and checkpoint, or several if they grow large."""

    def __init__(
        self, target: DeltaTarget, columns: pa.Schema, partition_by: Sequence[str], ctx: AnyContext
    ) -> None:
        """Create the writer, without opening a file.

        Args:
            target: the table.
            columns: columns of the rows, with the table's types.
            partition_by: columns that are in the names of folders, not in the files.
            ctx: names the files.
        """
        self._target = target
        self._columns = columns
        self._stored = pa.schema([field for field in columns if field.name not in partition_by])
        self._ctx = ctx
        self._folder = SinkFolder(target.location)
        self._publication = RenamePublication(self._folder)
        # DL1: a job that starts over has the same ids, so a random number is part of each name.
        sink = FileSink(target.location, "parquet", ROLL_BYTES, "snappy", owner=secrets.token_hex(8))
        self._files = PartitionedFiles(
            ctx,
            partition_by,
            lambda part, folder: FileWriter(sink, part, self._publication, folder, staging=folder),
        )

    def write(self, batch: Batch) -> None:
        """Write rows. Raises InputError if a value does not fit the table's column."""
        self._files.write(cast_rows(batch, self._columns))

    def finish(self, checkpoint: CheckpointId) -> list[StagedDataFile]:
        """Make the files durable that were written since the last call, and describe them."""
        files = self._files.prepare(checkpoint)
        self._publication.tidy([file for _, file in files])
        return [
            self._described(checkpoint, partition, file, order)
            for order, (partition, file) in enumerate(files)
        ]

    def close(self) -> None:
        """Remove files that are still open."""
        self._files.close()

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
            statistics=file_statistics(footer, self._stored),
            key=list(self._target.key),
            order=order,
        )


class DeltaWriter(SinkWriter):
    """Writer of one subtask. Its rows, or the changes of an upsert, are in files that no version has.

    Files of changes are not partitioned, because two changes of a key may be in different partitions,
    and the newer one must be known.
    """

    def __init__(self, target: DeltaTarget, ctx: SinkContext) -> None:
        partition_by = () if target.key else target.partition_by
        self._files = DataFiles(target, target.written, partition_by, ctx)

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return [msgspec.msgpack.encode(file) for file in self._files.finish(checkpoint)]

    def close(self) -> None:
        self._files.close()
