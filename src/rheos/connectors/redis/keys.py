"""Redis keys that are built from columns: `visits:{country}:{page}`.

Two rows must not share a key unless their key columns are equal. So the separator after a column must
show where its value ends: a value that contains the separator, such as "de:a" here, is refused or
escaped. The last column may contain anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.redis.text import concatenated, to_bytes
from rheos.core.connectors.schemas import check_column, is_bytes, shown_row
from rheos.core.errors import InputError, ProgramError

Separators: TypeAlias = Literal["refuse", "escape", "keep"]
"""Treatment of a value that contains the separator after its column."""

_PART = re.compile(r"\{([^{}]*)\}")
_ESCAPES = b"%0123456789ABCDEFabcdef"


@dataclass(frozen=True)
class KeyPattern:
    """Pattern of keys: a string with names of columns in braces."""

    texts: tuple[bytes, ...]
    """Constant parts before, between and after the columns."""
    columns: tuple[str, ...]
    separators: Separators = "refuse"

    @classmethod
    def of(cls, pattern: Any, separators: str = "refuse") -> KeyPattern:
        """Parse a pattern. Raises ProgramError if it is not valid."""
        if separators not in get_args(Separators):
            raise ProgramError(
                f"separators={separators!r} is not known", hint='write "refuse", "escape" or "keep"'
            )
        if not isinstance(pattern, str):
            raise ProgramError(f"key={pattern!r} is not a string", hint='write key="page:{page}"')
        *parts, last = _PART.split(pattern)
        texts, columns = [*parts[::2], last], tuple(parts[1::2])
        if not columns or not all(columns) or any(set(text) & set("{}") for text in texts):
            raise ProgramError(
                f"key={pattern!r} names no column, or has an unmatched brace",
                hint='write column names in braces: key="page:{page}"',
            )
        if len(set(columns)) < len(columns):
            raise ProgramError(f"key={pattern!r} names a column twice", hint="name it once")
        found = tuple(text.encode() for text in texts)
        for name, after, text in zip(columns, columns[1:], found[1:], strict=False):
            if separators != "keep" and not text:
                raise ProgramError(
                    f"key={pattern!r} has no text between {name!r} and {after!r}: different "
                    "rows could get the same key",
                    hint=f'add a separator: "{{{name}}}:{{{after}}}"; or write '
                    'separators="keep", if the values themselves show where one ends',
                )
            if separators == "escape" and text[0] in _ESCAPES:
                raise ProgramError(
                    f"key={pattern!r} has {text.decode()!r} after {name!r}, but escaped values "
                    "may contain it, too",
                    hint='use another character there, such as ":"',
                )
        return cls(found, columns, cast("Separators", separators))

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if the columns cannot be parts of keys."""
        for name in self.columns:
            check_column(schema, "key", name, _is_part, "a string, bytes or an integer")

    def keys(self, rows: pa.RecordBatch) -> pa.Array:
        """Return a column of `binary`; null if a part is null. Raises InputError, with the row, if a
        value contains the separator after it, and such values are refused."""
        parts: list[Any] = [self.texts[0]]
        for name, text in zip(self.columns, self.texts[1:], strict=True):
            value = to_bytes(rows.column(name))
            if name != self.columns[-1]:
                value = self._told_apart(value, name, text, rows)
            parts += [value, text]
        return concatenated(*parts)

    def _told_apart(self, value: pa.Array, name: str, text: bytes, rows: pa.RecordBatch) -> pa.Array:
        """Return the values; those that contain `text` are escaped, or refused with InputError."""
        if self.separators == "keep":
            return value
        if self.separators == "escape":
            for byte in (b"%", text[:1]):
                value = pc.replace_substring(value, byte, b"%%%02X" % byte[0])
            return value
        first = pc.find_substring(concatenated(value, text), text)
        meets = pc.fill_null(pc.less(first, pc.binary_length(value).cast(first.type)), False)
        at = pc.index(meets, True).as_py()
        if at >= 0:
            raise InputError(
                f"the value of {name!r} contains {text.decode()!r}, which also separates it "
                f"from the next value in the key {self}: different rows could get the same key",
                record=shown_row(rows, at),
                hint='write separators="escape", which changes the keys of such rows, or use '
                'another separator in key=; separators="keep" leaves all keys as they are',
            )
        return value

    def __str__(self) -> str:
        names = [*(f"{{{name}}}" for name in self.columns), ""]
        return "".join(t.decode() + n for t, n in zip(self.texts, names, strict=True))


def _is_part(kind: pa.DataType) -> bool:
    return is_bytes(kind) or bool(pa.types.is_integer(kind))
