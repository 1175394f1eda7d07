"""The types of SQL as Polars' types: their names, the common type of two, and casts.

The rules are Spark's without its ANSI mode: a value that cannot be cast becomes null, integers that are
too large wrap around, decimals get the digits that they need. Unlike in Spark, strings become numbers
or times only by CAST.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl
import pyarrow as pa

from rheos.core.graph import decimal_types
from rheos.core.graph.decimal_types import MOST_DIGITS as MOST_DIGITS
from rheos.core.graph.decimal_types import adjusted
from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.row_functions import of_columns
from rheos.core.graph.types import empty_frame
from rheos.sql.java_numbers import WHITESPACE, reals_of_texts, texts_of_reals
from rheos.sql.text_times import days_of_texts, moments_of_texts

if TYPE_CHECKING:
    from rheos.sql.plan import SqlColumn

TEXT: Final = pl.String()
BOOLEAN: Final = pl.Boolean()
INT: Final = pl.Int32()
BIGINT: Final = pl.Int64()
DOUBLE: Final = pl.Float64()
DATE: Final = pl.Date()
TIMESTAMP: Final = pl.Datetime("us", "UTC")
INTERVAL: Final = pl.Duration("us")
NULL: Final = pl.Null()
VARIANT: Final = pl.Struct({"variant": pl.String()})
"""A JSON document: a struct with the document as a string (`rheos.sql.variants`)."""

MONTHS: Final = pl.Struct({"interval_months": INT})
"""An interval of months, as INTERVAL YEAR TO MONTH of Spark."""
CALENDAR_INTERVAL: Final = pl.Struct({"interval_months": INT, "interval_microseconds": BIGINT})
"""An interval of months and of days and time, as in PostgreSQL."""

decimal = adjusted
"""Function that returns the type of a result of decimals, by its digits and scale."""

_PLAIN_DIGITS: Final = 6
"""Digits after the point of the smallest decimal that is formatted without an exponent, as in Java."""

_INTEGERS: Final[tuple[pl.DataType, ...]] = (pl.Int8(), pl.Int16(), INT, BIGINT)
_SIGNED: Final[dict[type[pl.DataType], pl.DataType]] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: INT,
    pl.UInt32: BIGINT,
    pl.UInt64: pl.Decimal(20, 0),
}

_NAMES = {
    pl.Boolean: "BOOLEAN",
    pl.Int8: "TINYINT",
    pl.Int16: "SMALLINT",
    pl.Int32: "INT",
    pl.Int64: "BIGINT",
    pl.Float32: "FLOAT",
    pl.Float64: "DOUBLE",
    pl.String: "STRING",
    pl.Binary: "BINARY",
    pl.Date: "DATE",
    pl.Null: "NULL",
    pl.Duration: "INTERVAL",
}


def of_arrow(kind: pa.DataType) -> pl.DataType:
    """Return the type of a stream's column."""
    return empty_frame(pa.schema([pa.field("column", kind)])).schema["column"]


def of_expression(expr: pl.Expr, columns: Iterable[SqlColumn]) -> pl.DataType:
    """Return the type of an expression of these columns."""
    return of_exact(expr, {column.name: column.type for column in columns})


def of_exact(expr: pl.Expr, kinds: Mapping[str, pl.DataType]) -> pl.DataType:
    """Return the type of an expression of columns of these types. Raises what Polars raises."""
    frame = pl.LazyFrame(schema=kinds)
    return frame.select(exact_one(expr.alias("made"), frame)).collect_schema()["made"]


def constant(expr: pl.Expr) -> pl.Series:
    """Return the value of an expression without columns, as a series of one."""
    return pl.select(exact_one(expr, pl.LazyFrame())).to_series()


def name(kind: pl.DataType) -> str:
    """Return SQL's name of a type."""
    match kind:
        case pl.Decimal():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case pl.Datetime():
            return "TIMESTAMP" if kind.time_zone else "TIMESTAMP_NTZ"
        case pl.List():
            return "ARRAY"
        case pl.Map():
            return "MAP"
        case pl.Struct():
            return _STRUCTS.get(kind, "STRUCT")
    return _NAMES.get(type(kind), str(kind).upper())


_STRUCTS: Final[dict[pl.DataType, str]] = {
    VARIANT: "VARIANT",
    MONTHS: "INTERVAL YEAR TO MONTH",
    CALENDAR_INTERVAL: "INTERVAL OF MONTHS AND DAYS",
}
"""Types that are structs with a meaning."""
_DDL_NAMES = {pl.Null: "void", pl.Duration: "interval day to second"}


def ddl(kind: pl.DataType) -> str:
    """Return a type as TYPEOF names it: `array<int>`."""
    match kind:
        case pl.List():
            return f"array<{ddl(kind.inner)}>"  # type: ignore[arg-type]
        case pl.Struct() if kind == CALENDAR_INTERVAL:
            return "interval"
        case pl.Struct() if kind not in _STRUCTS:
            fields = (f"{each.name}:{ddl(each.dtype)}" for each in kind.fields)  # type: ignore[arg-type]
            return f"struct<{','.join(fields)}>"
        case pl.Decimal():
            return f"decimal({kind.precision},{kind.scale})"
    return _DDL_NAMES.get(type(kind), name(kind).lower())


def is_integer(kind: pl.DataType) -> bool:
    return kind in _INTEGERS


def is_decimal(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Decimal)


def is_floating(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Float32 | pl.Float64)


def is_number(kind: pl.DataType) -> bool:
    return is_integer(kind) or is_decimal(kind) or is_floating(kind)


def is_timestamp(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Datetime)


def is_interval(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Duration) or has_months(kind)


def has_months(kind: pl.DataType) -> bool:
    """Return whether intervals of the type have months."""
    return kind in (MONTHS, CALENDAR_INTERVAL)


def signed(kind: pl.DataType) -> pl.DataType:
    """Return the type in which numbers of this type are computed. SQL has no unsigned types."""
    return _SIGNED.get(type(kind), kind)


def as_decimal(kind: pl.DataType) -> pl.Decimal:
    """Return the decimal type for an integer type; decimal types are unchanged."""
    made = decimal_types.as_decimal(kind)
    assert made is not None, kind
    return made


def common(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    """Return the type in which values of both types are compared, or form one column; None if they
    have no such type."""
    if left == right:
        return left
    if left == NULL:
        return right
    if right == NULL:
        return left
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if isinstance(left, pl.Datetime) and isinstance(right, pl.Datetime):
        finer = max((left, right), key=lambda each: ("ms", "us", "ns").index(each.time_unit))
        return pl.Datetime(finer.time_unit, left.time_zone or right.time_zone)
    for one, other in ((left, right), (right, left)):
        if one == DATE and is_timestamp(other):
            return other
    if isinstance(left, pl.Duration) and isinstance(right, pl.Duration):
        return INTERVAL
    if CALENDAR_INTERVAL in (left, right) and is_interval(left) and is_interval(right):
        return CALENDAR_INTERVAL
    if isinstance(left, pl.List) and isinstance(right, pl.List):
        assert isinstance(left.inner, pl.DataType)
        assert isinstance(right.inner, pl.DataType)
        inner = common(signed(left.inner), signed(right.inner))
        return None if inner is None else pl.List(inner)
    if has_months(left) or has_months(right):
        return None
    if isinstance(left, pl.Struct) and isinstance(right, pl.Struct):
        return _common_struct(left, right)
    return None


def _common_struct(left: pl.Struct, right: pl.Struct) -> pl.DataType | None:
    """Return the struct with the names of the left one; fields belong together by their places."""
    if len(left.fields) != len(right.fields):
        return None
    found: dict[str, pl.DataType] = {}
    for one, other in zip(left.fields, right.fields, strict=True):
        assert isinstance(one.dtype, pl.DataType)
        assert isinstance(other.dtype, pl.DataType)
        inner = common(signed(one.dtype), signed(other.dtype))
        if inner is None:
            return None
        found[one.name] = inner
    return pl.Struct(found)


def fits(given: pl.DataType, to: pl.DataType) -> bool:
    """Return whether INSERT stores values of a type in a column of another one. Times lose digits."""
    both_times = isinstance(given, pl.Datetime) and isinstance(to, pl.Datetime)
    return given == to or both_times or common(given, to) == to


def _common_number(left: pl.DataType, right: pl.DataType) -> pl.DataType:
    if is_integer(left) and is_integer(right):
        return max(left, right, key=_INTEGERS.index)
    if is_floating(left) or is_floating(right):
        # As in Spark, a whole number next to a FLOAT becomes a FLOAT.
        wide = any(is_decimal(each) or each == DOUBLE for each in (left, right))
        return DOUBLE if wide else pl.Float32()
    return decimal_types.common(as_decimal(left), as_decimal(right))


def cast(value: pl.Expr, kind: pl.DataType, to: pl.DataType) -> pl.Expr | None:
    """Return the values as another type, with null for values that it cannot represent; None if there
    is no such cast."""
    if kind == to:
        return value
    if kind == NULL:
        return value.cast(to)
    if is_integer(to) or is_floating(to):
        return _to_number(value, kind, to)
    match to:
        case pl.Decimal():
            return _to_decimal(value, kind, to)
        case pl.String():
            return _to_text(value, kind)
        case pl.Boolean():
            if is_number(kind):
                return value != 0
            if is_timestamp(kind):
                return value.dt.epoch("us") != 0
            if kind == TEXT:
                return _text_to_boolean(value)
        case pl.Date():
            if is_timestamp(kind):
                return value.dt.date()
            if kind == TEXT:
                return of_columns(days_of_texts, [value], DATE)
        case pl.Datetime():
            return _to_timestamp(value, kind, to)
        case pl.List():
            return _to_list(value, kind, to)
        case pl.Struct() if to == CALENDAR_INTERVAL and is_interval(kind):
            return of_columns(partial(_to_calendar_intervals, kind=kind), [value], to)
        case pl.Struct():
            return _to_struct(value, kind, to)
        case pl.Binary():
            return value.cast(to) if kind == TEXT else None
        case pl.Duration():
            return value.cast(to) if isinstance(kind, pl.Duration) else None
    return None


def _to_list(value: pl.Expr, kind: pl.DataType, to: pl.List) -> pl.Expr | None:
    if not isinstance(kind, pl.List):
        return None
    assert isinstance(kind.inner, pl.DataType)
    assert isinstance(to.inner, pl.DataType)
    element = cast(pl.element(), kind.inner, to.inner)
    return None if element is None else value.list.eval(element)


def _to_struct(value: pl.Expr, kind: pl.DataType, to: pl.Struct) -> pl.Expr | None:
    """Return a struct whose fields are cast by their positions."""
    if not isinstance(kind, pl.Struct) or len(kind.fields) != len(to.fields):
        return None
    for one, other in zip(kind.fields, to.fields, strict=True):
        assert isinstance(one.dtype, pl.DataType)
        assert isinstance(other.dtype, pl.DataType)
        if cast(pl.col(one.name), one.dtype, other.dtype) is None:
            return None
    return of_columns(partial(_cast_fields, kind=kind, to=to), [value], to)


def _to_calendar_intervals(columns: Sequence[pl.Series], kind: pl.DataType) -> pl.Series:
    [values] = columns
    months, micros = pl.lit(0, dtype=INT), pl.lit(0, dtype=BIGINT)
    if kind == MONTHS:
        months = pl.col("value").struct.field("interval_months")
    else:
        micros = pl.col("value").dt.total_microseconds()
    parts = pl.struct(months.alias("interval_months"), micros.alias("interval_microseconds"))
    made = pl.when(pl.col("value").is_not_null()).then(parts).alias(values.name)
    return pl.DataFrame({"value": values}).select(made).to_series()


def _cast_fields(columns: Sequence[pl.Series], kind: pl.Struct, to: pl.Struct) -> pl.Series:
    [values] = columns
    fields = []
    for one, other in zip(kind.fields, to.fields, strict=True):
        assert isinstance(one.dtype, pl.DataType)
        assert isinstance(other.dtype, pl.DataType)
        made = cast(pl.col(one.name), one.dtype, other.dtype)
        assert made is not None, "the fields can be cast"
        fields.append(made.alias(other.name))
    found = values.struct.unnest().select(fields).to_struct(values.name)
    return found.set(values.is_null(), None)


_RANGES: Final[dict[type[pl.DataType], int]] = {
    pl.Int8: 1 << 7,
    pl.Int16: 1 << 15,
    pl.Int32: 1 << 31,
    pl.Int64: 1 << 63,
}


def _to_number(value: pl.Expr, kind: pl.DataType, to: pl.DataType) -> pl.Expr | None:
    if kind == BOOLEAN:
        return value.cast(to)
    if kind == TEXT:
        if is_floating(to):
            return of_columns(reals_of_texts, [value], DOUBLE).cast(to)
        # As in Spark, digits after the point are dropped.
        return whole_number_of(value, r"(?:\d+(?:\.\d*)?|\.\d*)").cast(to, strict=False)
    if is_timestamp(kind):
        micros = value.dt.epoch("us")
        if is_floating(to):
            return (micros.cast(DOUBLE) / 1e6).cast(to)
        return (micros // 1_000_000).cast(to, strict=False)
    if not (is_number(kind) or is_number(signed(kind))):
        return None
    if is_floating(kind) and is_integer(to):
        if to in (INT, BIGINT):
            return _limit_to_type(value, to)
        # Java makes bytes and shorts of the last bits of an INT.
        return _limit_to_type(value, INT).cast(to, wrap_numerical=True)
    if (is_integer(kind) or is_decimal(kind)) and is_integer(to):
        return value.cast(to, wrap_numerical=True)
    return value.cast(to, strict=False)


def whole_number_of(text: pl.Expr, form: str) -> pl.Expr:
    """Return the sign and the digits before the point of strings that match `form`; null for others."""
    stripped = text.str.strip_chars(WHITESPACE)
    fits = stripped.str.contains(f"(?-u)^[+-]?{form}$")
    digits = stripped.str.extract(r"^\+?(-?[0-9]*)").str.replace(r"^(-?)$", "${1}0")
    return pl.when(fits).then(digits)


def _limit_to_type(value: pl.Expr, to: pl.DataType) -> pl.Expr:
    """Return a float without its fraction, limited to the range of the type."""
    most = _RANGES[type(to)]
    whole = pl.when(value.is_nan()).then(0.0).otherwise(value.cast(DOUBLE))
    return (
        pl.when(whole >= float(most))
        .then(pl.lit(most - 1, dtype=to))
        .when(whole <= float(-most))
        .then(pl.lit(-most, dtype=to))
        .otherwise(whole.cast(to, strict=False))
    )


def _to_decimal(value: pl.Expr, kind: pl.DataType, to: pl.Decimal) -> pl.Expr | None:
    if kind == TEXT or is_number(kind) or is_number(signed(kind)):
        return value.cast(to, strict=False)
    if kind == BOOLEAN:
        return value.cast(INT).cast(to, strict=False)
    return None


def _to_text(value: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    if kind == DATE or is_timestamp(kind):
        value = dated(value, kind)
    if is_timestamp(kind):
        whole = value.dt.strftime("%Y-%m-%d %H:%M:%S")
        micros = value.cast(pl.Datetime("us", kind.time_zone)).dt.microsecond()  # type: ignore[attr-defined]
        fraction = pl.lit(".") + micros.cast(TEXT).str.zfill(6).str.strip_chars_end("0")
        return pl.when(micros == 0).then(whole).otherwise(whole + fraction)
    if isinstance(kind, pl.Decimal):
        return _decimal_to_text(value, kind)
    if is_integer(kind) or kind in (BOOLEAN, DATE, *_SIGNED):
        return value.cast(TEXT)
    if is_floating(kind):
        return of_columns(texts_of_reals, [value], TEXT)
    if kind == pl.Binary():
        return of_columns(_texts_of_bytes, [value], TEXT)
    return None


def _texts_of_bytes(columns: Sequence[pl.Series]) -> pl.Series:
    """Decode UTF-8. Bytes that are no UTF-8 become U+FFFD."""
    [data] = columns
    try:
        return data.cast(pl.String)
    except pl.exceptions.PolarsError:  # Some of the bytes are no UTF-8.
        pass
    texts = [None if each is None else each.decode(errors="replace") for each in data]
    return pl.Series(data.name, texts, dtype=pl.String)


def _decimal_to_text(value: pl.Expr, kind: pl.Decimal) -> pl.Expr:
    """Format decimals with all digits after the point; below 0.000001 with an exponent: 1.50E-7."""
    plain = value.cast(TEXT)
    if kind.scale <= _PLAIN_DIGITS:
        return plain
    point = pl.Decimal(kind.scale, kind.scale)
    small = value.abs() < pl.lit(Decimal(1).scaleb(-_PLAIN_DIGITS), dtype=point)
    # Zero has a single digit.
    digits = plain.str.strip_prefix("-").str.slice(2).str.strip_chars_start("0")
    digits = pl.when(digits == "").then(pl.lit("0")).otherwise(digits)
    first, others = digits.str.slice(0, 1), digits.str.slice(1)
    exponent = pl.lit(kind.scale + 1, dtype=INT) - digits.str.len_chars().cast(INT)
    sign = pl.when(value < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    point_and_more = pl.when(others == "").then(pl.lit("")).otherwise(pl.lit(".") + others)
    scientific = sign + first + point_and_more + pl.lit("E-") + exponent.cast(TEXT)
    return pl.when(small).then(scientific).otherwise(plain)


MOST_DAYS = 95_000_000
"""Maximum distance of a day from 1970 for calendar functions: Polars supports years up to 262000."""


def dated(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return the days or times that Polars has a calendar for; null for others."""
    if kind == DATE:
        return pl.when(value.cast(INT).is_between(-MOST_DAYS, MOST_DAYS)).then(value)
    most = pl.lit(MOST_DAYS * 86_400_000_000)
    return pl.when(value.dt.epoch("us").is_between(-most, most)).then(value)


def _text_to_boolean(value: pl.Expr) -> pl.Expr:
    word = value.str.strip_chars(WHITESPACE).str.to_lowercase()
    return (
        pl.when(word.is_in(["t", "true", "y", "yes", "1"]))
        .then(True)
        .when(word.is_in(["f", "false", "n", "no", "0"]))
        .then(False)
        .otherwise(None)
    )


def moment(micros: pl.Expr) -> pl.Expr:
    """Return the TIMESTAMP a number of microseconds after the beginning of 1970."""
    return micros.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _to_timestamp(value: pl.Expr, kind: pl.DataType, to: pl.Datetime) -> pl.Expr | None:
    if is_timestamp(kind):
        zoned = kind.time_zone  # type: ignore[attr-defined]
        same = value.cast(pl.Datetime(to.time_unit, zoned))
        if zoned is not None and to.time_zone is not None:
            return same.dt.convert_time_zone(to.time_zone)
        if zoned is not None:
            return same.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return same.dt.replace_time_zone(to.time_zone)
    if kind == DATE:
        naive = dated(value, kind).cast(pl.Datetime(to.time_unit))
        return naive if to.time_zone is None else naive.dt.replace_time_zone(to.time_zone)
    if kind == TEXT:
        return _text_to_timestamp(value, to)
    if to.time_zone is None:
        return None
    if is_integer(kind):
        # Beyond 64 bits of microseconds it is the last of them.
        most = (1 << 63) // 1_000_000
        beyond = pl.when(value > 0).then(pl.lit((1 << 63) - 1)).otherwise(pl.lit(-(1 << 63)))
        seconds = value.cast(BIGINT)
        micros = pl.when(seconds.is_between(-most, most)).then(seconds * 1_000_000).otherwise(beyond)
        return moment(pl.when(value.is_not_null()).then(micros))
    if is_floating(kind):
        return moment(pl.when(value.is_finite()).then(_limit_to_type(value.cast(DOUBLE) * 1e6, BIGINT)))
    if kind == BOOLEAN:
        return moment(value.cast(BIGINT))
    return None


def _text_to_timestamp(value: pl.Expr, to: pl.Datetime) -> pl.Expr:
    read = partial(moments_of_texts, zoned=to.time_zone is not None)
    naive = of_columns(read, [value], BIGINT).cast(pl.Datetime("us")).cast(pl.Datetime(to.time_unit))
    return naive if to.time_zone is None else naive.dt.replace_time_zone(to.time_zone)
