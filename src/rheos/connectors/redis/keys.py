"""Keys of Redis that are made of columns: `visits:{country}:{page}`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.redis.commands import concatenated
from rheos.connectors.redis.text import to_bytes
from rheos.connectors.schemas import check_column, is_bytes
from rheos.errors import ProgramError

_PART = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class KeyPattern:
    """Text with the names of columns in braces."""

    texts: tuple[bytes, ...]
    """Before, between and behind the columns."""
    columns: tuple[str, ...]

    @classmethod
    def of(cls, pattern: Any) -> KeyPattern:
        """Raises ProgramError where it is none."""
        if not isinstance(pattern, str):
            raise ProgramError(f"key={pattern!r} is no text", hint='write key="page:{page}"')
        *parts, last = _PART.split(pattern)
        texts, columns = [*parts[::2], last], tuple(parts[1::2])
        if not columns or not all(columns) or any(set(text) & set("{}") for text in texts):
            raise ProgramError(
                f"key={pattern!r} names no column, or has a brace too many",
                hint='write the names of columns in braces: key="page:{page}"',
            )
        if len(set(columns)) < len(columns):
            raise ProgramError(f"key={pattern!r} names a column twice", hint="name it once")
        return cls(tuple(text.encode() for text in texts), columns)

    def check(self, schema: pa.Schema) -> None:
        """Raises SchemaError where the columns cannot be parts of keys."""
        for name in self.columns:
            check_column(schema, "key", name, _is_part, "text, bytes or a whole number")

    def keys(self, rows: pa.RecordBatch) -> pa.Array:
        """A column of `binary`; null where a part is."""
        parts: list[Any] = [self.texts[0]]
        for name, text in zip(self.columns, self.texts[1:], strict=True):
            parts += [to_bytes(rows.column(name)), text]
        return concatenated(*parts)

    def __str__(self) -> str:
        names = [*(f"{{{name}}}" for name in self.columns), ""]
        return "".join(t.decode() + n for t, n in zip(self.texts, names, strict=True))


def _is_part(kind: pa.DataType) -> bool:
    return is_bytes(kind) or bool(pa.types.is_integer(kind))
