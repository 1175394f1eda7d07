"""Formatting of times by Arrow, for CSV and for databases' string form: exact, or an error.

Arrow writes the offset of a zone in whole minutes. Before about 1900 offsets had seconds, which would
be lost, so times with a zone are written in UTC. Arrow cannot write a year of more than five digits.
"""

from __future__ import annotations

import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import ARROW_TEXT, refuse_times_outside


def with_writable_times(rows: Batch, form: str) -> Batch:
    """Returns the rows with times in UTC where they have a zone. Raises InputError, naming column and
    record, for a time that has no text. `form` is what is written, for the error: "CSV"."""
    refuse_times_outside(rows, ARROW_TEXT, form)
    kinds = rows.schema.types
    if all(getattr(kind, "tz", None) in (None, "UTC") for kind in kinds):
        return rows
    columns = [_in_utc(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _in_utc(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column
