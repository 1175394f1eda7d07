"""Common parts of formats whose payload is the value of a single column."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Encoder
from rheos.core.protocol.elements import Batch


def check_single(schema: pa.Schema, format: str, what: str, types: Collection[pa.DataType]) -> None:
    """Raises SchemaError where it is not one column of one of the types."""
    if len(schema) == 1 and schema.field(0).type in types:
        return
    columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
    raise SchemaError(
        f"the format {format} has one column, of {what}, and the schema is {columns or 'empty'}",
        hint=f"select one column of {what}, or use a format with fields, such as rh.formats.json()",
    )


class SingleColumnEncoder(Encoder):
    """The one column, as payloads."""

    def encode(self, rows: Batch) -> pa.Array:
        return rows.column(0).cast(pa.binary())
