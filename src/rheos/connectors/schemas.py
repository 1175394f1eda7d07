"""What the connectors share about schemas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rheos.errors import SchemaError
from rheos.protocol.types import schema_of


def resolve(schema: Any) -> tuple[pa.Schema, type | None]:
    """The Arrow schema of a dataclass (which is returned too), or of what is one already."""
    if isinstance(schema, pa.Schema):
        return schema, None
    if isinstance(schema, type):
        return schema_of(schema), schema
    raise SchemaError(
        f"{schema!r} is not a schema",
        hint="give a dataclass, or a pyarrow.Schema, that describes a row",
    )


def shorten(text: str, limit: int = 200) -> str:
    """Text that fits into an error message."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
