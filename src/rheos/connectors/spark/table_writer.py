"""Tasks of a table sink: they stage Parquet files, fitted to the table's types.

Files are staged in the table's hidden folder `.rheos-staging`, like those of `files.sink`, so that a
Parquet table can take them by rename. Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.files.committer import FileCommittable, checked
from rheos.connectors.files.sink import ROLL_BYTES, FileSink, FileWriter
from rheos.connectors.spark.casts import cast_rows
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.formats.decimal_text import with_writable_times

_OPEN_PARTITIONS = 32
"""With rows of more partitions than these in one checkpoint, files are closed early."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Name that Spark and Hive use for the folder of null and of the empty string."""


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
        self._sink = FileSink(staging.folder, "parquet", ROLL_BYTES, "snappy")
        self._open: dict[tuple[str | None, ...], FileWriter] = {}
        self._made = 0
        self._closed: list[tuple[tuple[str | None, ...], bytes]] = []
        """Staged files, by partition."""

    def write(self, batch: Batch) -> None:
        rows = cast_rows(batch, self._staging.schema)
        for partition, part in _by_partition(rows, self._staging.partition_by):
            self._writer(partition).write(part)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        for partition in list(self._open):
            self._finish(partition, checkpoint)
        closed, self._closed = self._closed, []
        return [self._part(checkpoint, partition, file) for partition, file in closed]

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()
        self._open = {}

    def _writer(self, partition: tuple[str | None, ...]) -> FileWriter:
        writer = self._open.get(partition)
        if writer is None:
            if len(self._open) >= _OPEN_PARTITIONS:
                self._finish(next(iter(self._open)), CheckpointId(0))
            # A name is never used twice: so each of them writes as an operator of its own.
            operator = f"{self._ctx.operator}, part {self._made}"
            ctx = replace(self._ctx, operator=operator, schema=self._staging.stored)
            self._made += 1
            writer = self._open[partition] = FileWriter(self._sink, ctx)
        return writer

    def _finish(self, partition: tuple[str | None, ...], checkpoint: CheckpointId) -> None:
        staged = self._open.pop(partition).prepare(checkpoint)
        self._closed.extend((partition, file) for file in staged)

    def _part(self, checkpoint: CheckpointId, partition: tuple[str | None, ...], data: bytes) -> bytes:
        file = msgspec.msgpack.decode(data, type=FileCommittable)
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


def partition_folder(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """As Spark calls it: `day=2026-03-01/country=DE`."""
    return "/".join(
        f"{_escaped(column)}={NULL_PARTITION if value is None else _escaped(value)}"
        for column, value in zip(columns, values, strict=True)
    )


_ESCAPED = frozenset([*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{}[]^"])


def _escaped(text: str) -> str:
    """Spark's own rule (ExternalCatalogUtils.escapePathName)."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _by_partition(
    rows: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows without the columns that go into folders' names, by the values of these."""
    if not columns:
        yield (), rows
        return
    named = with_writable_times(rows.select(columns), "the name of a partition")
    values = [_texts(column) for column in named.columns]
    keys = pa.table({str(i): value for i, value in enumerate(values)})
    keys = keys.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    groups = keys.group_by([str(i) for i in range(len(columns))], use_threads=False)
    stored = rows.drop_columns(list(columns))
    for group in groups.aggregate([("row", "list")]).to_pylist():
        partition = tuple(group[str(i)] for i in range(len(columns)))
        yield partition, stored.take(pa.array(group["row_list"], pa.int64()))


def _texts(column: pa.Array) -> pa.Array:
    """Return values as they appear in folder names. An empty string has no name, so Spark treats it as
    null.
    """
    texts = pc.cast(column, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
