"""Notation of rows and times in timelines, and in reports of differences.

    ada,500            the values of a row, in the order of its columns
    "Ada Lovelace",5   a string with spaces, commas, or one of ( " @ > # : )
    ada,null           no value
    ada,[1, 2]         a list or a struct, as JSON
    ada,0s,10s,3       a timestamp, as its distance from the start of the timeline
    ada,"2026-01-01T12:00:00.000001+00:00"     a timestamp with microseconds

Distances are durations ("10s", "1h30m", "250ms"); a number alone means seconds.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import signed_duration_ms

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_BARE = re.compile(r"[^\s,\"@>#:\[\]{}]+")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_OPENING, _CLOSING = "[{(", "]})"
NULL = "null"


# --- distances ------------------------------------------------------------------------------------


def distance_ms(text: str) -> int:
    """Return a distance from the start of the timeline, or between two times, in ms. Raise ProgramError
    if the string is not a distance."""
    if _NUMBER.fullmatch(text):
        return round(float(text) * 1000)
    return signed_duration_ms(text)


def shown_distance(ms: int) -> str:
    """Format a distance so that `distance_ms` can parse it."""
    if ms < 0:
        return f"-{shown_distance(-ms)}"
    parts = []
    for unit, unit_ms in _UNITS_MS:
        count, ms = divmod(ms, unit_ms)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


# --- text in pieces -------------------------------------------------------------------------------


def pieces(text: str, ends: Callable[[str], bool]) -> Iterator[str]:
    """Split a string at the characters that end a piece, outside of quotes and brackets. Raises
    ProgramError if a quote or a bracket is not closed."""
    piece, depth, quoted, escaped = "", 0, False, False
    for char in text:
        if quoted:
            escaped, quoted = char == "\\" and not escaped, char != '"' or escaped
        elif char == '"':
            quoted = True
        elif depth == 0 and ends(char):
            yield piece
            piece = ""
            continue
        else:
            depth += (char in _OPENING) - (char in _CLOSING)
        piece += char
    if quoted or depth:
        raise ProgramError(
            f"{text!r} has an unclosed {'quote' if quoted else 'bracket'}",
            hint='put a string with such characters in quotes: "a [b"',
        )
    yield piece


def tokens(text: str) -> list[str]:
    """Return the parts of a line, which spaces separate, without the comment after `#`."""
    found = []
    for token in pieces(text, str.isspace):
        if token.startswith("#"):
            break
        found += [token] if token else []
    return found


# --- rows -----------------------------------------------------------------------------------------


def row_of(text: str, schema: pa.Schema, start: datetime) -> dict[str, Any]:
    """Parse a row. Raises ProgramError."""
    values = list(pieces(text, lambda char: char == ","))
    if len(values) != len(schema):
        raise ProgramError(
            f"{text!r} has {len(values)} values, but the row has {len(schema)} columns",
            hint=f"write a value for each of {', '.join(schema.names) or 'its columns'}",
        )
    return {
        field.name: _value(value, field, start) for field, value in zip(schema, values, strict=True)
    }


def shown_row_of(row: Mapping[str, Any], schema: pa.Schema, start: datetime) -> str:
    """Format a row so that `row_of` can parse it."""
    return ",".join(_value_text(row[field.name], field.type, start) for field in schema)


def _value(text: str, field: pa.Field, start: datetime) -> Any:
    if text == NULL:
        return None
    try:
        return _read(text, field.type, start)
    except (ValueError, ArithmeticError, ProgramError) as error:
        raise ProgramError(
            f"{text!r} is not a value of the column {field.name!r}, which is {field.type}",
            hint="write a timestamp as a distance from the start (10s), a string with special "
            "characters in quotes, and a missing value as null",
        ) from error


def _read(text: str, kind: pa.DataType, start: datetime) -> Any:
    types = pa.types
    if types.is_dictionary(kind):
        return _read(text, kind.value_type, start)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return json.loads(text) if text.startswith('"') else _bare(text)
    if types.is_boolean(kind):
        return {"true": True, "false": False}[text] if text in ("true", "false") else _unfit(text)
    if types.is_integer(kind):
        return int(text)
    if types.is_floating(kind):
        return float(text)
    if types.is_decimal(kind):
        return Decimal(text)
    if types.is_timestamp(kind):
        text = json.loads(text) if text.startswith('"') else text
        moment = datetime.fromisoformat(text) if ":" in text or "T" in text else None
        moment = start + timedelta(milliseconds=distance_ms(text)) if moment is None else moment
        return moment if kind.tz is not None else moment.replace(tzinfo=None)
    if types.is_duration(kind):
        return timedelta(milliseconds=distance_ms(text))
    if types.is_date(kind):
        return date.fromisoformat(text)
    if types.is_time(kind):
        return time.fromisoformat(text)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return base64.b64decode(json.loads(text) if text.startswith('"') else text)
    return json.loads(text)


def _bare(text: str) -> str:
    return text if text else _unfit(text)


def _unfit(text: str) -> Any:
    raise ValueError(text)


def _value_text(value: Any, kind: pa.DataType, start: datetime) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value != NULL else json.dumps(value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        if value.microsecond % 1000:
            return json.dumps(moment.isoformat())
        return shown_distance(round((moment - start) / timedelta(milliseconds=1)))
    if isinstance(value, timedelta):
        return shown_distance(round(value / timedelta(milliseconds=1)))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if pa.types.is_map(kind):
        value = dict(value)
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str)
    # As Arrow has it: a whole number in a column of floats is shown as one of them.
    return str(float(value)) if pa.types.is_floating(kind) else str(value)
