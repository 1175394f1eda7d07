"""JSON functions of single values: of Spark, of PostgreSQL and of the SQL standard.

`rheos.sql.value_functions` applies them to columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from rheos.core.graph.row_functions import of_one_length
from rheos.core.operators.row_expressions import refusal
from rheos.sql.json_documents import (
    Document,
    MalformedJsonError,
    Members,
    Number,
    java_double,
    java_number,
    parsed,
    quoted,
    written,
)
from rheos.sql.json_paths import (
    Absent,
    MissingError,
    SparkPath,
    StandardPath,
    VariantPath,
    all_at,
    at_path,
    spark_found,
    spark_path,
)

# --- Spark --------------------------------------------------------------------------------------------


def _spark_document(text: str) -> Document | Absent:
    """Parse a document as Spark's functions of strings do; absent if it is malformed."""
    try:
        return parsed(text, whole=False, single_quotes=True, controls=True)
    except MalformedJsonError:
        return Absent.ABSENT


def spark_object(text: str, *, path: SparkPath) -> str | None:
    """Compute GET_JSON_OBJECT with a constant path."""
    document = _spark_document(text)
    return None if isinstance(document, Absent) else spark_found(document, path)


def spark_object_by(text: str, path: str) -> str | None:
    """Compute GET_JSON_OBJECT with a path of the row."""
    steps = spark_path(path)
    return None if steps is None else spark_object(text, path=steps)


def array_length(text: str) -> int | None:
    """Return the number of elements of an array; None for other documents."""
    document = _spark_document(text)
    return len(document) if isinstance(document, list) else None


def object_keys(text: str) -> list[str] | None:
    """Return the keys of an object; None for other documents."""
    document = _spark_document(text)
    return [key for key, _ in document.pairs] if isinstance(document, Members) else None


def tuple_field(text: str, *, key: str) -> str | None:
    """Return a column of JSON_TUPLE: the member of an object, a string without its quotes."""
    document = _spark_document(text)
    if not isinstance(document, Members):
        return None
    found = [each for name, each in document.pairs if name == key and each is not None]
    if not found:
        return None
    value = found[-1]
    is_text = isinstance(value, str) and not isinstance(value, Number)
    return str(value) if is_text else written(value, java_number)


# --- PostgreSQL ---------------------------------------------------------------------------------------


def arrow(text: str, *, path: VariantPath, as_text: bool) -> str | None:
    """Compute `->`, `->>`, `#>` and `#>>`: the value at a path, as JSON or as a string."""
    try:
        value = at_path(parsed(text), path)
    except MalformedJsonError:
        return None
    return None if isinstance(value, Absent) else _json_or_text(value, as_text=as_text)


def elements(text: str, *, as_text: bool) -> list[str | None] | None:
    """Return the elements of an array, as JSON or as strings; None for other documents."""
    document = _document(text)
    return (
        [_json_or_text(each, as_text=as_text) for each in document]
        if isinstance(document, list)
        else None
    )


def members(text: str, *, as_text: bool) -> list[dict[str, str | None]] | None:
    """Return the keys and values of an object, as JSON or as strings; None for other documents."""
    document = _document(text)
    if not isinstance(document, Members):
        return None
    return [{"key": key, "value": _json_or_text(each, as_text=as_text)} for key, each in document.pairs]


def _document(text: str) -> Document:
    try:
        return parsed(text)
    except MalformedJsonError:
        return None


def _json_or_text(value: Document, *, as_text: bool) -> str | None:
    """Return a value as JSON; as a string without quotes, and None for null."""
    if as_text and value is None:
        return None
    return str(value) if as_text and isinstance(value, str) else written(value)


def kind_of_text(text: str) -> str | None:
    """Return the kind of a document in PostgreSQL's words; None if the string is malformed."""
    try:
        return kind_of(parsed(text))
    except MalformedJsonError:
        return None


def kind_of(value: Document) -> str:
    """Return the kind of a value in PostgreSQL's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Number():
            return "number"
        case str():
            return "string"
        case Members():
            return "object"
    return "array"


def checked(text: str) -> str | None:
    """Return a string that is a JSON document; None for others."""
    return None if kind_of_text(text) is None else text


# --- the SQL standard ---------------------------------------------------------------------------------


def is_json(text: str, *, of: str | None) -> bool:
    """Compute IS JSON, for any document or for a VALUE, SCALAR, ARRAY or OBJECT."""
    found = kind_of_text(text)
    match of:
        case "OBJECT" | "ARRAY":
            return found == of.lower()
        case "SCALAR":
            return found not in (None, "object", "array")
    return found is not None


class _WrongError(Exception):
    """A document for which ON ERROR decides."""


def _values(text: str, path: StandardPath) -> list[Document]:
    try:
        return all_at(parsed(text), path)
    except (MalformedJsonError, MissingError):
        raise _WrongError from None


EMPTY, ERROR = "\0empty", "\0error"
"""Results for which a clause chooses the value. Other results do not begin with a null character
and these words, because JSON has no unescaped control characters.
"""


def scalar(text: str, *, path: StandardPath) -> str | None:
    """Return the scalar at a path as a string, `EMPTY` or `ERROR`."""
    try:
        values = _values(text, path)
    except _WrongError:
        return ERROR
    if len(values) > 1 or (values and isinstance(values[0], list | Members)):
        return ERROR if path.strict else EMPTY
    if not values or values[0] is None:
        return None if values else EMPTY
    value = values[0]
    return str(value) if isinstance(value, str) else written(value)


def fragment(text: str, *, path: StandardPath, wrapper: str | None) -> str:
    """Return the object or array at a path as JSON, `EMPTY` or `ERROR`."""
    try:
        values = _values(text, path)
    except _WrongError:
        return ERROR
    if not values:
        return EMPTY
    nested = len(values) == 1 and path.is_definite and isinstance(values[0], list | Members)
    if not path.is_definite or (wrapper and not (nested and wrapper == "CONDITIONAL")):
        return written(values)
    if not nested:
        return ERROR if path.strict else EMPTY
    return written(values[0])


def exists(text: str, *, path: StandardPath, on_error: bool | None) -> bool | None:
    """Return whether a path finds a value; `on_error` for a malformed document."""
    try:
        return bool(_values(text, path))
    except _WrongError:
        return on_error


def accepted(result: str, *, marks: tuple[str, ...], written: str) -> str:
    """Return a result. Raise ComputeError for a mark for which a clause says ERROR."""
    if result not in marks:
        return result
    what = "finds nothing in" if result == EMPTY else "cannot read"
    raise refusal(f"{written} {what} a document", "write NULL ON EMPTY NULL ON ERROR")


# --- writing ------------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """Return a value of a column as JSON, in the form of Spark's TO_JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            text = java_double(value)
            return f'"{text}"' if text[-1] in "yN" else text
        case Decimal():
            return f"{value:f}"
        case str():
            return quoted(value)
        case datetime():
            zoned = value.astimezone(UTC) if value.tzinfo else value
            return f'"{zoned:%Y-%m-%dT%H:%M:%S}.{_fraction(zoned)}{"Z" if value.tzinfo else ""}"'
        case date():
            return f'"{value.isoformat()}"'
        case dict():
            return "{" + ",".join(f"{quoted(k)}:{json_text(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
    raise refusal(
        f"a {type(value).__name__} has no form in JSON", "convert it with CAST(... AS STRING)"
    )


def _fraction(moment: datetime) -> str:
    """Return milliseconds, or all digits of the microseconds if there are more."""
    micros = f"{moment.microsecond:06}"
    return micros[:3] if micros.endswith("000") else micros.rstrip("0")


def joined(columns: Sequence[pl.Series], *, keys: bool, keep_nulls: bool) -> pl.Series:
    """Compute JSON_OBJECT and JSON_ARRAY of columns of JSON text.

    Args:
        columns: Values as JSON, null for NULL. With `keys`, a column of keys before each of them.
        keys: Whether the result is an object.
        keep_nulls: Whether NULL becomes null instead of being left out.
    """
    columns = of_one_length(columns)
    rows = zip(*(each.to_list() for each in columns), strict=True)
    texts = [_joined(row, keys, keep_nulls) for row in rows]
    return pl.Series(columns[0].name, texts, pl.String())


def _joined(row: Sequence[str | None], keys: bool, keep_nulls: bool) -> str:
    names = row[::2] if keys else row
    values = row[1::2] if keys else row
    kept = [
        f"{quoted(name or '')}:{value or 'null'}" if keys else value or "null"
        for name, value in zip(names, values, strict=True)
        if keep_nulls or value is not None
    ]
    return f"{{{','.join(kept)}}}" if keys else f"[{','.join(kept)}]"


def joined_lists(
    columns: Sequence[pl.Series], *, keys: bool, keep_nulls: bool, are_json: bool
) -> pl.Series:
    """Compute JSON_OBJECTAGG and JSON_ARRAYAGG of lists of values, or of structs with a key as `a` and
    a value as `b`. `are_json` is whether the values are JSON already."""
    [lists] = columns
    write = str if are_json else json_text
    in_structs = keys or keep_nulls
    texts = []
    for values in lists.to_list():
        row = list[str | None]()
        for each in values or ():
            if keys:
                row.append(each["a"])
            value = each["b"] if in_structs else each
            row.append(None if value is None else write(value))
        texts.append(_joined(row, keys, keep_nulls))
    return pl.Series(lists.name, texts, pl.String())
