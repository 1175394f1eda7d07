"""Use of a user's format by sources and sinks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Format


def check_format(format: Any) -> Format:
    """Raise ProgramError if `format` is not a format."""
    if not isinstance(format, Format):
        raise ProgramError(f"format={format!r} is not a format", hint="write format=rh.formats.json()")
    return format


def rows_of(format: Format, schema: Any) -> tuple[pa.Schema, type | None]:
    """Return the schema of a source's rows (and its dataclass): the user's, or else that of the format.
    Raises SchemaError if there is no schema, or the format cannot produce such rows."""
    rows, record = declared_rows(format, schema)
    format.check_decodes(rows)
    return rows, record


def declared_rows(format: Format, schema: Any) -> tuple[pa.Schema, type | None]:
    """Return the same as `rows_of`, before it is checked whether the format can produce such rows."""
    if schema is None:
        rows, record = format.own_schema(), None
        if rows is None:
            raise SchemaError(
                f"the format {format.name} does not define the columns of its rows",
                hint="pass schema=, a dataclass, a pyarrow.Schema or a dict that describes a row",
            )
    else:
        rows, record = resolve(schema)
    made = format.rows_schema(rows)
    return made, record if made == rows else None
