"""Staging of a DataFrame: its rows are written to Parquet files, so that they can be read again.

    <folder>/<staging>/00000-17.parquet     one file per task, sorted by event time
    <folder>/manifest.json                  written last, if absent: it lists the files of the staging

A staging exists once its manifest does; leftovers of unfinished ones are removed then. A restarted job
reads the existing staging. It never evaluates the DataFrame again, because a second evaluation may
return other rows. Every block that is read is checked against the manifest (`staging_manifest.py`).

Rows are distributed to the files in turn, so that every file covers the whole time span. Each file is a
split: all advance together, and so does the watermark, so that windows fire while the past is read.
Spark's tasks write the files themselves, through Arrow, which preserves types that Spark's own Parquet
does not have. The driver receives only one row per file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.casts import cast_rows
from rheos.connectors.files import parquet
from rheos.connectors.files.checksummed_files import CheckedFile
from rheos.connectors.files.chunks import ChunkReader
from rheos.connectors.source_wrapper import WrappedReader
from rheos.connectors.spark.dataframe import POSITIONS
from rheos.connectors.spark.staging_manifest import (
    Manifest,
    StagedFile,
    identity,
    put_manifest,
    read_manifest,
    remove_leftovers,
    remove_staging,
)
from rheos.connectors.spark.staging_writer import (
    LINES,
    StagingWriter,
    WriteTask,
    shipped,
    stored_schema,
)
from rheos.connectors.spark.workers import module_lacking
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Polled, ReaderContext, RowPlaces, Source, Split, SplitReader
from rheos.core.errors import CheckpointError, InputError, SchemaError
from rheos.core.times import TimeColumn

_FILE_BYTES = 1 << 20
_LEAST_MOST_FILES = 16
"""Minimum of the limit on files: the limit is higher if there are more slots. It is the number of files
that a subtask reads at a time. Below the limit, a DataFrame is written to one file per MiB of Spark's
estimate."""


class StagedFilePlace(msgspec.Struct, frozen=True, array_like=True):
    """Location of a staged file: the payload of a split."""

    path: str
    first_ms: int | None
    rows: int | None = None
    """Number of rows; None in splits of 0.1.0. Without checksums, the file is of a staging of 0.1.0."""
    size_bytes: int | None = None
    checksums: bytes | None = None


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StagedSource(Source):
    """Files of one staging. The id of a split begins with that of its staging."""

    folder: str
    staging: str
    schema: pa.Schema
    event_time: str | None
    files: tuple[StagedFile, ...]
    bounded: bool = field(default=True, init=False)

    def splits(self) -> Sequence[Split]:
        return [
            Split(
                f"{self.staging}/{number:05d}",
                msgspec.msgpack.encode(file_at(f"{self.folder}/{self.staging}", file)),
            )
            for number, file in enumerate(self.files)
        ]

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        # A savepoint of another checkpoint directory refers to its own staging. The job continues with
        # that one, and does not read this one, which contains the same rows or a later state of them.
        others = {_staging_of(name) for name in known} - {self.staging}
        return [] if others else splits

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        if self.event_time is None or on != TimeColumn(self.event_time):
            return None
        return msgspec.msgpack.decode(split.payload, type=StagedFilePlace).first_ms

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        staged = msgspec.msgpack.decode(split.payload, type=StagedFilePlace)
        return open_staged(staged, self.schema, position, ctx)

    def positions(self) -> str:
        return POSITIONS

    def describe(self) -> str:
        return "DataFrame"


def file_at(folder: str, file: StagedFile) -> StagedFilePlace:
    """Return the location of a staged file in the folder."""
    return StagedFilePlace(
        f"{folder}/{file.name}", file.first_ms, file.rows, file.size_bytes, file.checksums
    )


def open_staged(
    file: StagedFilePlace, schema: pa.Schema, position: bytes | None, ctx: ReaderContext
) -> SplitReader:
    """Return a reader of the rows, which have this schema."""
    start = parquet.START if position is None else position
    decoder = parquet.ParquetDecoder(
        file.path, stored_schema(schema), position=start, opened=partial(_opened, file)
    )
    return _StagedReader(ChunkReader(file.path, decoder, start, ctx), schema)


def _opened(staged: StagedFilePlace) -> pq.ParquetFile:
    """Open a staged file. Raises InputError if it is not the file that was written."""
    checked = None
    if staged.size_bytes is not None and staged.checksums is not None:
        checked = partial(CheckedFile, size_bytes=staged.size_bytes, checksums=staged.checksums)
    file = parquet.open_parquet(staged.path, checked)
    if staged.rows is not None and file.metadata.num_rows != staged.rows:
        found = file.metadata.num_rows
        file.close(force=True)
        raise InputError(
            f"{staged.path} holds {found} rows, but {staged.rows} were staged",
            hint="restore the file from a copy",
        )
    return file


def _staging_of(split: str) -> str:
    return split.partition("/")[0]


class _StagedReader(WrappedReader):
    def __init__(self, reader: SplitReader, schema: pa.Schema) -> None:
        super().__init__(reader)
        self._schema = schema

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        return cast_rows(polled, self._schema) if isinstance(polled, pa.RecordBatch) else polled

    def places(self) -> RowPlaces | None:
        return capabilities.places(self._reader)


# --- on the driver --------------------------------------------------------------------------------


def staged(frame: Any, schema: pa.Schema, event_time: str | None, folder: str) -> StagedSource:
    """Return a source of the rows staged in the folder; if they are not staged yet, stage them first.

    Raises InputError if a row has no event time or the DataFrame cannot be read, SchemaError if the
    staged rows have other columns, CheckpointError if the folder cannot be written.
    """
    folder = folder.rstrip("/")
    try:
        system, root = url_to_fs(folder)
        manifest = read_manifest(system, root)
        if manifest is None:
            system.makedirs(root, exist_ok=True)
            manifest = stage(frame, schema, event_time, folder, files=_file_count(frame))
        remove_leftovers(system, root, manifest)
    except OSError as error:
        raise CheckpointError(
            f"the DataFrame cannot be staged in {folder}: {error}",
            hint="the job's checkpoint directory must be writable for the driver and every worker",
        ) from error
    found = pa.ipc.read_schema(pa.py_buffer(manifest.schema))
    check_same(found, manifest.event_time, schema, event_time, folder)
    return StagedSource(folder, manifest.staging, schema, event_time, tuple(manifest.files))


def stage(
    frame: Any,
    schema: pa.Schema,
    event_time: str | None,
    folder: str,
    *,
    files: int,
    what: str = "the DataFrame",
    now_ms: int | None = None,
) -> Manifest:
    """Write the rows to this number of files and return the staging that then exists: this one, or that
    of another driver that was faster. Raises like `staged`, and OSError."""
    system, root = url_to_fs(folder)
    staging = uuid4().hex[:12]
    task = WriteTask(f"{folder}/{staging}", schema, event_time)
    system.makedirs(f"{root}/{staging}", exist_ok=True)
    try:
        written = _write_rows(frame, task, files, what)
    except BaseException:
        remove_staging(system, root, staging)
        raise
    manifest = Manifest(
        of=identity(root),
        staging=staging,
        schema=schema.serialize().to_pybytes(),
        event_time=event_time,
        files=written,
        staged_ms=now_ms,
    )
    put_manifest(system, root, manifest)
    # Another driver may have been faster: the manifest that exists counts.
    there = read_manifest(system, root)
    assert there is not None
    return there


def _write_rows(frame: Any, task: WriteTask, files: int, what: str) -> list[StagedFile]:
    from rheos.connectors.spark.collecting import collected
    from rheos.connectors.spark.versions import QUERY_ERRORS

    schema = task.schema
    # Columns are numbered: Spark equates `a` and `A`, and reads a dot as a path.
    columns = [f"c{i}" for i in range(len(schema))]
    rows = frame.toDF(*columns).repartition(files)
    if task.event_time is not None:
        rows = rows.sortWithinPartitions(columns[schema.names.index(task.event_time)])
    try:
        lines = collected(rows.mapInArrow(shipped(task), LINES)).rows
    except QUERY_ERRORS as error:
        raise module_lacking(str(error)) or InputError(
            f"{what} could not be staged before the job",
            hint="check that Spark can compute it, for example with df.count()",
            detail=_python_part(str(error)),
        ) from None
    bad = sorted(line.bad for line in lines if line.bad is not None)
    if bad:
        raise InputError(
            f"a record of {what} has no event time: column {task.event_time!r} is null, or "
            "out of range",
            record=bad[0],
            hint="filter out such rows, as with df.filter(col(...).isNotNull()), or fill in the column",
        )
    if not lines:
        # Every staging has at least one split, so that checkpoints can name it.
        empty = StagingWriter(task, "00000-0.parquet")
        empty.finish()
        return [empty.finished()]
    return [
        StagedFile(
            line.name, line.rows, line.first_ms, line.size_bytes, bytes(line.checksums), line.last_ms
        )
        for line in sorted(lines, key=lambda line: line.name)
    ]


def _file_count(frame: Any) -> int:
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    expected = int(str(statistics.sizeInBytes()))
    most = max(_LEAST_MOST_FILES, frame.sparkSession.sparkContext.defaultParallelism)
    return int(max(1, min(-(-expected // _FILE_BYTES), most)))


def _python_part(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("at ", "...")))


def check_same(
    found: pa.Schema, found_time: str | None, wanted: pa.Schema, wanted_time: str | None, folder: str
) -> None:
    """Raise SchemaError if the DataFrame differs from the one whose rows were staged earlier."""
    if found.equals(wanted) and found_time == wanted_time:
        return
    if found_time != wanted_time:
        what = f"its event time was {found_time!r} and is now {wanted_time!r}"
    else:
        gone = [name for name in found.names if name not in wanted.names]
        new = [name for name in wanted.names if name not in found.names]
        other = [f for f in found if f.name in wanted.names and not f.equals(wanted.field(f.name))]
        if gone or new:
            what = f"the columns {gone} are missing" if gone else f"the columns {new} are new"
        elif other:
            now = wanted.field(other[0].name)
            what = f"column {now.name!r} was {_type_text(other[0])} and is now {_type_text(now)}"
        else:
            what = "the order of its columns has changed"
    raise SchemaError(
        f"the DataFrame differs from the one that this job has staged in {folder}: {what}",
        hint="a job reads the rows that it staged when it first started: pass the same DataFrame; "
        "to read this one instead, start a job with another name or checkpoint directory",
    )


def _type_text(column: pa.Field) -> str:
    return str(column.type) if column.nullable else f"{column.type} not null"
