"""Stored rows as the columns that a changed program has: the counterpart of what
`checkpoint/column_changes.py` says can be read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import CheckpointError


def fitted(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """The table with the columns of `schema`: narrower ones are cast, and those that it has not are
    null. Raises CheckpointError, which says `what` the rows are, where one cannot be had so."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(_cast(table.column(field.name), field, what))
        elif field.nullable:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise _misfit(what, f"have no column {field.name!r}")
    return pa.table(columns, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field, what: str) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    # Integers beyond 2**53 become the nearest float.
    exact = not (pa.types.is_integer(column.type) and pa.types.is_floating(field.type))
    try:
        return pc.cast(column, field.type, safe=exact)
    except pa.ArrowException as error:
        found = f"have a column {field.name!r} of {column.type}, which cannot be {field.type}: {error}"
        raise _misfit(what, found) from error


def _misfit(what: str, found: str) -> CheckpointError:
    return CheckpointError(
        f"the restored {what} {found}",
        hint="restore the old column, or change the operator's uid to start it empty",
    )
