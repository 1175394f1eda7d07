"""The rows of a DataFrame, written down as Parquet files, so that they can be read again as they are.

    <folder>/<staging>/00000-17.parquet     a file for each task; each is ordered by event time
    <folder>/manifest.json                  put last, if absent: what it lists is the staging

A staging is there when its manifest is; what was left of one that was not finished goes when the next
begins. A job that is started again takes what is there, and never asks the DataFrame again, as that may
give other rows by now.

Rows are dealt out to the files in turn, so that every file spans the whole time. Each is a split: all
of them advance side by side, and the watermark with them, so that windows of the past fire while the
past is read. Spark's tasks write the files themselves, by Arrow: it keeps types that Spark's own
Parquet has not. Nothing is brought to the driver but a line for each file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import fsspec
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.contract import Polled, ReaderContext, Source, Split, SplitReader
from rheos.connectors.files import parquet
from rheos.connectors.files.chunks import ChunkReader
from rheos.connectors.schemas import epoch_ms, shorten
from rheos.connectors.spark.casts import cast_rows
from rheos.connectors.spark.workers import module_lacking
from rheos.errors import CheckpointError, InputError, SchemaError
from rheos.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch

POSITIONS = "a DataFrame"
"""What the splits and positions of staged rows are, whatever made them."""

_MANIFEST = "manifest.json"
_VERSION = 1

_FILE_BYTES = 1 << 20
_LEAST_MOST_FILES = 16
"""A DataFrame is cut into a file for each MiB that Spark expects of it, but into no more than this, or
than there are slots: as many as a single subtask reads side by side."""

_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20


class _File(msgspec.Struct, frozen=True):
    name: str
    rows: int
    first_ms: int | None
    """The least event time; None without rows or event time."""


class _Manifest(msgspec.Struct, frozen=True):
    staging: str
    schema: bytes
    event_time: str | None
    files: list[_File]
    version: int = _VERSION


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    path: str
    first_ms: int | None


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StagedSource(Source):
    """The files of one staging. The id of a split begins with that of its staging."""

    folder: str
    staging: str
    schema: pa.Schema
    event_time: str | None
    files: tuple[_File, ...]
    bounded: bool = field(default=True, init=False)

    def splits(self) -> Sequence[Split]:
        return [
            Split(
                f"{self.staging}/{number:05d}",
                msgspec.msgpack.encode(
                    _Payload(f"{self.folder}/{self.staging}/{file.name}", file.first_ms)
                ),
            )
            for number, file in enumerate(self.files)
        ]

    def resumed(self, splits: Sequence[Split], known: Collection[str]) -> Sequence[Split]:
        # A savepoint that was taken elsewhere has a staging of its own: that is read on, and this one,
        # which holds the same rows or what became of them, is not read in addition.
        others = {_staging_of(name) for name in known} - {self.staging}
        return [] if others else splits

    def earliest_ms(self, split: Split, on: str) -> int | None:
        if on != self.event_time:
            return None
        return msgspec.msgpack.decode(split.payload, type=_Payload).first_ms

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        path = msgspec.msgpack.decode(split.payload, type=_Payload).path
        start = parquet.START if position is None else position
        decoder = parquet.ParquetDecoder(path, _stored_schema(self.schema), position=start)
        return _StagedReader(ChunkReader(path, decoder, start, ctx), self.schema)

    def positions(self) -> str:
        return POSITIONS

    def describe(self) -> str:
        return "DataFrame"


def _staging_of(split: str) -> str:
    return split.partition("/")[0]


class _StagedReader(SplitReader):
    def __init__(self, reader: SplitReader, schema: pa.Schema) -> None:
        self._reader = reader
        self._schema = schema

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        return cast_rows(polled, self._schema) if isinstance(polled, pa.RecordBatch) else polled

    def position(self) -> bytes:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()


# --- on the driver --------------------------------------------------------------------------------


def staged(frame: Any, schema: pa.Schema, event_time: str | None, folder: str) -> StagedSource:
    """The rows as they lie in the folder, written there before where they are not.

    Raises InputError where a row has no event time or the DataFrame cannot be read, SchemaError where
    the staged rows are of other columns, CheckpointError where the folder cannot be written.
    """
    folder = folder.rstrip("/")
    try:
        system, root = fsspec.core.url_to_fs(folder)
        manifest = _read_manifest(system, root)
        _remove_others(system, root, manifest)
        if manifest is None:
            system.makedirs(root, exist_ok=True)
            manifest = _stage(frame, schema, event_time, folder, system, root)
            _remove_others(system, root, manifest)
    except OSError as error:
        raise CheckpointError(
            f"the DataFrame cannot be staged in {folder}: {error}",
            hint="the job's checkpoint directory must be a place that the driver and every worker "
            "can write",
        ) from error
    found = pa.ipc.read_schema(pa.py_buffer(manifest.schema))
    _check_same(found, manifest.event_time, schema, event_time, folder)
    return StagedSource(folder, manifest.staging, schema, event_time, tuple(manifest.files))


def _read_manifest(system: Any, root: str) -> _Manifest | None:
    try:
        data = system.cat_file(f"{root}/{_MANIFEST}")
    except FileNotFoundError:
        return None
    try:
        manifest = msgspec.json.decode(data, type=_Manifest)
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"{root}/{_MANIFEST} is damaged: {error}",
            hint="restore it from a copy; without it the job cannot go on from its checkpoints",
        ) from error
    if manifest.version != _VERSION:
        raise CheckpointError(
            f"{root}/{_MANIFEST} was written by another version of Rheos",
            hint="start the job with the version that it was running with",
        )
    return manifest


def _remove_others(system: Any, root: str, manifest: _Manifest | None) -> None:
    """Removes what was staged and is in no manifest: of a driver that died, or of tasks that Spark ran
    once more."""
    if not system.isdir(root):
        return
    kept = None if manifest is None else manifest.staging
    for path in system.ls(root, detail=False):
        name = path.rstrip("/").rpartition("/")[2]
        if name not in (kept, _MANIFEST):
            system.rm(path, recursive=True)
    if manifest is not None:
        listed = {file.name for file in manifest.files}
        for path in system.ls(f"{root}/{kept}", detail=False):
            if path.rpartition("/")[2] not in listed:
                system.rm(path)


def _stage(
    frame: Any, schema: pa.Schema, event_time: str | None, folder: str, system: Any, root: str
) -> _Manifest:
    staging = uuid4().hex[:12]
    task = _Task(f"{folder}/{staging}", schema, event_time)
    system.makedirs(f"{root}/{staging}", exist_ok=True)
    try:
        files = _written(frame, task)
    except BaseException:
        with suppress(OSError):
            system.rm(f"{root}/{staging}", recursive=True)
        raise
    manifest = _Manifest(staging, schema.serialize().to_pybytes(), event_time, files)
    _put_if_absent(system, f"{root}/{_MANIFEST}", msgspec.json.encode(manifest))
    # Another driver may have been quicker: what is there is what counts.
    there = _read_manifest(system, root)
    assert there is not None
    return there


def _put_if_absent(system: Any, path: str, data: bytes) -> None:
    with suppress(FileExistsError):
        if "file" not in system.protocol:
            system.pipe_file(path, data, mode="create")
            return
        temporary = f"{path}.{uuid4().hex}"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        finally:
            os.unlink(temporary)


def _written(frame: Any, task: _Task) -> list[_File]:
    from pyspark.errors import PySparkException

    from rheos.connectors.spark.collecting import collected

    schema = task.schema
    # By their places: Spark does not tell `a` from `A`, and takes a dot for a path.
    columns = [f"c{i}" for i in range(len(schema))]
    rows = frame.toDF(*columns).repartition(_file_count(frame))
    if task.event_time is not None:
        rows = rows.sortWithinPartitions(columns[schema.names.index(task.event_time)])
    try:
        lines = collected(rows.mapInArrow(_shipped(task), _LINES)).rows
    except PySparkException as error:
        raise module_lacking(str(error)) or InputError(
            "the DataFrame could not be written down before the job",
            hint="look whether it can be computed at all, as with df.count()",
            detail=_python_part(str(error)),
        ) from None
    bad = sorted(line.bad for line in lines if line.bad is not None)
    if bad:
        raise InputError(
            f"a record of the DataFrame has no event time: column {task.event_time!r} is null, or "
            "out of range",
            record=bad[0],
            hint="leave such rows out, as with df.filter(col(...).isNotNull()), or fill the column in",
        )
    if not lines:
        # Every staging has a split, so that checkpoints can tell of it.
        empty = _FileWriter(task, "00000-0.parquet")
        empty.finish()
        return [_File("00000-0.parquet", 0, None)]
    named = sorted(lines, key=lambda line: line.name)
    return [_File(line.name, line.rows, line.first_ms) for line in named]


def _file_count(frame: Any) -> int:
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    expected = int(str(statistics.sizeInBytes()))
    most = max(_LEAST_MOST_FILES, frame.sparkSession.sparkContext.defaultParallelism)
    return int(max(1, min(-(-expected // _FILE_BYTES), most)))


def _python_part(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("at ", "...")))


def _check_same(
    found: pa.Schema, found_time: str | None, wanted: pa.Schema, wanted_time: str | None, folder: str
) -> None:
    """The job goes on from rows that were staged before: they must be of the DataFrame there is now."""
    if found.equals(wanted) and found_time == wanted_time:
        return
    if found_time != wanted_time:
        what = f"its event time was {found_time!r} and is {wanted_time!r} now"
    else:
        gone = [name for name in found.names if name not in wanted.names]
        new = [name for name in wanted.names if name not in found.names]
        other = [f for f in found if f.name in wanted.names and not f.equals(wanted.field(f.name))]
        if gone or new:
            what = f"it has lost the columns {gone}" if gone else f"it has got the columns {new}"
        elif other:
            now = wanted.field(other[0].name)
            what = f"column {now.name!r} was {_shown(other[0])} and is {_shown(now)} now"
        else:
            what = "its columns are in another order now"
    raise SchemaError(
        f"the DataFrame is not the one whose rows this job has staged in {folder}: {what}",
        hint="a job reads the rows that it wrote down when it was first started: give it the DataFrame "
        "it had; to read this one instead, start a job of another name or checkpoint directory",
    )


def _shown(column: pa.Field) -> str:
    return str(column.type) if column.nullable else f"{column.type} not null"


# --- in Spark's tasks -----------------------------------------------------------------------------

_LINES = "name string, rows long, first_ms long, bad string"

_LINE = pa.schema({"name": pa.string(), "rows": pa.int64(), "first_ms": pa.int64(), "bad": pa.string()})


@dataclass(frozen=True)
class _Task:
    """What a task needs to write its file."""

    folder: str
    schema: pa.Schema
    event_time: str | None


def _shipped(task: _Task) -> Any:
    paths = [path for path in sys.path if path]

    # A nested function is pickled by value, and learns the driver's paths before it imports anything.
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        from rheos.connectors.spark.staging import write_file

        yield from write_file(data, batches)

    import pickle

    data = pickle.dumps(task)
    return run


def write_file(data: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a Spark task: writes its rows and says so in a line, where it has any."""
    import pickle

    from pyspark import TaskContext

    task: _Task = pickle.loads(data)
    context = TaskContext.get()
    assert context is not None
    name = f"{context.partitionId():05d}-{context.taskAttemptId()}.parquet"
    writer = _FileWriter(task, name)
    try:
        for batch in batches:
            if batch.num_rows and writer.bad is None:
                writer.write(cast_rows(batch, task.schema))
        if writer.rows or writer.bad:
            writer.finish()
            line = {
                "name": name,
                "rows": writer.rows,
                "first_ms": writer.first_ms,
                "bad": writer.bad,
            }
            yield pa.RecordBatch.from_pylist([line], schema=_LINE)
    finally:
        writer.close()


class _FileWriter:
    """Writes one file, in row groups of a bounded size."""

    def __init__(self, task: _Task, name: str) -> None:
        self._task = task
        self._path = f"{task.folder}/{name}"
        self._stored = _stored_schema(task.schema)
        self._pending: list[Batch] = []
        self._file: Any = None
        self._local = False
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0
        self.first_ms: int | None = None
        self.bad: str | None = None
        """A record without event time."""

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
            self.bad = shorten(repr(batch.slice(row, 1).to_pylist()[0]))
            return False
        least = int(ts.min())
        self.first_ms = least if self.first_ms is None else min(self.first_ms, least)
        return True

    def _flush(self) -> None:
        if self._writer is None:
            system, inner = fsspec.core.url_to_fs(self._path)
            self._local = "file" in system.protocol
            if self._local:
                os.makedirs(os.path.dirname(inner), exist_ok=True)
            self._file = system.open(inner, "wb")
            self._writer = pq.ParquetWriter(self._file, self._stored)
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

    def close(self) -> None:
        """After an error: what was written counts for nothing, and is removed by the driver."""
        if self._file is not None:
            self._file.close()


# --- how columns are stored -----------------------------------------------------------------------


def _stored_schema(schema: pa.Schema) -> pa.Schema:
    """Columns are named by their place, as a path in Parquet has dots of its own."""
    return pa.schema([pa.field(f"c{i}", _stored_type(f.type)) for i, f in enumerate(schema)])


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Parquet has no record without fields: a bool that is true or null stands for one. All may be
    null, as Arrow's writer takes the fields of an absent record for missing ones."""
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
