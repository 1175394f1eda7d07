"""Writers of a table sink: they stage Parquet files with the table's types.

Files are staged in the table's hidden folder `.rheos-staging`, like those of `files.sink`, so that a
Parquet table can publish them by rename. This module does not need Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from rheos.connectors.casts import cast_rows
from rheos.connectors.files.committer import checked
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import Partition, PartitionedFiles
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import RenamePublication
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class StagedPart(msgspec.Struct, frozen=True):
    """Committable: one file of one checkpoint, with paths relative to the table's folder."""

    table: str
    job: str
    operator: str
    checkpoint: int
    """Checkpoint at whose barrier the file was staged."""
    staged: str
    target: str
    rows: int
    size_bytes: int
    partition: list[str | None]
    """Values of the partition columns as strings, for a partitioned Parquet table."""

    @property
    def file(self) -> FileCommittable:
        return FileCommittable(self.staged, self.target, self.rows, self.size_bytes)


_part_decoder = msgspec.msgpack.Decoder(StagedPart)


def decode_part(committable: bytes) -> StagedPart:
    """Decode a committable. Raises UnrestorableError if it is damaged, or contains a path that Rheos
    would not create."""
    return checked(committable, _part_decoder)


@dataclass(frozen=True)
class TableStaging:
    """Location and schema of staged rows."""

    table: str
    """Name or path of the table, for people."""
    folder: str
    """Folder of the table in fsspec's form."""
    schema: pa.Schema
    """Columns of the stream, with the types that the table has."""
    partition_by: tuple[str, ...]
    """Columns whose values are in the names of folders, not in the files."""

    @property
    def stored(self) -> pa.Schema:
        """Schema of the files."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])


class TableWriter(SinkWriter):
    """Writer of one subtask: one file per partition and checkpoint, or several if they grow large."""

    def __init__(self, staging: TableStaging, ctx: SinkContext) -> None:
        self._staging = staging
        self._ctx = ctx
        sink = FileSink(staging.folder, "parquet", ROLL_BYTES, "snappy")
        # The driver reads or renames staged files: so they are files, also in an object store.
        publication = RenamePublication(SinkFolder(staging.folder))
        self._files = PartitionedFiles(
            ctx,
            staging.partition_by,
            lambda part, folder: FileWriter(sink, part, publication, folder),
        )

    def write(self, batch: Batch) -> None:
        self._files.write(cast_rows(batch, self._staging.schema))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        files = self._files.prepare(checkpoint)
        return [self._part(checkpoint, partition, file) for partition, file in files]

    def close(self) -> None:
        self._files.close()

    def _part(self, checkpoint: CheckpointId, partition: Partition, file: FileCommittable) -> bytes:
        part = StagedPart(
            table=self._staging.table,
            job=self._ctx.job,
            operator=self._ctx.operator,
            checkpoint=checkpoint,
            staged=file.staged,
            target=file.target,
            rows=file.rows,
            size_bytes=file.size_bytes,
            partition=list(partition),
        )
        return msgspec.msgpack.encode(part)
