"""Spark tasks of a staging: each writes its rows to one file and reports the file in one row."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.casts import cast_rows
from rheos.connectors.files.checksummed_files import ChecksummingFile
from rheos.connectors.spark.staging_manifest import StagedFile
from rheos.core.connectors.schemas import shown_row
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch
from rheos.core.times import epoch_ms

_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20

LINES = (
    "name string, rows long, first_ms long, last_ms long, size_bytes long, checksums binary, bad string"
)
"""Columns of a task's report about its file, in Spark's notation."""

_LINE = pa.schema(
    {
        "name": pa.string(),
        "rows": pa.int64(),
        "first_ms": pa.int64(),
        "last_ms": pa.int64(),
        "size_bytes": pa.int64(),
        "checksums": pa.binary(),
        "bad": pa.string(),
    }
)


@dataclass(frozen=True)
class WriteTask:
    """Configuration that a task needs to write its file."""

    folder: str
    schema: pa.Schema
    event_time: str | None


def shipped(task: WriteTask) -> Any:
    """Return the function for `mapInArrow`."""
    paths = [path for path in sys.path if path]

    # A nested function is pickled by value, and sets the driver's sys.path before it imports anything.
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        from rheos.connectors.spark.staging_writer import write_file

        yield from write_file(data, batches)

    import pickle

    data = pickle.dumps(task)
    return run


def write_file(data: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task: write its rows and report the file in one row, if it has rows."""
    import pickle

    from pyspark import TaskContext

    task: WriteTask = pickle.loads(data)
    context = TaskContext.get()
    assert context is not None
    name = f"{context.partitionId():05d}-{context.taskAttemptId()}.parquet"
    writer = StagingWriter(task, name)
    try:
        for batch in batches:
            if batch.num_rows and writer.bad is None:
                writer.write(cast_rows(batch, task.schema))
        if writer.rows or writer.bad:
            writer.finish()
            line = {**msgspec.structs.asdict(writer.finished()), "bad": writer.bad}
            yield pa.RecordBatch.from_pylist([line], schema=_LINE)
    finally:
        writer.close()


class StagingWriter:
    """Writes one file, in row groups of a bounded size."""

    def __init__(self, task: WriteTask, name: str) -> None:
        self._task = task
        self._name = name
        self._path = f"{task.folder}/{name}"
        self._stored = stored_schema(task.schema)
        self._pending: list[Batch] = []
        self._file: Any = None
        self._local = False
        self._checksums = ChecksummingFile(None)
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.bad: str | None = None
        """A record without event time, if there is one."""

    def write(self, batch: Batch) -> None:
        if self._task.event_time is not None and not self._has_times(batch, self._task.event_time):
            return
        self.rows += batch.num_rows
        self._pending.append(cast_rows(batch, self._stored))
        rows = sum(each.num_rows for each in self._pending)
        if rows >= _GROUP_ROWS or sum(each.nbytes for each in self._pending) >= _GROUP_BYTES:
            self._flush()

    def _has_times(self, batch: Batch, event_time: str) -> bool:
        times = batch.column(event_time)
        missing = times.is_null().to_numpy(zero_copy_only=False)
        ts = epoch_ms(times)
        unfit = missing | (ts <= MIN_TIMESTAMP_MS) | (ts >= MAX_TIMESTAMP_MS)
        if unfit.any():
            row = int(np.flatnonzero(unfit)[0])
            self.bad = shown_row(batch, row)
            return False
        least, most = int(ts.min()), int(ts.max())
        self.first_ms = least if self.first_ms is None else min(self.first_ms, least)
        self.last_ms = most if self.last_ms is None else max(self.last_ms, most)
        return True

    def _flush(self) -> None:
        if self._writer is None:
            system, inner = url_to_fs(self._path)
            self._local = "file" in system.protocol
            if self._local:
                os.makedirs(os.path.dirname(inner), exist_ok=True)
            self._file = system.open(inner, "wb")
            self._checksums = ChecksummingFile(self._file)
            self._writer = pq.ParquetWriter(self._checksums, self._stored)
        if self._pending:
            table = pa.Table.from_batches(self._pending, schema=self._stored)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
            self._pending = []

    def finish(self) -> None:
        self._flush()
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        if self._local:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def finished(self) -> StagedFile:
        """Return a description of the written file, after `finish`."""
        written = self._checksums
        return StagedFile(
            self._name,
            self.rows,
            self.first_ms,
            written.size_bytes,
            written.checksums(),
            self.last_ms,
        )

    def close(self) -> None:
        """Close the file after an error. The driver removes what was written."""
        if self._file is not None:
            self._file.close()


# --- how columns are stored -----------------------------------------------------------------------


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with numbered columns, because Parquet reads a dot in a name as a path."""
    return pa.schema([pa.field(f"c{i}", _stored_type(f.type)) for i, f in enumerate(schema)])


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are stored. Parquet has no record without fields: a bool that is
    true or null replaces it. Every field is nullable, because Arrow's writer treats the fields of an
    absent record as missing."""
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.bool_()
        return pa.struct([_stored_field(child) for child in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_stored_type(kind.key_type))
        return pa.map_(key, _stored_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_stored_field(kind.value_field))
    return kind


def _stored_field(child: pa.Field) -> pa.Field:
    return child.with_type(_stored_type(child.type)).with_nullable(True)
