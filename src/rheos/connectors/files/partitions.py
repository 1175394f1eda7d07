"""Files in partition folders, in Hive's layout: `day=2026-03-01/part-....parquet`.

The values of the partition columns are in the names of the folders, not in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.files.publication.contract import FileCommittable
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.connectors.schemas import shorten
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.formats.decimal_text import with_writable_times

MAX_OPEN_FILES = 32
"""Maximum number of files that a subtask writes at a time."""

MAX_FOLDER_BYTES = 255
"""Maximum length of a folder's name, which is that of Linux and HDFS."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Folder name that Spark and Hive use for null and for the empty string."""

Partition = tuple[str | None, ...]
"""Values of the partition columns as strings."""


def partition_columns(partition_by: object) -> tuple[str, ...]:
    """Return `partition_by` as a tuple. Raises ProgramError if it is not a list of names."""
    if (
        isinstance(partition_by, str)
        or not isinstance(partition_by, Sequence)
        or not all(isinstance(name, str) for name in partition_by)
    ):
        raise ProgramError(
            f"partition_by={partition_by!r} is not a list of columns", hint='write partition_by=["day"]'
        )
    return tuple(partition_by)


def check_partitions(columns: Sequence[str], schema: pa.Schema, owner: str = "the stream") -> None:
    """Check partition columns against the schema of the rows. `owner` names it in errors.

    Raises:
        ProgramError: A column does not exist or is named twice, or no column is left for the files.
        SchemaError: A column has a type whose values cannot name a folder.
    """
    for name in columns:
        if name not in schema.names:
            raise ProgramError(
                f"partition_by names the column {name!r}, which {owner} does not have",
                hint=f"it has {', '.join(schema.names)}",
            )
        if not _can_name_folders(schema.field(name).type):
            raise SchemaError(
                f"the column {name!r} is {schema.field(name).type}, which cannot name a partition",
                hint="partition by strings, integers, booleans, decimals, dates or timestamps; "
                "derive such a column first",
            )
    if len(set(columns)) < len(columns):
        raise ProgramError(f"partition_by={list(columns)} names a column twice", hint="name it once")
    if columns and set(columns) == set(schema.names):
        raise ProgramError(
            "all columns are partition columns, so no column is left for the files",
            hint="leave at least one column out of partition_by",
        )


def _can_name_folders(kind: pa.DataType) -> bool:
    t = pa.types
    kinds = (t.is_string, t.is_large_string, t.is_integer, t.is_boolean, t.is_decimal, t.is_date)
    return any(is_a(kind) for is_a in (*kinds, t.is_timestamp))


@dataclass(frozen=True)
class FileContext:
    """The part of a sink's context that names files, for a committer that writes some."""

    job: JobId
    attempt: Attempt
    operator: str
    subtask: int
    schema: pa.Schema
    count: Callable[[str, int], None] = lambda name, by: None


AnyContext: TypeAlias = SinkContext | FileContext


class PartitionedFiles:
    """Files of one subtask. Each partition has one or more of them in each checkpoint."""

    def __init__(
        self,
        ctx: AnyContext,
        columns: Sequence[str],
        open_file: Callable[[AnyContext, str], SinkWriter],
        max_open: int = MAX_OPEN_FILES,
    ) -> None:
        """Create the owner of the files, without opening a file.

        Args:
            ctx: The context of the sink's writer.
            columns: The partition columns.
            open_file: Returns the writer of the files in the folder of one partition.
            max_open: Maximum number of open files. At the limit, the least recently used one is closed.
        """
        self._ctx = ctx
        self._columns = columns
        self._open_file = open_file
        self._max_open = max_open
        self._open: dict[Partition, SinkWriter] = {}
        """Open files by partition, the least recently used one first."""
        self._opened = 0
        self._closed: list[tuple[Partition, FileCommittable]] = []

    def write(self, rows: Batch) -> None:
        """Write rows that contain the partition columns."""
        for partition, part in _by_partition(rows, self._columns):
            writer = self._open.pop(partition, None) or self._new_writer(partition, part.schema)
            self._open[partition] = writer
            writer.write(part)

    def prepare(self, checkpoint: CheckpointId) -> list[tuple[Partition, FileCommittable]]:
        """Close all files, and return those closed since the previous checkpoint."""
        for partition in list(self._open):
            self._finish(partition, checkpoint)
        closed, self._closed = self._closed, []
        return closed

    def close(self) -> None:
        """Remove files that are still open. The next attempt removes staged files."""
        for writer in self._open.values():
            writer.close()
        self._open = {}

    def _new_writer(self, partition: Partition, schema: pa.Schema) -> SinkWriter:
        if len(self._open) >= self._max_open:
            self._finish(next(iter(self._open)), CheckpointId(0))
            self._ctx.count("files_closed_early", 1)
        # File names must be unique, so each writer uses an operator id of its own.
        operator = f"{self._ctx.operator}, part {self._opened}"
        self._opened += 1
        ctx = replace(self._ctx, operator=operator, schema=schema)
        for column, value in zip(self._columns, partition, strict=True):
            name = partition_folder([column], [value])
            if (size := len(name.encode())) > MAX_FOLDER_BYTES:
                raise InputError(
                    f"a value of column {column!r} would name a folder by {size} bytes, but "
                    f"{MAX_FOLDER_BYTES} is the maximum",
                    record=shorten(name),
                    hint="partition by shorter strings, such as a prefix or a hash of the column",
                )
        return self._open_file(ctx, partition_folder(self._columns, partition))

    def _finish(self, partition: Partition, checkpoint: CheckpointId) -> None:
        for staged in self._open.pop(partition).prepare(checkpoint):
            self._closed.append((partition, msgspec.msgpack.decode(staged, type=FileCommittable)))


class PartitionedWriter(SinkWriter):
    """Writer of a file sink with partition columns."""

    def __init__(self, files: PartitionedFiles) -> None:
        self._files = files

    def write(self, batch: Batch) -> None:
        self._files.write(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return [msgspec.msgpack.encode(file) for _, file in self._files.prepare(checkpoint)]

    def close(self) -> None:
        self._files.close()


def partition_folder(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the folder of a partition as Spark and Hive name it: `day=2026-03-01/country=DE`."""
    return "/".join(
        f"{_escaped(column)}={NULL_PARTITION if value is None else _escaped(value)}"
        for column, value in zip(columns, values, strict=True)
    )


_ESCAPED = frozenset([*map(chr, range(32)), *"\"#%'*/:=?\\\x7f{}[]^"])


def _escaped(text: str) -> str:
    """Escape characters by the rule of Spark (ExternalCatalogUtils.escapePathName), and NUL."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _by_partition(
    rows: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield the rows of each partition, without the partition columns."""
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
    """Return values as they appear in folder names. A folder name cannot be empty, so Spark treats an
    empty string as null."""
    texts = pc.cast(column, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
