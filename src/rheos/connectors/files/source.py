"""Reads files of rows, Parquet or lines: one split per file, resumable at every row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.connectors.files import lines, parquet
from rheos.connectors.files.chunks import REJECTED, ChunkDecoder, ChunkReader
from rheos.connectors.files.compression import Codec, check_codec
from rheos.connectors.files.listing import (
    FileToRead,
    Kind,
    absolute,
    by_name,
    check_kind,
    lines_of,
    list_files,
)
from rheos.connectors.formatted import rows_of
from rheos.connectors.rejected import OnError, check_on_error
from rheos.connectors.replay import Replay
from rheos.connectors.schemas import resolve
from rheos.errors import ProgramError, SchemaError
from rheos.formats.contract import Format
from rheos.protocol.ports import Completion, Immediate
from rheos.site import located_at_call


@located_at_call
def source(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schema: Any = None,
    format: Kind | Format | None = None,
    compression: Codec | None = None,
    on_error: OnError = "fail",
    replay: Replay | None = None,
) -> FileSource:
    """Rows of files, Parquet or lines (JSON Lines, CSV, text), as a bounded source.

    Args:
        path: a file, a folder, a glob, or a list of these; local, or a URL that fsspec knows. Files
            end in .parquet, .pq, .jsonl, .ndjson, .json or .csv; files of lines may have .gz or .zst
            after that.
        schema: a dataclass or a pyarrow schema. Further columns in the files are ignored. Text needs
            none: its rows have one column, `value`.
        format: overrules the files' names: "parquet", "jsonl", "csv", "text", or a format with its own
            settings, such as `rh.formats.csv(delimiter=";")`.
        compression: of files of lines, "none", "gzip" or "zstd"; overrules the files' names.
        on_error: what a row that does not fit the schema does: "fail" the job with its file and line,
            or "skip", which counts it (`skipped`) and gives it to the side output "rejected".
        replay: hand rows out at the pace of their own time, or a multiple of it. Without it, rows
            are read as fast as they can be.
    """
    check_on_error(on_error)
    check_kind(format)
    check_codec(compression)
    paths = tuple(absolute(one) for one in ([path] if isinstance(path, str | os.PathLike) else path))
    kinds = [format] if format is not None else [by_name(one) for one in paths]
    of_lines = [found for kind in kinds if (found := lines_of(kind)) is not None]
    if of_lines:
        rows, record = rows_of(of_lines[0], schema)
    elif schema is None:
        raise SchemaError(
            "a source of files needs a schema",
            hint="give schema=, a dataclass or a pyarrow.Schema that describes a row",
        )
    else:
        rows, record = resolve(schema)
    for each in of_lines:
        each.check_decodes(rows)
    if replay is not None:
        if replay.on not in rows.names:
            raise SchemaError(
                f"the replay's column {replay.on!r} is not in the schema",
                hint=f"the schema has {', '.join(rows.names)}",
            )
        replay.column.check(rows, "the replay's column")
    return FileSource(paths, rows, record, format, on_error, replay, compression)


@dataclass(frozen=True)
class FileSource(Source):
    """Made by `source`. A split is a file, and its id the file's path."""

    paths: tuple[str, ...]
    schema: pa.Schema
    record: type | None = None
    format: Kind | Format | None = None
    on_error: OnError = "fail"
    replay: Replay | None = None
    compression: Codec | None = None
    bounded: bool = field(default=True, init=False)

    def record_class(self) -> type | None:
        return self.record

    def unpaced(self) -> FileSource:
        return replace(self, replay=None)

    def splits(self) -> Sequence[Split]:
        word = self.format.name if isinstance(self.format, Format) else self.format
        files = list_files(self.paths, word, self.compression)
        for format in {file.format: self._lines_of(file) for file in files}.values():
            if format is None:
                continue
            format.check_decodes(self.schema)
            if self.replay is not None and self.replay.ratio is None:
                raise ProgramError(
                    "how much time a file of lines spans is not known before it is read",
                    hint="give the replay a speed=, or say the span=",
                )
        return [Split(file.path, msgspec.msgpack.encode(file)) for file in files]

    def _lines_of(self, file: FileToRead) -> Format | None:
        """The format of its lines; None for Parquet."""
        return self.format if isinstance(self.format, Format) else lines_of(file.format)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        file = msgspec.msgpack.decode(split.payload, type=FileToRead)
        skip = self.on_error == "skip"
        format = self._lines_of(file)
        decoder: ChunkDecoder
        if format is None:
            start = parquet.START if position is None else position
            decoder = parquet.ParquetDecoder(file.path, self.schema, position=start, skip_bad=skip)
        else:
            start = lines.START if position is None else position
            decoder = lines.LinesDecoder(
                file.path,
                format,
                self.schema,
                position=start,
                codec=file.compression,
                skip_bad=skip,
            )
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

    def describe(self) -> str:
        return f"files {', '.join(self.paths)}"
