"""Common parts of formats whose payload is the value of a single column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Encoder, Format, LineLayout
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True)
class SingleColumnFormat(Format):
    """Format whose payload is the value of the only column."""

    what: ClassVar[str]
    """Content of the column, for errors, such as "bytes"."""
    types: ClassVar[tuple[pa.DataType, ...]]
    """Types that the column may have. The first one is that of the format's own schema."""
    end: ClassVar[str]
    """Extension of the format's files."""

    @property
    def in_lines(self) -> LineLayout:
        return LineLayout(end=self.end, blank=True)

    def own_schema(self) -> pa.Schema:
        return pa.schema([pa.field("value", self.types[0])])

    def check_decodes(self, schema: pa.Schema) -> None:
        if len(schema) == 1 and schema.field(0).type in self.types:
            return
        columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise SchemaError(
            f"the format {self.name} needs a single column, of {self.what}, but the schema is "
            f"{columns or 'empty'}",
            hint=f"select one column of {self.what}, or use a format with fields, such as "
            "rh.formats.json()",
        )

    def check_encodes(self, schema: pa.Schema) -> None:
        self.check_decodes(schema)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _SingleColumnEncoder()


class _SingleColumnEncoder(Encoder):
    def encode(self, rows: Batch) -> pa.Array:
        return rows.column(0).cast(pa.binary())
