"""Names of targets that are built from columns: the subject `orders.{country}` of a message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.errors import InputError, ProgramError
from rheos.core.protocol.elements import Batch

_PART = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class NameSyntax:
    """Syntax of the names of one broker."""

    argument: str
    """Argument of the user with the pattern, such as `subject`."""
    part: str
    """Name of the parts, for errors: "a token"."""
    names: str
    """Regular expression of names. A column in braces is replaced by the letter x."""
    values: str
    """Regular expression of the values of columns."""
    values_rule: str
    """Rule for values, for people: "is not empty, and has no dots"."""
    example: str
    """Example with a column in braces."""
    most_bytes: int
    """Maximum length of a name in UTF-8."""


@dataclass(frozen=True)
class NamePattern:
    """Pattern of names: a string with names of columns in braces."""

    syntax: NameSyntax
    texts: tuple[str, ...]
    """Constant parts before, between and after the columns."""
    columns: tuple[str, ...]

    @classmethod
    def of(cls, pattern: Any, syntax: NameSyntax) -> NamePattern:
        """Parse a pattern. Raises ProgramError if it is not valid."""
        filled = _PART.sub("x", pattern) if isinstance(pattern, str) else ""
        too_long = len(filled.encode(errors="replace")) > syntax.most_bytes
        if re.fullmatch(syntax.names, filled) is None or too_long:
            raise ProgramError(
                f"{syntax.argument}={pattern!r} is not a {syntax.argument.replace('_', ' ')}",
                hint=f'write {syntax.argument}="{syntax.example}", with column names in braces',
            )
        *parts, last = _PART.split(pattern)
        return cls(syntax, (*parts[::2], last), tuple(parts[1::2]))

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if the columns cannot be parts of names."""
        for name in self.columns:
            check_column(schema, self.syntax.argument, name, _is_part, "a string or an integer")

    def names(self, rows: Batch) -> list[str]:
        """Return the name of each row. Raises InputError, with the row, if a value is not allowed."""
        syntax = self.syntax
        if not self.columns:
            return [self.texts[0]] * rows.num_rows
        parts: list[Any] = [self.texts[0]]
        for name, text in zip(self.columns, self.texts[1:], strict=True):
            value = rows.column(name).cast(pa.string())
            fits = pc.fill_null(pc.match_substring_regex(value, syntax.values), False)
            if (at := pc.index(fits, False).as_py()) >= 0:
                raise InputError(
                    f"the value of {name!r} cannot be {syntax.part} of the {syntax.argument} {self}",
                    record=shown_row(rows, at),
                    hint=f"{syntax.part} {syntax.values_rule}. Filter out such rows, or replace these "
                    "characters",
                )
            parts += [value, text]
        made = pc.binary_join_element_wise(*parts, "")
        if (pc.max(pc.binary_length(made)).as_py() or 0) > syntax.most_bytes:
            raise InputError(
                f"a {syntax.argument} is longer than {syntax.most_bytes} bytes",
                hint="use shorter values, or fewer columns",
            )
        names: list[str] = made.to_pylist()
        return names

    def filled(self, value: str) -> str:
        """Return the pattern with a string in place of each column."""
        return value.join(self.texts)

    def __str__(self) -> str:
        names = [*(f"{{{name}}}" for name in self.columns), ""]
        return "".join(text + name for text, name in zip(self.texts, names, strict=True))


def _is_part(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))
