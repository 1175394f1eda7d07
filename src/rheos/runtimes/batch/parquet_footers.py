"""The check whether Spark may read Parquet files instead of our own reader.

Only the footers are read, before any row. Spark may read files if reading cannot fail and loses
nothing, so that no result of a program, not even an error, depends on the reader. So the types of all
files must be the declared ones or widen to them. Columns declared free of nulls, even those that Spark
will not read, must contain none. And nothing may be stored in a way that Spark reads differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.files.parquet import check_schema, has_old_times, open_parquet
from rheos.core.connectors.capabilities import UnfitForSparkError
from rheos.runtimes.batch.pushdown_constants import INTEGER_NAMES

_READ_AT_ONCE = 16

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
_ENCODINGS = frozenset(
    [
        *("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"),
        *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    ]
)
_MAX_MS = 2**63 // 1000 - 1


@dataclass(frozen=True)
class ColumnInFiles:
    """A column as it is stored in the files."""

    spark_type: str
    """Type as which Spark reads it, from all files."""
    as_declared: bool
    """Whether it has the declared type in all files, so that the reader may apply a filter to it."""


def columns_in_files(
    paths: Sequence[str], schema: pa.Schema, read: Iterable[str], *, widened: bool = True
) -> Mapping[str, ColumnInFiles]:
    """Return the columns `read` of the files. Raise UnfitForSparkError if Spark may not read them.
    Raise InputError if no reader can: a file is missing or damaged, or lacks columns of the schema.

    `widened` is whether this Spark reads a column of int or float as bigint or double.
    """
    wanted = [name for name in schema.names if name in frozenset(read)]
    with ThreadPoolExecutor(min(_READ_AT_ONCE, len(paths))) as threads:
        of_files = list(threads.map(lambda path: _of_file(path, schema, wanted), paths))
    return {
        name: _common(schema.field(name), [kinds[name] for kinds in of_files], widened)
        for name in wanted
    }


# --- one file -------------------------------------------------------------------------------------


def _of_file(path: str, schema: pa.Schema, wanted: Sequence[str]) -> dict[str, pa.DataType]:
    file = open_parquet(path)
    try:
        found = file.schema_arrow
        check_schema(path, found, schema)
        try:
            return _Footer(file).columns(schema, wanted)
        except UnfitForSparkError as reason:
            raise UnfitForSparkError(f"{path}: {reason}") from None
    finally:
        file.close(force=True)


class _Footer:
    def __init__(self, file: pq.ParquetFile) -> None:
        self._arrow = file.schema_arrow
        self._metadata = file.metadata
        self._leaves = [file.schema.column(i) for i in range(len(file.schema))]
        self._groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]

    def columns(self, schema: pa.Schema, wanted: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types of the wanted columns in this file, all of which Spark can read."""
        found: dict[str, pa.DataType] = {}
        for field in schema:
            if self._arrow.names.count(field.name) != 1:
                raise UnfitForSparkError(f"has several columns {field.name!r}")
            places = [i for i, leaf in enumerate(self._leaves) if _top(leaf.path, field.name)]
            if not field.nullable:
                self._check_nulls(field.name, places)
            if field.name in wanted:
                self._check_case(field.name)
                found[field.name] = self._readable(field, places)
            elif self._arrow.field(field.name).type != field.type:
                # A column that is not read is not cast either, so its cast must never fail.
                self._check_cast(field, self._flat(field.name, places), places)
        return found

    def _check_nulls(self, name: str, places: Sequence[int]) -> None:
        if all(self._leaves[i].max_definition_level == 0 for i in places):
            return
        for group in self._groups:
            for i in places:
                statistics = group.column(i).statistics
                if statistics is None or not statistics.has_null_count:
                    raise UnfitForSparkError(f"has no null count for column {name!r}")
                if statistics.null_count:
                    raise UnfitForSparkError(f"has nulls in column {name!r}, which is not nullable")

    def _check_case(self, name: str) -> None:
        """Raise UnfitForSparkError if other columns differ only by case, which Spark ignores."""
        alike = [other for other in self._arrow.names if other.lower() == name.lower()]
        if len(alike) > 1:
            raise UnfitForSparkError(f"columns {' and '.join(map(repr, alike))} differ only by case")

    def _readable(self, field: pa.Field, places: Sequence[int]) -> pa.DataType:
        kind = self._flat(field.name, places)
        self._check_cast(field, kind, places)
        for chunk in (group.column(places[0]) for group in self._groups):
            if chunk.compression not in _CODECS or not _ENCODINGS.issuperset(chunk.encodings):
                raise UnfitForSparkError(
                    f"column {field.name!r} is stored as {chunk.compression}, "
                    f"{chunk.encodings[-1]}, which not every version of Spark can read"
                )
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            self._check_calendar(field.name)
        return kind

    def _check_cast(self, field: pa.Field, kind: pa.DataType, places: Sequence[int]) -> None:
        if not _widens(kind, _plain(field.type)):
            raise UnfitForSparkError(
                f"column {field.name!r} is {kind}, but the schema declares {field.type}"
            )
        if pa.types.is_timestamp(kind) and kind.unit == "ms":
            _check_ms(field.name, [group.column(places[0]) for group in self._groups])

    def _flat(self, name: str, places: Sequence[int]) -> pa.DataType:
        leaf = self._leaves[places[0]] if len(places) == 1 else None
        if leaf is None or leaf.path != name or leaf.max_repetition_level:
            raise UnfitForSparkError(f"column {name!r} is {self._arrow.field(name).type}")
        kind = _stored_type(leaf.physical_type, json.loads(leaf.logical_type.to_json()))
        if kind is None:
            raise UnfitForSparkError(f"column {name!r} is {self._arrow.field(name).type}")
        return kind

    def _check_calendar(self, name: str) -> None:
        """Raise UnfitForSparkError if times are in the calendar of old Spark versions, whose days
        before 1582 differ."""
        if has_old_times(self._metadata.metadata):
            raise UnfitForSparkError(f"has times in Spark's old calendar in column {name!r}")


def _top(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def _check_ms(name: str, chunks: Sequence[Any]) -> None:
    """Raise UnfitForSparkError if a time may exceed the range of Spark's times, in microseconds."""
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is not None and statistics.has_null_count and not statistics.num_values:
            continue
        known = statistics is not None and statistics.has_min_max
        if not known or statistics.min_raw < -_MAX_MS or statistics.max_raw > _MAX_MS:
            raise UnfitForSparkError(
                f"column {name!r} is in ms, and its times may exceed the range of us"
            )


# --- types ----------------------------------------------------------------------------------------

_INTEGERS = {
    (8, True): pa.int8(),
    (16, True): pa.int16(),
    (32, True): pa.int32(),
    (64, True): pa.int64(),
    (8, False): pa.uint8(),
    (16, False): pa.uint16(),
    (32, False): pa.uint32(),
}
_UNANNOTATED = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
}
_UNITS = {"milliseconds": "ms", "microseconds": "us"}
_SPARK_TYPES = {
    pa.bool_(): "boolean",
    **INTEGER_NAMES,
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}
_READ_AS_THE_WIDER = ({pa.int32(), pa.int64()}, {pa.float32(), pa.float64()})


def _stored_type(physical: str, logical: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type as which Spark reads such a column; None if it does not read it unchanged."""
    match logical:
        case {"Type": "None"}:
            return _UNANNOTATED.get(physical)
        case {"Type": "Int", "bitWidth": bits, "isSigned": signed}:
            return _INTEGERS.get((bits, signed))
        case {"Type": "String"}:
            return pa.string()
        case {"Type": "Date"}:
            return pa.date32()
        case {"Type": "Timestamp", "timeUnit": unit, "isAdjustedToUTC": utc} if unit in _UNITS:
            return pa.timestamp(_UNITS[unit], "UTC" if utc else None)
        case {"Type": "Decimal", "precision": precision, "scale": scale} if precision <= 38:
            return pa.decimal128(precision, scale)
    return None


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _widens(kind: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether the cast succeeds for every value, and loses nothing."""
    if pa.types.is_integer(kind) and pa.types.is_integer(declared):
        signed = pa.types.is_signed_integer(kind), pa.types.is_signed_integer(declared)
        if signed[0] == signed[1]:
            return bool(kind.bit_width <= declared.bit_width)
        return signed[1] and bool(kind.bit_width < declared.bit_width)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(declared):
        # A cast from ms to us may exceed the range: `_check_ms` checks that.
        return bool(declared.unit == "us" or declared.unit == kind.unit == "ms")
    if pa.types.is_float32(kind):
        return declared in (pa.float32(), pa.float64())
    return bool(kind == declared)


def _common(field: pa.Field, kinds: Sequence[pa.DataType], widened: bool) -> ColumnInFiles:
    """Return the one type as which Spark reads the column from all files."""
    distinct = set(kinds)
    if widened and distinct in _READ_AS_THE_WIDER:
        distinct.remove(min(distinct, key=lambda kind: kind.bit_width))
    names = {_spark_type(kind) for kind in distinct}
    if len(names) > 1:
        shown = " and ".join(sorted(map(str, distinct)))
        raise UnfitForSparkError(f"column {field.name!r} is {shown} in different files")
    return ColumnInFiles(names.pop(), all(_same(kind, field.type) for kind in kinds))


def _same(kind: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(declared):
        return bool(kind.unit == declared.unit and (kind.tz is None) == (declared.tz is None))
    return bool(kind == _plain(declared))


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_TYPES[kind]
