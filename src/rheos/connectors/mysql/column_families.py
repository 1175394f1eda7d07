"""Families of column types, their Arrow types, and the conversion of values to Arrow columns.

The snapshot and the binlog both deliver a value in the form of its family: an integer, a float, bytes,
or the string that the server prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.formats.decimal_text import cast_text

ZeroDates: TypeAlias = Literal["fail", "null"]
ZERO_TIME = "0000-00-00 00:00:00"
"""String form of the timestamp 0, which is no time."""
_DIGITS = 38
_TIME_PARTS = r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d+))?$"


class ColumnFamily(Enum):
    """Form in which values of a column are delivered."""

    INTEGER = "integer"
    REAL = "real"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class InspectedColumn:
    """A column, as `information_schema` describes it."""

    name: str
    data_type: str
    """Bare type, such as "decimal"."""
    column_type: str
    """Type with its parameters, such as "decimal(10,2) unsigned"."""
    precision: int
    scale: int

    @property
    def is_unsigned(self) -> bool:
        return "unsigned" in self.column_type

    @property
    def family(self) -> ColumnFamily:
        return _FAMILIES.get(self.data_type, ColumnFamily.UNREADABLE)


_FAMILIES: Mapping[str, ColumnFamily] = {
    **dict.fromkeys(
        ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"), ColumnFamily.INTEGER
    ),
    **dict.fromkeys(("float", "double"), ColumnFamily.REAL),
    "decimal": ColumnFamily.DECIMAL,
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
        ColumnFamily.TEXT,
    ),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), ColumnFamily.BYTES
    ),
    **dict.fromkeys(
        (
            "geometry",
            "point",
            "linestring",
            "polygon",
            "multipoint",
            "multilinestring",
            "multipolygon",
            "geometrycollection",
        ),
        ColumnFamily.BYTES,
    ),
    "date": ColumnFamily.DATE,
    "datetime": ColumnFamily.DATETIME,
    "timestamp": ColumnFamily.TIMESTAMP,
    "time": ColumnFamily.TIME,
}
_INTEGERS: Mapping[str, tuple[pa.DataType, pa.DataType]] = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
    "year": (pa.int16(), pa.int16()),
    "bit": (pa.uint64(), pa.uint64()),
}
"""Arrow types of integer columns, signed and unsigned."""
_TAKEN_BY: Mapping[ColumnFamily, Sequence[Callable[[pa.DataType], bool]]] = {
    ColumnFamily.INTEGER: (pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal),
    ColumnFamily.REAL: (pa.types.is_float32, pa.types.is_float64),
    ColumnFamily.DECIMAL: (pa.types.is_decimal, pa.types.is_float64),
    ColumnFamily.TEXT: (),
    ColumnFamily.BYTES: (pa.types.is_binary, pa.types.is_large_binary),
    ColumnFamily.DATE: (pa.types.is_date32,),
    ColumnFamily.DATETIME: (lambda type: pa.types.is_timestamp(type) and type.tz is None,),
    ColumnFamily.TIMESTAMP: (lambda type: pa.types.is_timestamp(type) and type.tz is not None,),
    ColumnFamily.TIME: (pa.types.is_duration,),
    ColumnFamily.UNREADABLE: (),
}


def read_as(column: InspectedColumn) -> pa.DataType:
    """Return the default Arrow type of a column. The column must be readable."""
    match column.family:
        case ColumnFamily.INTEGER:
            if column.data_type == "bit" and column.precision == 1:
                return pa.bool_()
            return _INTEGERS[column.data_type][column.is_unsigned]
        case ColumnFamily.REAL:
            return pa.float32() if column.data_type == "float" else pa.float64()
        case ColumnFamily.DECIMAL:
            if column.precision <= _DIGITS:
                return pa.decimal128(column.precision, column.scale)
            return pa.string()
        case ColumnFamily.BYTES:
            return pa.binary()
        case ColumnFamily.DATE:
            return pa.date32()
        case ColumnFamily.DATETIME:
            return pa.timestamp("us")
        case ColumnFamily.TIMESTAMP:
            return pa.timestamp("us", "UTC")
        case ColumnFamily.TIME:
            return pa.duration("us")
        case ColumnFamily.TEXT | ColumnFamily.UNREADABLE:
            return pa.string()


def takes(family: ColumnFamily, type: pa.DataType) -> bool:
    """Return whether values of a family can be read as the Arrow type."""
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return family not in (ColumnFamily.BYTES, ColumnFamily.UNREADABLE)
    return any(accepts(type) for accepts in _TAKEN_BY[family])


def arrow_column(
    values: Sequence[Any], family: ColumnFamily, type: pa.DataType, zero_dates: ZeroDates, place: str
) -> pa.Array:
    """Convert values to an Arrow column. Raises InputError, which begins with the place."""
    try:
        return _converted(values, family, type, zero_dates)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        if _are_dates(family) and any(_is_zero(each) for each in values):
            raise InputError(
                f"{place} has a date with a zero year, month or day, which is no date",
                hint='declare the column as str in schema=, or write zero_dates="null"',
            ) from None
        raise InputError(
            f"{place} has a value that does not fit {type}: {error}",
            hint="declare a suitable type in schema=, such as str",
        ) from None


def _converted(
    values: Sequence[Any], family: ColumnFamily, type: pa.DataType, zero_dates: ZeroDates
) -> pa.Array:
    match family:
        case ColumnFamily.INTEGER:
            # Each integer of the server fits one of the two.
            try:
                whole = pa.array(values, pa.int64())
            except (pa.ArrowInvalid, OverflowError):
                whole = pa.array(values, pa.uint64())
            return whole.cast(type)
        case ColumnFamily.REAL:
            return pa.array(values, pa.float64()).cast(type)
        case ColumnFamily.BYTES:
            return pa.array(values, type)
        case ColumnFamily.TEXT | ColumnFamily.UNREADABLE:
            return pa.array(values, pa.string()).cast(type)
        case ColumnFamily.DECIMAL:
            return cast_text(pa.array(values, pa.string()), type)
        case ColumnFamily.DATE | ColumnFamily.DATETIME | ColumnFamily.TIMESTAMP | ColumnFamily.TIME:
            if zero_dates == "null" and family is not ColumnFamily.TIME and not _is_text(type):
                values = [None if _is_zero(each) else each for each in values]
            text = pa.array(values, pa.string())
            if _is_text(type):
                return text.cast(type)
            if family is ColumnFamily.TIME:
                return _durations(text).cast(type)
            if family is ColumnFamily.TIMESTAMP:
                plain = text.cast(pa.timestamp(type.unit))
                return pc.assume_timezone(plain, "UTC").cast(type)
            return text.cast(type)


def _durations(text: pa.Array) -> pa.Array:
    parts = pc.extract_regex(text, _TIME_PARTS)
    hours, minutes, seconds = (
        pc.struct_field(parts, name).cast(pa.int64()) for name in ("h", "m", "s")
    )
    micros = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    total = pc.add(pc.multiply(whole, 1_000_000), micros)
    is_negative = pc.equal(pc.struct_field(parts, "sign"), "-")
    return pc.if_else(is_negative, pc.negate(total), total).cast(pa.duration("us"))


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _are_dates(family: ColumnFamily) -> bool:
    return family in (ColumnFamily.DATE, ColumnFamily.DATETIME, ColumnFamily.TIMESTAMP)


def _is_zero(value: Any) -> bool:
    """Return whether the string form of a date has a zero year, month or day."""
    return isinstance(value, str) and (
        value.startswith("0000") or value[5:7] == "00" or value[8:10] == "00"
    )
