"""Constants of a filter as Spark's literals, if Polars and Spark certainly agree on their meaning."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from io import StringIO
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

_EXACT_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
INTEGER_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
}
"""Spark's names of Arrow's integers. Unsigned integers are read as the next wider type."""
_UNITS = {"ms": 1000, "us": 1}
_EPOCH = datetime(1970, 1, 1)
_GREGORIAN = datetime(1582, 10, 16)
"""Time from which the Gregorian calendar applies in every time zone."""
_GREGORIAN_US = (_GREGORIAN - _EPOCH) // timedelta(microseconds=1)


def constants_of(tree: Any) -> pl.Series | None:
    """Return the values of a constant: one, or those of a list. None if they cannot be read."""
    match tree:
        case {"Literal": _}:
            try:
                expr = pl.Expr.deserialize(StringIO(json.dumps(tree)), format="json")
                series = pl.select(expr).to_series()
            except pl.exceptions.PolarsError:
                # This happens for NaN and the infinities, which JSON does not have.
                return None
            if isinstance(series.dtype, pl.List):
                return None if len(series) != 1 or series[0] is None else series[0]
            return series
    return None


def literal_of(kind: pa.DataType, values: pl.Series, place: int) -> Column | None:
    """Return one of the values as Spark's constant of the column's type, if it is exactly that."""
    value, dtype = values[place], values.dtype
    if value is None:
        return None
    if pa.types.is_boolean(kind):
        return f.lit(value) if dtype == pl.Boolean else None
    if pa.types.is_integer(kind):
        return _integer(kind, value) if dtype in _EXACT_INTEGERS else None
    if pa.types.is_floating(kind):
        return _float(kind, value) if dtype in (*_EXACT_INTEGERS, pl.Float32, pl.Float64) else None
    if is_text(kind):
        return f.lit(value) if dtype == pl.String else None
    if pa.types.is_date32(kind):
        return _date(value) if dtype == pl.Date else None
    if pa.types.is_timestamp(kind) and isinstance(dtype, pl.Datetime):
        return _timestamp(kind, dtype, int(values.slice(place, 1).to_physical()[0]))
    return None


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _integer(kind: pa.DataType, value: int) -> Column | None:
    name = INTEGER_NAMES.get(kind)
    if name is None:
        return None
    range_ = np.iinfo(kind.to_pandas_dtype())
    return f.lit(value).cast(name) if range_.min <= value <= range_.max else None


def spark_float(kind: pa.DataType) -> str:
    return "float" if pa.types.is_float32(kind) else "double"


def _float(kind: pa.DataType, value: float) -> Column | None:
    if pa.types.is_float16(kind) or (isinstance(value, int) and abs(value) > 2**53):
        return None
    as_float = float(value)
    if not math.isfinite(as_float):
        return None
    if pa.types.is_float32(kind) and (abs(as_float) > 3e38 or float(np.float32(as_float)) != as_float):
        return None
    return f.lit(as_float + 0.0).cast(spark_float(kind))


def _date(day: date) -> Column | None:
    jvm: Any = SparkSession.active()._jvm
    if jvm.java.sql.Date.valueOf(day.isoformat()).toString() != day.isoformat():
        return None
    return f.date_from_unix_date(f.lit((day - _EPOCH.date()).days))


def _timestamp(kind: pa.DataType, given: pl.Datetime, ticks: int) -> Column | None:
    if kind.unit not in _UNITS or given.time_unit not in _UNITS or kind.tz != given.time_zone:
        return None
    # Polars compares in the coarser of two units, so a column finer than the constant is truncated.
    if kind.unit == "us" and given.time_unit == "ms":
        return None
    us = ticks * _UNITS[given.time_unit]
    if us % _UNITS[kind.unit] or us < _GREGORIAN_US:
        return None
    if kind.tz is not None:
        return f.timestamp_micros(f.lit(us).cast("bigint"))
    try:
        shown = (_EPOCH + timedelta(microseconds=us)).isoformat(" ", "microseconds")
    except OverflowError:
        return None
    return f.lit(shown).cast("timestamp_ntz")
