"""Parquet files, read row group by row group and cast safely to a schema."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rheos.connectors.calls.file_systems import raise_if_away, url_to_fs
from rheos.connectors.files.chunks import BadRow, Chunk, ChunkDecoder, bad_row
from rheos.connectors.files.partition_reading import columns_in_folders, read_from_folders
from rheos.core.connectors.rejected_records import BadRecord
from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import row_values
from rheos.core.protocol.time_bounds import times_in
from rheos.core.times import TimeColumn, epoch_us
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.conforming import conform

# --- times that old versions of Spark wrote in another calendar ---------------------------------------


_VERSION = b"org.apache.spark.version"
_GREGORIAN = np.datetime64("1582-10-15", "D")
_SAME_OFFSETS = np.datetime64("1900-01-01", "D")


def has_old_times(notes: Mapping[bytes, bytes] | None, *, int96: bool = False) -> bool:
    """Return whether the file's times may use Spark's old calendar: those of type INT96, or all others.

    Args:
        notes: the key-value metadata of the file's footer.
        int96: whether the question is about columns of type INT96.
    """
    notes = notes or {}
    version = notes.get(_VERSION)
    if version is None:
        return False
    key, since = (b"legacyINT96", b"3.1") if int96 else (b"legacyDateTime", b"3")
    return version < since or b"org.apache.spark." + key in notes


def columns_with_old_times(file: pq.ParquetFile) -> frozenset[str]:
    """Return the columns of the file whose times may use Spark's old calendar."""
    notes = file.metadata.metadata
    old, old_int96 = has_old_times(notes), has_old_times(notes, int96=True)
    if not (old or old_int96):
        return frozenset()
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    int96 = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return frozenset(name for name in file.schema_arrow.names if (old_int96 if name in int96 else old))


def refuse_old_times(rows: Batch, columns: frozenset[str]) -> None:
    """Raise RowsError if one of the columns contains a time for which the calendars differ."""
    for name in columns.intersection(rows.schema.names):
        column = rows.column(name)
        if _has_old(column):
            kind = "a date or time from before the Gregorian calendar (1582) or standard time (1900)"
            raise RowsError(
                f"column {name!r} holds {kind}, written by a version of Spark that used another "
                "calendar: read the file with Spark 3 or newer and write it again"
            )


def _has_old(array: pa.Array) -> bool:
    return any(_is_old(leaf) for leaf in times_in(array))


def _is_old(leaf: pa.Array) -> bool:
    if pa.types.is_date32(leaf.type):
        integers, limit, unit = pa.int32(), _GREGORIAN, "D"
    elif pa.types.is_date64(leaf.type):
        integers, limit, unit = pa.int64(), _GREGORIAN, "ms"
    else:
        integers, limit, unit = pa.int64(), _SAME_OFFSETS, leaf.type.unit
    least = pc.min(leaf.view(integers)).as_py()
    return least is not None and least < int(limit.astype(f"M8[{unit}]").astype(np.int64))


CHUNK_ROWS = 65_536


class RowCursor(msgspec.Struct, frozen=True, array_like=True):
    """Position of the next row."""

    row_group: int = 0
    row: int = 0
    """Index of the row within its row group."""


START = msgspec.msgpack.encode(RowCursor())


class ParquetDecoder(ChunkDecoder):
    counts = "row"

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        *,
        position: bytes = START,
        skip_bad: bool = False,
        opened: Callable[[], pq.ParquetFile] | None = None,
    ) -> None:
        """Create a decoder. `opened` opens the file; by default `open_parquet` does."""
        self._path = path
        self._schema = schema
        self._cursor = msgspec.msgpack.decode(position, type=RowCursor)
        self._skip_bad = skip_bad
        self._opened = opened
        self._batches: Iterator[tuple[int, int, int, Batch]] | None = None
        self._file: pq.ParquetFile | None = None
        self._old: frozenset[str] = frozenset()
        """Columns whose times may use Spark's old calendar."""
        self._lock = threading.Lock()
        self._closed = False

    def read(self) -> Chunk | None:
        with self._lock:
            if self._closed:
                return None
            if self._batches is None:
                self._file = open_parquet(self._path) if self._opened is None else self._opened()
                check_schema(self._path, self._file.schema_arrow, self._schema)
                self._old = columns_with_old_times(self._file)
                self._batches = self._read_batches(self._file)
            try:
                following = next(self._batches, None)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise_if_away(error, f"{self._path} cannot be read")
                raise InputError(
                    f"{self._path}: row group {self._cursor.row_group} cannot be read: {error}",
                    hint="check whether the file is damaged, or was replaced while it was read",
                ) from error
            return None if following is None else self._chunk(*following)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._batches = None
            if self._file is not None:
                self._file.close(force=True)
                self._file = None

    def _read_batches(self, file: pq.ParquetFile) -> Iterator[tuple[int, int, int, Batch]]:
        """Yield row group, row within it, row within the file, and the rows from there on."""
        groups = file.metadata.num_row_groups
        before = sum(
            file.metadata.row_group(i).num_rows for i in range(min(self._cursor.row_group, groups))
        )
        for group in range(self._cursor.row_group, groups):
            skip = self._cursor.row if group == self._cursor.row_group else 0
            row = 0
            for read in file.iter_batches(
                CHUNK_ROWS, row_groups=[group], columns=self._schema.names, use_threads=False
            ):
                batch = read.select(self._schema.names)
                end = row + batch.num_rows
                if end > skip:
                    begin = max(row, skip)
                    yield group, begin, before + begin, batch.slice(begin - row)
                row = end
            if row != (wanted := file.metadata.row_group(group).num_rows):
                raise OSError(f"{row} rows were read, but {wanted} were written")
            before += row

    def _chunk(self, group: int, row: int, row_in_file: int, batch: Batch) -> Chunk:
        def decode(i: int, j: int) -> Batch:
            refuse_old_times(batch.slice(i, j - i), self._old)
            try:
                return _cast(batch.slice(i, j - i), self._schema)
            except pa.ArrowInvalid as error:
                raise RowsError(str(error)) from None

        rows, good, bad = sift(batch.num_rows, decode, self._schema, all_bad=self._skip_bad)

        def line(i: int) -> int:
            return row_in_file + i + 1

        rejected = [BadRow(i, line(i), _as_record(batch, i, what)) for i, what in bad]
        if rejected and not self._skip_bad:
            raise bad_row(
                self._path, rejected[0], f" (row {row + rejected[0].raw} of row group {group})"
            )

        def position(i: int) -> bytes:
            return msgspec.msgpack.encode(RowCursor(group, row + i))

        return Chunk(rows, good, batch.num_rows, rejected, position, line)


def _as_record(batch: Batch, row: int, what: str) -> BadRecord:
    return BadRecord(repr(row_values(batch, row)), None, what)


def open_parquet(path: str, checked: Callable[[Any], Any] | None = None) -> pq.ParquetFile:
    """Open a local or remote file, wrapped by `checked` unless that is None. Raises InputError."""
    try:
        system, inner = url_to_fs(path)
        local = "file" in system.protocol
        if local and checked is None:
            return pq.ParquetFile(inner, coerce_int96_timestamp_unit="us")
        file = system.open(inner, "rb")
        try:
            return pq.ParquetFile(
                file if checked is None else checked(file),
                pre_buffer=not local,
                # The default unit, nanoseconds, overflows for years outside 1677 to 2262.
                coerce_int96_timestamp_unit="us",
            )
        except BaseException:
            file.close()
            raise
    except FileNotFoundError as error:
        raise InputError(
            f"the file {path} is missing",
            hint="it existed when the job was planned; every worker must be able to read it",
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise_if_away(error, f"{path} cannot be read")
        raise InputError(
            f"{path} cannot be read as Parquet: {error}",
            hint="check that the file is complete, and in the format that its name suggests; "
            "format= overrides the name",
        ) from error


def time_span_us(path: str, times: TimeColumn) -> int:
    """Return the span of time of the column, from the file's statistics. Raises InputError."""
    file, on = open_parquet(path), times.name
    try:
        if on not in file.schema_arrow.names:
            raise _no_column(path, on, file.schema_arrow)
        type_ = file.schema_arrow.field(on).type
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        columns = [group.column(i) for group in groups for i in range(group.num_columns)]
        found = [column.statistics for column in columns if column.path_in_schema == on]
        known = [each for each in found if each is not None and each.has_min_max]
    finally:
        file.close(force=True)
    ends: list[Any] = [end for each in known for end in (each.min, each.max)]
    if not ends:
        raise InputError(
            f"{path} has no statistics of column {on!r}, so its time span is unknown",
            hint="pass speed= or span= to the replay",
        )
    moments = epoch_us(times.timestamps(pa.array(ends).cast(type_, safe=False)))
    return int(moments.max() - moments.min())


def check_schema(path: str, found: pa.Schema, wanted: pa.Schema) -> None:
    """Raise InputError if a column is missing, or of another kind than wanted."""
    for field in wanted:
        if field.name not in found.names:
            raise _no_column(path, field.name, found)
        type_ = found.field(field.name).type
        if type_ != field.type and not _related(type_, field.type):
            raise InputError(
                f"{path}: column {field.name!r} is {type_}, but the schema declares {field.type}",
                hint="correct the schema; a column can only be converted to a type of the same kind",
            )


def _no_column(path: str, name: str, found: pa.Schema) -> InputError:
    hint = f"correct the schema; the file has {', '.join(found.names)}"
    if columns_in_folders(path, [name]):
        hint = read_from_folders([name])
    return InputError(f"{path} has no column {name!r}", hint=hint)


def _related(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_dictionary(wanted):
        wanted = wanted.value_type
    return _kind(found) == _kind(wanted)


def _kind(type_: pa.DataType) -> str:
    kinds = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
        "time": (pa.types.is_timestamp, pa.types.is_date),
        "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    }
    return next(
        (kind for kind, tests in kinds.items() if any(is_a(type_) for is_a in tests)), str(type_.id)
    )


def _cast(batch: Batch, schema: pa.Schema) -> Batch:
    columns = [conform(column, field.type) for field, column in zip(schema, batch.columns, strict=True)]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)
