"""Parquet files in which old versions of Spark wrote times by another calendar.

Before version 3 Spark counted days before 1582-10-15 by the Julian calendar, and local time before 1900
by offsets of its own. The file only says who wrote it, so the same number means another date than it
does in all other files. Reading it as it is would be silently wrong, so such times are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import times_in
from rheos.formats.bad_rows import RowsError

_VERSION = b"org.apache.spark.version"
_GREGORIAN = np.datetime64("1582-10-15", "D")
_SAME_OFFSETS = np.datetime64("1900-01-01", "D")


def has_old_times(notes: Mapping[bytes, bytes] | None, *, int96: bool = False) -> bool:
    """Returns whether the file's times may be by Spark's old calendar: those of type INT96, or others.

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
    """Returns the columns of the file whose times may be by Spark's old calendar."""
    notes = file.metadata.metadata
    old, old_int96 = has_old_times(notes), has_old_times(notes, int96=True)
    if not (old or old_int96):
        return frozenset()
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    int96 = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return frozenset(name for name in file.schema_arrow.names if (old_int96 if name in int96 else old))


def refuse_old_times(rows: Batch, columns: frozenset[str]) -> None:
    """Raises RowsError where one of the columns holds a time from before the calendars agree."""
    for name in columns.intersection(rows.schema.names):
        column = rows.column(name)
        if _has_old(column):
            kind = "a date or time from before the Gregorian calendar (1582) or standard time (1900)"
            raise RowsError(
                f"column {name!r} holds {kind}, written by a version of Spark that counted such times "
                "by another calendar: let Spark 3 or newer read the file and write it again"
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
