"""Writers of a Delta table: they write data files where the table will have them.

A reader sees a data file only once the table's log names it. So files are neither hidden nor renamed.
"""

from __future__ import annotations

import secrets

import msgspec
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_rows
from rheos.connectors.delta.delta_log import DeltaTarget
from rheos.connectors.delta.epoch_append import StagedDataFile
from rheos.connectors.delta.statistics import file_statistics
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import Partition, PartitionedFiles
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import RenamePublication
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class DeltaWriter(SinkWriter):
    """Writer of one subtask: one file per partition and checkpoint, or several if they grow large."""

    def __init__(self, target: DeltaTarget, ctx: SinkContext) -> None:
        self._target = target
        self._ctx = ctx
        self._folder = SinkFolder(target.location)
        self._publication = RenamePublication(self._folder)
        # DL1: a job that starts over has the same ids, so a random number is part of each name.
        sink = FileSink(target.location, "parquet", ROLL_BYTES, "snappy", owner=secrets.token_hex(8))
        self._files = PartitionedFiles(
            ctx,
            target.partition_by,
            lambda part, folder: FileWriter(sink, part, self._publication, folder, staging=folder),
        )

    def write(self, batch: Batch) -> None:
        self._files.write(cast_rows(batch, self._target.staged))

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
            statistics=file_statistics(footer, self._target.stored),
        )
