"""Writes files of Parquet or of lines, exactly once: staged, then published with the checkpoint."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.calls.file_systems import missing_package
from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.compression import ENDS, Codec, compressed
from rheos.connectors.files.folder import EmptyFile, Mode, SinkFolder, owner_mark
from rheos.connectors.files.listing import Kind, check_kind, lines_of
from rheos.connectors.files.open_files import OpenFile, OpenLinesFile, OpenParquetFile
from rheos.connectors.files.partitions import (
    MAX_OPEN_FILES,
    AnyContext,
    PartitionedFiles,
    PartitionedWriter,
    check_partitions,
    partition_columns,
)
from rheos.connectors.files.publication.contract import FileCommittable, Publication
from rheos.connectors.files.publication.rename_publication import staging_folder
from rheos.connectors.files.publication.schemes import PUBLICATIONS, open_publication, scheme_of
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import (
    ConfigurationError,
    ProgramError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.formats.contract import Format
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.site import located_at_call

ROLL_BYTES = 128 << 20

_BUFFER_ROWS = 65_536
_BUFFER_BYTES = 8 << 20
_PARQUET_CODECS = ("snappy", "zstd", "lz4", "gzip", "brotli", "none")


@located_at_call
def sink(
    path: str | os.PathLike[str],
    *,
    format: Kind | Format = "parquet",
    roll_bytes: int = ROLL_BYTES,
    compression: str | None = None,
    mode: Mode = "error",
    partition_by: Sequence[str] = (),
    max_open_files: int = MAX_OPEN_FILES,
) -> FileSink:
    """Write rows to files in a folder; each file is visible once its checkpoint is complete.

    ```python
    counts.sink_to(rh.files.sink("out/", format="jsonl", partition_by=["day"]))
    ```

    Args:
        path: a folder, which is created if necessary. Local, or a URL of HDFS
            (`hdfs://`), S3 (`s3://`), Google Cloud Storage (`gs://`) or Azure (`abfs://`).
        format: "parquet", "jsonl", "csv", "text", or a format of lines with its own settings, such as
            `rh.formats.csv(delimiter=";")`.
        roll_bytes: when a file reaches this size, it is closed and the next one begins. Every
            checkpoint closes files, too.
        compression: for Parquet a codec (default "snappy"); for lines "gzip", "zstd" or "none".
        mode: what to do with existing files when the job starts without a checkpoint, which is every
            run without a checkpoint directory. "error" refuses to start; "append" keeps them and adds
            files; "overwrite" removes files that this sink wrote in jobs of this name, and refuses to
            start if there are any others. A job that resumes from its checkpoints or from a savepoint
            continues its files, whatever the mode.
        partition_by: columns by whose values the files are divided into folders, in the layout of Hive:
            `day=2026-03-01/part-....parquet`. The files do not contain these columns.
        max_open_files: maximum number of files that a subtask writes at a time, with `partition_by`.
            For another partition the subtask closes the least recently used file, and counts it as
            `files_closed_early`. Each open file buffers up to 8 MB of rows.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as an unknown format, mode or compression.
    """
    if mode not in get_args(Mode):
        raise ProgramError(f"mode={mode!r} is not known", hint='write "error", "append" or "overwrite"')
    check_kind(format)
    codec = compression or ("snappy" if format == "parquet" else "none")
    known = _PARQUET_CODECS if format == "parquet" else tuple(ENDS)
    if codec not in known:
        raise ProgramError(
            f"compression={codec!r} is not known for {_word(format)}",
            hint=f"write one of {', '.join(known)}",
        )
    if roll_bytes <= 0:
        raise ProgramError(
            f"roll_bytes={roll_bytes} is not a size", hint="set a number of bytes above 0"
        )
    if not isinstance(max_open_files, int) or max_open_files < 1:
        raise ProgramError(
            f"max_open_files={max_open_files!r} is not a number of files", hint="write 1 or more"
        )
    columns = partition_columns(partition_by)
    return FileSink(
        absolute(path),
        format,
        roll_bytes,
        codec,
        mode,
        partition_by=columns,
        max_open_files=max_open_files,
    )


def _word(format: Kind | Format) -> str:
    return format.describe() if isinstance(format, Format) else format


@dataclass(frozen=True)
class FileSink(Sink):
    """Sink that `files.sink` creates."""

    path: str
    format: Kind | Format
    roll_bytes: int
    compression: str
    mode: Mode = "append"
    owner: str = ""
    """Mark of the files of this sink and job name. Empty until the sink is prepared."""
    schema: pa.Schema | None = None
    """Schema of the rows; None until the sink is prepared."""
    partition_by: tuple[str, ...] = ()
    """Columns whose values are in the names of folders, not in the files."""
    max_open_files: int = MAX_OPEN_FILES

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> FileSink:
        return replace(self, owner=owner_mark(*writer), schema=schema)

    def open(self, ctx: SinkContext) -> SinkWriter:
        if not self.partition_by:
            return FileWriter(self, ctx, self._publication())
        files = PartitionedFiles(
            ctx,
            self.partition_by,
            lambda part, folder: FileWriter(self, part, self._publication(), folder),
            self.max_open_files,
        )
        return PartitionedWriter(files)

    def _publication(self) -> Publication:
        return open_publication(self.path, self.owner)

    def committer(self) -> Committer:
        return FileCommitter(self.path, self.mode, self.owner, self._empty(), len(self.partition_by))

    @property
    def takes_changes(self) -> bool:
        """Return whether the format writes the kind of each change."""
        return isinstance(self.format, Format) and self.format.encodes_changes

    @property
    def lines(self) -> Format | None:
        """Return the format of lines; None for Parquet."""
        return lines_of(self.format)

    @property
    def end(self) -> str:
        """Return the file extension."""
        if self.lines is None:
            return "parquet"
        assert self.lines.in_lines is not None
        return self.lines.in_lines.end + ENDS[self.codec]

    @property
    def codec(self) -> Codec:
        """Return the codec for files of lines."""
        return cast("Codec", self.compression)

    def _empty(self) -> EmptyFile | None:
        """Return a file without rows, from which readers learn the columns before the first row is
        published."""
        if self.schema is None or self.partition_by:  # Readers refuse a file next to partition folders.
            return None
        out = io.BytesIO()
        if self.lines is None:
            pq.write_table(self.schema.empty_table(), out, compression=self.compression)
        else:
            out.write(compressed(self.lines.encoder(self.schema).header(), self.codec))
        return EmptyFile(f"part-{self.owner}-empty.{self.end}", out.getvalue())

    def validate(self, schema: pa.Schema) -> None:
        if not schema.names:
            raise SchemaError("a file needs at least one column", hint="select the columns to write")
        check_partitions(self.partition_by, schema)
        if self.lines is not None:
            stored = [field for field in schema if field.name not in self.partition_by]
            self.lines.check_encodes(pa.schema(stored))
        scheme = scheme_of(self.path)
        if scheme not in PUBLICATIONS:
            raise ConfigurationError(
                f"files cannot be published exactly once on {scheme}://",
                hint="write to a local or shared folder, or to hdfs://, s3://, gs:// or abfs://",
            )
        if install := missing_package(self.path):
            raise ConfigurationError(f"files on {scheme}:// need another package", hint=install)
        folder = SinkFolder(self.path)
        if folder.local:
            self._check_writable(folder.root)

    def _check_writable(self, root: str) -> None:
        existing = root
        while not os.path.lexists(existing):
            existing = os.path.dirname(existing)
        if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
            why = "may not be written to" if os.path.isdir(existing) else "is not a folder"
            raise ConfigurationError(
                f"the sink's folder {self.path} cannot be written: {existing} {why}",
                hint="choose a folder that the job's user may write to, on every worker",
            )

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(self.path)]

    def describe(self) -> str:
        by = f", by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"{_word(self.format)} files in {self.path}{by}"


class FileWriter(SinkWriter):
    """Stages one subtask's rows. Rows are buffered, encoded together, and appended to the open file."""

    def __init__(
        self,
        sink: FileSink,
        ctx: AnyContext,
        publication: Publication,
        folder: str = "",
        staging: str | None = None,
    ) -> None:
        """Create the writer, without opening a file.

        Args:
            sink: the sink's description.
            ctx: the context of the writer.
            publication: writes and publishes the files.
            folder: folder of published files, relative to the sink's; empty if there are no partitions.
            staging: folder of staged files, relative to the sink's; None: a hidden one of the attempt.
        """
        self._sink = sink
        self._ctx = ctx
        self._publication = publication
        self._target_folder = folder
        self._staging = staging_folder(ctx.job, ctx.attempt) if staging is None else staging
        run = hashlib.sha256(f"{ctx.job}\0{ctx.operator}".encode()).hexdigest()[:12]
        owner = f"{sink.owner}-" if sink.owner else ""
        self._prefix = f"part-{owner}{run}-{ctx.attempt}-{ctx.subtask}"
        self._number = 0
        self._buffer: list[Batch] = []
        self._buffer_rows = 0
        self._buffer_bytes = 0
        self._file: OpenFile | None = None
        self._closed: list[FileCommittable] = []
        """Files closed since the last `prepare`."""

    def write(self, batch: Batch) -> None:
        self._buffer.append(batch)
        self._buffer_rows += batch.num_rows
        self._buffer_bytes += batch.nbytes
        if self._buffer_rows >= _BUFFER_ROWS or self._buffer_bytes >= _BUFFER_BYTES:
            self._guarded(self._flush)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._guarded(self._finish_epoch)
        staged = [msgspec.msgpack.encode(file) for file in self._closed]
        self._closed = []
        return staged

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # The disk may be full; the file is removed in any case.
                self._file.abandon()
            self._closed.append(self._file.committable())
            self._file = None
        # The next attempt removes what remains, such as an upload without a complete part.
        with contextlib.suppress(OSError, UnrestorableError):
            for file in self._closed:
                self._publication.drop(file)
            self._publication.folder.remove_if_empty(self._staging)
        self._closed, self._buffer = [], []

    def _flush(self) -> None:
        if not self._buffer_rows:
            return
        table = pa.Table.from_batches(self._buffer, schema=self._ctx.schema)
        self._buffer, self._buffer_rows, self._buffer_bytes = [], 0, 0
        if self._file is None:
            self._file = self._new_file()
        self._file.append(table)
        if self._file.size_bytes >= self._sink.roll_bytes:
            self._close_file(self._file)

    def _finish_epoch(self) -> None:
        self._flush()
        if self._file is not None:
            self._close_file(self._file)
        if self._closed:
            self._publication.settle([self._staging])

    def _new_file(self) -> OpenFile:
        name = f"{self._prefix}-{self._number:05d}.{self._sink.end}"
        place = posixpath.join(self._staging, name), posixpath.join(self._target_folder, name)
        self._number += 1
        raw = self._publication.create(*place)
        if self._sink.lines is None:
            return OpenParquetFile(place, raw, self._ctx.schema, self._sink.compression)
        encoder = self._sink.lines.encoder(self._ctx.schema)
        return OpenLinesFile(place, raw, encoder, self._sink.codec)

    def _close_file(self, file: OpenFile) -> None:
        file.finish()
        committable = file.committable()
        self._publication.settle([committable.staged])
        self._closed.append(committable)
        self._file = None

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except OSError as error:
            kind = UnavailableError if is_outage(error) else ConfigurationError
            raise kind(
                f"rows could not be written below {self._sink.path}: {error}",
                operator=self._ctx.operator,
                hint="check that the disk is not full, and that the job's user may write there, on "
                "every worker",
            ) from error
