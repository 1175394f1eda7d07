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

from rheos.connectors.schema_changes import Fit, fit_of
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
    def kind(self) -> ColumnKind:
        return column_kind(
            self.data_type,
            is_unsigned=self.is_unsigned,
            precision=self.precision,
            scale=self.scale,
        )

    @property
    def family(self) -> ColumnFamily:
        return self.kind.family


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


@dataclass(frozen=True)
class ColumnKind:
    """Type of a column, without what has no effect on the rows of the source."""

    name: str
    """Type for messages, such as "int unsigned"."""
    family: ColumnFamily
    type: pa.DataType
    """Default Arrow type."""


def column_kind(data_type: str, *, is_unsigned: bool, precision: int, scale: int) -> ColumnKind:
    """Return the kind of a column.

    Args:
        data_type: Bare type, such as "decimal".
        is_unsigned: Whether a number has no sign.
        precision: Number of digits of a decimal, or of bits.
        scale: Number of digits after the point.

    Returns:
        The kind. Kinds are equal if the source reads their columns in the same way.
    """
    family = _FAMILIES.get(data_type, ColumnFamily.UNREADABLE)
    name, type = family.value, pa.string()
    match family:
        case ColumnFamily.INTEGER:
            sign = " unsigned" if is_unsigned and data_type not in ("bit", "year") else ""
            name, type = data_type + sign, _INTEGERS[data_type][is_unsigned]
            if data_type == "bit":
                name, type = f"bit({precision})", pa.bool_() if precision == 1 else type
        case ColumnFamily.REAL:
            name, type = data_type, pa.float32() if data_type == "float" else pa.float64()
        case ColumnFamily.DECIMAL:
            name = f"decimal({precision},{scale})"
            type = pa.decimal128(precision, scale) if precision <= _DIGITS else type
        case ColumnFamily.BYTES:
            type = pa.binary()
        case ColumnFamily.DATE:
            type = pa.date32()
        case ColumnFamily.DATETIME:
            type = pa.timestamp("us")
        case ColumnFamily.TIMESTAMP:
            type = pa.timestamp("us", "UTC")
        case ColumnFamily.TIME:
            type = pa.duration("us")
        case ColumnFamily.TEXT | ColumnFamily.UNREADABLE:
            pass
    return ColumnKind(name, family, type)


def read_as(column: InspectedColumn) -> pa.DataType:
    """Return the default Arrow type of a column. The column must be readable."""
    return column.kind.type


def fit_of_kind(logged: ColumnKind, kind: ColumnKind, type: pa.DataType) -> Fit:
    """Return which values of a logged column a column of the source can hold.

    Args:
        logged: The kind in the log.
        kind: The kind when the program started.
        type: The Arrow type of the source's column.

    Returns:
        The fit.
    """
    if logged == kind:
        return Fit.SAME
    if logged.family is ColumnFamily.UNREADABLE:
        return Fit.NONE
    return fit_of(logged.type, kind.type, type)


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
            return (
                cast_text(whole.cast(pa.string()), type)
                if pa.types.is_decimal(type)
                else whole.cast(type)
            )
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
