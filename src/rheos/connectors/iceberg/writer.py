"""Writers of an Iceberg table: they write data files where the table will have them.

A reader sees a data file only once a snapshot names it. So files are neither hidden nor renamed.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_rows
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import Partition, PartitionedFiles
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import RenamePublication
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.connectors.iceberg.iceberg_log import IcebergTarget, encoded_statistics
from rheos.connectors.iceberg.statistics import file_statistics
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class IcebergWriter(SinkWriter):
    """Writer of one subtask: one file per partition and checkpoint, or several if they grow large."""

    def __init__(self, target: IcebergTarget, ctx: SinkContext) -> None:
        self._target = target
        self._ctx = ctx
        self._folder = SinkFolder(target.folder)
        self._publication = RenamePublication(self._folder)
        # IC1: a job that starts over has the same ids, so a random number is part of each name.
        sink = FileSink(target.folder, "parquet", ROLL_BYTES, "zstd", owner=secrets.token_hex(8))
        self._files = PartitionedFiles(
            ctx,
            target.partitioning.names,
            # The schema has the field ids by which readers find columns.
            lambda part, _: FileWriter(
                sink, replace(part, schema=target.staged), self._publication, staging=""
            ),
        )

    def write(self, batch: Batch) -> None:
        rows = cast_rows(batch, self._target.staged)
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._target.staged)
        self._files.write(self._target.partitioning.with_keys(rows))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        files = self._files.prepare(checkpoint)
        self._publication.tidy([file for _, file in files])
        return [
            msgspec.msgpack.encode(self._data_file(checkpoint, partition, file))
            for partition, file in files
        ]

    def close(self) -> None:
        self._files.close()

    def _data_file(
        self, checkpoint: CheckpointId, partition: Partition, file: FileCommittable
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
            statistics=encoded_statistics(
                file_statistics(footer, self._target.partitioning.schema, self._target.settings)
            ),
        )
