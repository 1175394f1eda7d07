"""What sources and sinks ask of the format that the user gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Format


def check_format(format: Any) -> Format:
    """Raises ProgramError for what is no format."""
    if not isinstance(format, Format):
        raise ProgramError(f"format={format!r} is not a format", hint="write format=rh.formats.json()")
    return format


def rows_of(format: Format, schema: Any) -> tuple[pa.Schema, type | None]:
    """The rows that a source gives: those of the user's schema (and its dataclass), or where none is
    given the format's own. Raises SchemaError where there is none, or the format cannot give such rows.
    """
    if schema is None:
        rows, record = format.own_schema(), None
        if rows is None:
            raise SchemaError(
                f"the format {format.name} does not say which columns its rows have",
                hint="give schema=, a dataclass or a pyarrow.Schema that describes a row",
            )
    else:
        rows, record = resolve(schema)
    format.check_decodes(rows)
    return rows, record
