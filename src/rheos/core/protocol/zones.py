"""Time zones of columns. Polars evaluates expressions, and supports only zones of the IANA database."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

import polars as pl
import pyarrow as pa

_FIXED = re.compile(r"[+-]\d\d:?\d\d")


@lru_cache(maxsize=256)
def is_known(zone: str) -> bool:
    """Return whether columns of times in the zone can be used in expressions."""
    try:
        pl.Series([None], dtype=pl.Datetime("us", zone))
    except pl.exceptions.PolarsError:
        return False
    return True


def unknown_zone(kind: pa.DataType) -> str | None:
    """Return a zone in the type, nested types included, that cannot be used in expressions."""
    if pa.types.is_timestamp(kind):
        return None if kind.tz is None or is_known(kind.tz) else str(kind.tz)
    if pa.types.is_nested(kind):
        found = (unknown_zone(kind.field(at).type) for at in range(kind.num_fields))
        return next((zone for zone in found if zone is not None), None)
    return None


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def without_fixed_offsets(rows: Rows) -> Rows:
    """Return the rows with their times in UTC if the zone is a fixed offset, such as `+05:30`: the zone
    of Python's `timezone(timedelta(hours=5.5))`. The instants do not change."""
    schema = pa.schema([field.with_type(_in_utc(field.type)) for field in rows.schema])
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _in_utc(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_timestamp(kind) and kind.tz and _FIXED.fullmatch(kind.tz):
        return pa.timestamp(kind.unit, "UTC")
    if t.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    if t.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    return kind
