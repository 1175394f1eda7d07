"""Parsing and writing of JSON documents, with duplicate keys, the order of keys, and numbers as they
are written.

Documents are read with Python's parser, and written as Jackson writes them, which Spark and Flink use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn, TypeAlias

import polars as pl

from rheos.core.operators.row_expressions import refusal
from rheos.sql.java_numbers import texts_of_reals

MOST_DOCUMENT_BYTES = 16 << 20
"""Size of one JSON document, in bytes of UTF-8."""
MOST_LEVELS = 1000
"""Nesting of objects and arrays in a JSON document, as in Jackson."""


class Number(str):
    """A number as it is written in a document."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return self.lstrip("-").isdigit()


@dataclass(slots=True)
class Members:
    """Members of an object, in the order of the document, with duplicate keys."""

    pairs: list[tuple[str, Any]]


Document: TypeAlias = Members | list[Any] | str | bool | None
"""A value of JSON. Numbers are strings of the class `Number`."""


class MalformedJsonError(ValueError):
    """A string that is not a JSON document."""


def _no_constant(name: str) -> NoReturn:
    raise MalformedJsonError(f"{name} is not JSON")


_LENIENT = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_no_constant,
    strict=False,
)
"""Decoder that accepts control characters in strings, as Spark's functions do."""
_STRICT = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=_no_constant
)
_SPACE = " \t\r\n"


def parsed(
    text: str, *, whole: bool = True, single_quotes: bool = False, controls: bool = False
) -> Document:
    """Parse a document.

    Args:
        text: The document.
        whole: Whether other text after the document is an error.
        single_quotes: Whether strings may be in single quotes.
        controls: Whether control characters may be in strings.

    Raises:
        MalformedJsonError: it is not JSON, or is nested too deeply.
        ComputeError: it has too many bytes.
    """
    if len(text) * 4 > MOST_DOCUMENT_BYTES and len(text.encode()) > MOST_DOCUMENT_BYTES:
        raise refusal(
            f"a JSON document has more than {MOST_DOCUMENT_BYTES:,} bytes",
            "split it into several rows before the query, or filter such rows by OCTET_LENGTH",
        )
    start = text.lstrip(_SPACE)
    try:
        return _parsed(start, whole, controls)
    except ValueError as error:
        if not (single_quotes and "'" in start):
            raise MalformedJsonError(str(error)) from None
    try:
        return _parsed(_QUOTED.sub(_double_quoted, start), whole, controls)
    except ValueError as error:
        raise MalformedJsonError(str(error)) from None


def _parsed(text: str, whole: bool, controls: bool) -> Document:
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_levels(text)
    try:
        value, end = (_LENIENT if controls else _STRICT).raw_decode(text)
    except RecursionError:
        raise MalformedJsonError("it is nested too deeply") from None
    after = text[end:] if whole or isinstance(value, Number) else ""
    if after.strip(_SPACE) if whole else after[:1].strip(_SPACE):
        raise MalformedJsonError("there is text after the document")
    return _encodable(value) if "\\u" in text else value


_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)


def _double_quoted(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"':
        return text
    inner = re.sub(
        r"\\(.)|\"", lambda each: "'" if each[1] == "'" else f"\\{each[1] or each[0]}", text[1:-1]
    )
    return f'"{inner}"'


def _check_levels(text: str) -> None:
    level = 0
    for bracket in re.finditer(r"[\[{\]}]", _QUOTED.sub("", text)):
        level += 1 if bracket[0] in "[{" else -1
        if level > MOST_LEVELS:
            raise MalformedJsonError(f"it is nested more than {MOST_LEVELS} levels deep")


def _encodable(value: Document) -> Document:
    """Replace halves of surrogate pairs, which UTF-8 cannot hold, by a question mark, as Java does."""
    match value:
        case Members():
            return Members([(_encodable_text(key), _encodable(each)) for key, each in value.pairs])
        case list():
            return [_encodable(each) for each in value]
        case str() if not isinstance(value, Number):
            return _encodable_text(value)
    return value


def _encodable_text(text: str) -> str:
    return text.encode(errors="replace").decode()


# --- writing ------------------------------------------------------------------------------------------

_ESCAPED = {
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"},
}
_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\]')


def quoted(text: str) -> str:
    """Return a string as JSON."""
    if _TO_ESCAPE.search(text) is None:
        return f'"{text}"'
    return f'"{_TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], text)}"'


def written(value: Document, number: Callable[[Number], str] = str) -> str:
    """Return a document without spaces, with its numbers as `number` formats them."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Number():
            return number(value)
        case str():
            return quoted(value)
        case Members():
            return (
                "{"
                + ",".join(f"{quoted(key)}:{written(each, number)}" for key, each in value.pairs)
                + "}"
            )
    return "[" + ",".join(written(each, number) for each in value) + "]"


def java_number(number: Number) -> str:
    """Format a number as Jackson does after reading it: integers in full, others as doubles."""
    if number.is_integer:
        return "0" if number == "-0" else number
    made = java_double(float(number))
    return f'"{made}"' if made.endswith("y") else made  # An infinity.


@cache
def _spelled(bits: str) -> str:
    made: str = texts_of_reals([pl.Series([float.fromhex(bits)], dtype=pl.Float64)])[0]
    return made


def java_double(value: float) -> str:
    """Format a double as Java does."""
    return _spelled(value.hex())


def plain_decimal(number: Number) -> str:
    """Format a decimal number without an exponent and without zeros at its end."""
    made = f"{Decimal(number).normalize():f}"
    return "0" if made == "-0" else made
