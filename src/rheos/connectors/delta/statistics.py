"""Statistics of a data file for the table's log, from the footer of the Parquet file.

Readers skip a file if its bounds exclude all rows that they look for. So a bound is omitted if it might
be too narrow for some reader: those of floats (a NaN has no place in Parquet's bounds), of long strings
and binary values, of decimals, and of nested columns.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_LONGEST = 64
"""Characters of a string that may be a bound."""


def file_statistics(footer: pq.FileMetaData, schema: pa.Schema) -> str:
    """Return the number of rows, and for columns with known bounds their least and greatest values and
    number of nulls, as JSON.

    Args:
        footer: The footer of the file.
        schema: The columns of the file.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for field in schema:
        if field.name not in places or pa.types.is_nested(field.type):
            continue
        groups = [
            footer.row_group(n).column(places[field.name]).statistics
            for n in range(footer.num_row_groups)
        ]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[field.name] = sum(group.null_count for group in groups)
        with_values = [group for group in groups if group.num_values]
        if not with_values or not all(group.has_min_max for group in with_values):
            continue
        try:
            low = _bound(min(group.min for group in with_values), field.type, is_upper=False)
            high = _bound(max(group.max for group in with_values), field.type, is_upper=True)
        except (OverflowError, ValueError):  # Python has no such date.
            continue
        if low is not None and high is not None:
            least[field.name], greatest[field.name] = low, high
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": nulls,
        }
    )


def _bound(value: Any, kind: pa.DataType, *, is_upper: bool) -> int | str | None:
    """Return a bound as the log contains it; None if it is omitted. Times are rounded outwards to
    milliseconds, which all readers understand."""
    t = pa.types
    if t.is_integer(kind):
        return int(value)
    if t.is_string(kind):
        return value if isinstance(value, str) and len(value) <= _LONGEST else None
    if t.is_date32(kind) and isinstance(value, date):
        return value.isoformat()
    if t.is_timestamp(kind) and isinstance(value, datetime):
        rest = timedelta(microseconds=value.microsecond % 1000)
        rounded = value + (timedelta(milliseconds=1) - rest if is_upper and rest else -rest)
        text = rounded.astimezone(UTC) if rounded.tzinfo else rounded
        zone = "Z" if kind.tz is not None else ""
        return f"{text.replace(tzinfo=None).isoformat(timespec='milliseconds')}{zone}"
    return None
