"""Source of files of rows, Parquet or lines: one split per file, resumable at every row."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import polars as pl
import pyarrow as pa

from rheos.connectors.files import lines, parquet
from rheos.connectors.files.chunks import REJECTED, ChunkDecoder, ChunkReader, EndedReader
from rheos.connectors.files.compression import Codec
from rheos.connectors.files.listing import FileToRead, Kind, lines_of, list_files
from rheos.connectors.files.partition_reading import (
    PartitionDecoder,
    UnpartitionedDecoder,
    check_top,
    columns_in_folders,
    folder_values,
    partition_values,
    without_columns,
)
from rheos.connectors.replay import Replay
from rheos.core.connectors.capabilities import UnfitForSparkError
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.connectors.rejected_records import OnError
from rheos.core.errors import InputError, ProgramError
from rheos.core.formats.contract import Format
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions
from rheos.core.protocol.ports import Completion, Immediate


@dataclass(frozen=True)
class FileSource(Source):
    """Source that `files.source` creates. A split is a file; its id is the file's path."""

    paths: tuple[str, ...]
    schema: pa.Schema
    record: type | None = None
    format: Kind | Format | None = None
    on_error: OnError = "fail"
    replay: Replay | None = None
    compression: Codec | None = None
    encoding: str | None = None
    """Encoding of files of lines; None for UTF-8."""
    partition_by: tuple[str, ...] = ()
    """Columns whose values are in the names of folders, not in the files."""
    only: pl.Expr | None = field(default=None, compare=False)
    """Condition on these columns: files in folders that do not fulfil it are not opened."""
    bounded: bool = field(default=True, init=False)

    def record_class(self) -> type | None:
        return self.record

    def unpaced(self) -> FileSource:
        return replace(self, replay=None)

    def reading(self, columns: frozenset[str]) -> FileSource | None:
        if self.on_error == "skip":
            # Any column can make a row bad, so all columns must be read.
            return None
        if isinstance(self.format, Format) and not self.format.finds_by_name:
            return None
        paced = set() if self.replay is None else {self.replay.on}
        # A null in a required column is an error, even if no operator reads the column.
        kept = [field for field in self.schema if not field.nullable or field.name in columns | paced]
        if all(field.name in self.partition_by for field in kept):
            # The number of rows is that of a column in the file.
            first = self._in_files().names[0]
            kept = [field for field in self.schema if field in kept or field.name == first]
        return None if len(kept) == len(self.schema) else replace(self, schema=pa.schema(kept))

    def parquet_files(self, splits: Sequence[Split]) -> Sequence[str]:
        files = [msgspec.msgpack.decode(split.payload, type=FileToRead) for split in splits]
        if any(file.format != "parquet" for file in files):
            raise UnfitForSparkError("files of lines have their own reader")
        if self.partition_by:
            raise UnfitForSparkError("the names of folders have values of the rows")
        if self.on_error != "fail":
            raise UnfitForSparkError('on_error="skip" needs the reader that finds bad rows')
        if self.replay is not None and self.replay.ratio != "max":
            raise UnfitForSparkError("it is replayed at a pace")
        return [file.path for file in files]

    @property
    def split_columns(self) -> Sequence[str]:
        return self.partition_by

    def skipping(self, condition: pl.Expr) -> FileSource:
        return replace(self, only=condition)

    def splits(self) -> Sequence[Split]:
        return self._splits_of(list_files(self.paths, self._word, self.compression))

    @property
    def _word(self) -> str | None:
        """Return the name of the format that the user specified, if any."""
        return self.format.name if isinstance(self.format, Format) else self.format

    def _splits_of(self, files: Sequence[FileToRead]) -> list[Split]:
        for format in {file.format: self._lines_of(file) for file in files}.values():
            if format is None:
                continue
            format.check_decodes(self._in_files())
            if self.replay is not None and self.replay.ratio is None:
                raise ProgramError(
                    "the time span of a file of lines is unknown before it is read",
                    hint="pass speed= or span= to the replay",
                )
        if self.partition_by:
            for folder in sorted({posixpath.dirname(file.path) for file in files}):
                check_top(folder, self.partition_by, self.paths)
                self._values(folder)
        return [Split(file.path, msgspec.msgpack.encode(file)) for file in files]

    def _in_files(self) -> pa.Schema:
        """Return the columns that are in the files."""
        return without_columns(self.schema, self.partition_by)

    def _values(self, folder: str) -> dict[str, pa.Scalar] | InputError:
        """Return the values of the partition columns in a folder, or why all rows in it are bad. Raise
        InputError if the folder has another layout, or bad rows are not skipped."""
        texts = folder_values(folder, self.partition_by)
        try:
            return partition_values(folder, texts, self.schema)
        except InputError as error:
            if self.on_error == "fail":
                raise
            return error

    def _skips(self, file: FileToRead) -> bool:
        """Return whether the condition on partition columns does not hold for a file."""
        if self.only is None:
            return False
        values = self._values(posixpath.dirname(file.path))
        if isinstance(values, InputError):
            return False
        schema = pa.schema([self.schema.field(name) for name in values])
        row = pa.RecordBatch.from_arrays(
            [pa.repeat(each, 1) for each in values.values()], schema=schema
        )
        try:
            (holds,) = RowExpressions([self.only], schema).values(row)
        except EVALUATION_FAILURES:
            return False  # The filter itself reports the error, with the record.
        return holds[0] is not True

    def _lines_of(self, file: FileToRead) -> Format | None:
        """Return the format of lines; None for Parquet."""
        return self.format if isinstance(self.format, Format) else lines_of(file.format)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        file = msgspec.msgpack.decode(split.payload, type=FileToRead)
        skip = self.on_error == "skip"
        format = self._lines_of(file)
        in_files = self._in_files()
        start = (parquet if format is None else lines).START if position is None else position
        if self._skips(file):
            return EndedReader(start)
        decoder: ChunkDecoder
        if format is None:
            decoder = parquet.ParquetDecoder(file.path, in_files, position=start, skip_bad=skip)
        else:
            decoder = lines.LinesDecoder(
                file.path,
                format,
                in_files,
                position=start,
                codec=file.compression,
                encoding=self.encoding,
                skip_bad=skip,
            )
        if self.partition_by:
            values = self._values(posixpath.dirname(file.path))
            decoder = PartitionDecoder(decoder, self.schema, values)
        elif format is not None and (named := columns_in_folders(file.path, self.schema.names)):
            decoder = UnpartitionedDecoder(decoder, file.path, named)
        if self.replay is None or self.replay.ratio == "max":
            return ChunkReader(file.path, decoder, start, ctx)
        return ChunkReader(file.path, decoder, start, ctx, self.replay.column, self._speed(file, ctx))

    def _speed(self, file: FileToRead, ctx: ReaderContext) -> Completion[float]:
        replay = self.replay
        assert replay is not None
        assert replay.ratio != "max"
        if replay.ratio is not None:
            return Immediate(replay.ratio)
        return ctx.io.submit(lambda: replay.ratio_over(parquet.time_span_us(file.path, replay.column)))

    def rejected_schema(self) -> pa.Schema | None:
        return REJECTED if self.on_error == "skip" else None

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(path) for path in self.paths]

    def describe(self) -> str:
        return f"files {', '.join(self.paths)}"
