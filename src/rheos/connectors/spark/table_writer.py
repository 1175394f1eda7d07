"""Tasks of a table sink: they stage Parquet files, fitted to the table's types.

Files are staged in the table's hidden folder `.rheos-staging`, like those of `files.sink`, so that a
Parquet table can take them by rename. Nothing here needs Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from rheos.connectors.files.committer import FileCommittable, checked
from rheos.connectors.files.partitions import Partition, PartitionedFiles, partition_folder
from rheos.connectors.files.sink import ROLL_BYTES, FileSink
from rheos.connectors.spark.casts import cast_rows
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class StagedPart(msgspec.Struct, frozen=True):
    """The committable: one file of one checkpoint, with paths relative to the table's folder."""

    table: str
    job: str
    operator: str
    checkpoint: int
    """The one at whose barrier it was staged."""
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
    """Decode a committable. Raises UnrestorableError if it is damaged, or names a file that Rheos would
    not.
    """
    return checked(committable, _part_decoder)


@dataclass(frozen=True)
class Staging:
    """Location and schema of staged rows."""

    table: str
    """The table's name or path, for people."""
    folder: str
    """As fsspec knows it."""
    schema: pa.Schema
    """The stream's columns, with the types that the table has."""
    partition_by: tuple[str, ...]
    """The columns that go into folders' names, and not into files."""

    @property
    def stored(self) -> pa.Schema:
        """Schema of the files."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])


class TableWriter(SinkWriter):
    """One subtask's rows: a file of each partition and checkpoint, or more where they grow large."""

    def __init__(self, staging: Staging, ctx: SinkContext) -> None:
        self._staging = staging
        self._ctx = ctx
        sink = FileSink(staging.folder, "parquet", ROLL_BYTES, "snappy")
        self._files = PartitionedFiles(ctx, staging.partition_by, sink.open)

    def write(self, batch: Batch) -> None:
        self._files.write(cast_rows(batch, self._staging.schema))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        files = self._files.prepare(checkpoint)
        return [self._part(checkpoint, partition, file) for partition, file in files]

    def close(self) -> None:
        self._files.close()

    def _part(self, checkpoint: CheckpointId, partition: Partition, file: FileCommittable) -> bytes:
        folder = partition_folder(self._staging.partition_by, partition)
        part = StagedPart(
            table=self._staging.table,
            job=self._ctx.job,
            operator=self._ctx.operator,
            checkpoint=checkpoint,
            staged=file.staged,
            target=f"{folder}/{file.target}" if folder else file.target,
            rows=file.rows,
            size_bytes=file.size_bytes,
            partition=list(partition),
        )
        return msgspec.msgpack.encode(part)
