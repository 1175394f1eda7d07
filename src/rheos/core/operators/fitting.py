"""Conversion of stored rows to the columns of a changed program. The conversions match those that
`checkpoint/column_changes.py` permits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import CheckpointError


def fitted(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """Return the table with the columns of `schema`: narrower types are cast, and missing columns are
    null. Raise CheckpointError if a column cannot be converted; `what` names the rows in its message.
    """
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
