"""Reads Parquet and JSON Lines: one split per file, resumable at every row."""

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
from rheos.connectors.files.listing import FileToRead, Format, absolute, by_name, list_files
from rheos.connectors.rejected import OnError, check_on_error
from rheos.connectors.replay import Replay
from rheos.connectors.schemas import resolve
from rheos.errors import ProgramError, SchemaError
from rheos.formats.json_format import JsonFormat
from rheos.protocol.ports import Completion, Immediate
from rheos.site import located_at_call

_JSON = JsonFormat()


@located_at_call
def source(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schema: Any,
    format: Format | None = None,
    on_error: OnError = "fail",
    replay: Replay | None = None,
) -> FileSource:
    """Rows of Parquet or JSON Lines files, as a bounded source.

    Args:
        path: a file, a folder, a glob, or a list of these; local, or a URL that fsspec knows. Files
            end in .parquet, .pq, .jsonl, .ndjson or .json; JSON Lines may have .gz after that.
        schema: a dataclass or a pyarrow schema. Further columns in the files are ignored.
        format: overrules the files' names.
        on_error: what a row that does not fit the schema does: "fail" the job with its file and line,
            or "skip", which counts it (`skipped`) and gives it to the side output "rejected".
        replay: hand rows out at the pace of their own time, or a multiple of it. Without it, rows
            are read as fast as they can be.
    """
    check_on_error(on_error)
    if format not in (None, "parquet", "jsonl"):
        raise ProgramError(f"format={format!r} is not known", hint='write "parquet" or "jsonl"')
    rows, record = resolve(schema)
    paths = tuple(absolute(one) for one in ([path] if isinstance(path, str | os.PathLike) else path))
    if format == "jsonl" or (format is None and any(by_name(one) == "jsonl" for one in paths)):
        _JSON.check_decodes(rows)
    if replay is not None:
        if replay.on not in rows.names:
            raise SchemaError(
                f"the replay's column {replay.on!r} is not in the schema",
                hint=f"the schema has {', '.join(rows.names)}",
            )
        replay.column.check(rows, "the replay's column")
    return FileSource(paths, rows, record, format, on_error, replay)


@dataclass(frozen=True)
class FileSource(Source):
    """Made by `source`. A split is a file, and its id the file's path."""

    paths: tuple[str, ...]
    schema: pa.Schema
    record: type | None = None
    format: Format | None = None
    on_error: OnError = "fail"
    replay: Replay | None = None
    bounded: bool = field(default=True, init=False)

    def record_class(self) -> type | None:
        return self.record

    def unpaced(self) -> FileSource:
        return replace(self, replay=None)

    def splits(self) -> Sequence[Split]:
        files = list_files(self.paths, self.format)
        if any(file.format == "jsonl" for file in files):
            _JSON.check_decodes(self.schema)
            if self.replay is not None and self.replay.ratio is None:
                raise ProgramError(
                    "how much time a JSON Lines file spans is not known before it is read",
                    hint="give the replay a speed=, or say the span=",
                )
        return [Split(file.path, msgspec.msgpack.encode(file)) for file in files]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        file = msgspec.msgpack.decode(split.payload, type=FileToRead)
        skip = self.on_error == "skip"
        decoder: ChunkDecoder
        if file.format == "parquet":
            start = parquet.START if position is None else position
            decoder = parquet.ParquetDecoder(file.path, self.schema, position=start, skip_bad=skip)
        else:
            start = lines.START if position is None else position
            decoder = lines.LinesDecoder(
                file.path, _JSON, self.schema, position=start, compressed=file.gzip, skip_bad=skip
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
