"""Schema checks that the connectors share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args

import pyarrow as pa

from rheos.core.errors import ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.protocol.types import arrow_type, schema_of


def resolve(declared: Any) -> tuple[pa.Schema, type | None]:
    """Return the columns that a dataclass, a pyarrow Schema or a dict declares, and the dataclass."""
    if isinstance(declared, pa.Schema):
        return declared, None
    if isinstance(declared, type) and is_dataclass(declared):
        return schema_of(declared), declared
    if isinstance(declared, Mapping) and declared and all(isinstance(name, str) for name in declared):
        kinds = declared.items()
        return pa.schema([(name, _type_of_column(name, kind)) for name, kind in kinds]), None
    raise SchemaError(
        f"{spelled(declared)} does not declare the columns of a record",
        hint='pass a dataclass, a pyarrow.Schema, or a dict such as {"user": str, "n": int}',
    )


def _type_of_column(name: str, kind: Any) -> pa.DataType:
    try:
        return kind if isinstance(kind, pa.DataType) else arrow_type(kind)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error.what}", hint=error.hint) from None


def spelled(annotation: Any) -> str:
    """Return the name of a type, or of an object that was passed instead of one, for errors."""
    if inspect.isclass(annotation) and not get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("collections.abc.", "").replace("typing.", "")


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether the type is a string or binary type."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def check_column(
    schema: pa.Schema, what: str, column: str, fits: Callable[[pa.DataType], bool], types: str
) -> None:
    """Raise SchemaError if the argument `what` names a missing column, or one of the wrong type.

    `types` describes the allowed types for the error message.
    """
    if column not in schema.names:
        raise SchemaError(
            f"{what}= names the column {column!r}, which the stream does not have",
            hint=f"it has {', '.join(schema.names)}",
        )
    kind = schema.field(column).type
    if not fits(kind):
        raise SchemaError(
            f"{what}= names the column {column!r}, which is {kind}", hint=f"it must be {types}: cast it"
        )


def shown_row(rows: Batch, row: int) -> str:
    """Return a row as errors show it."""
    return shown_record(rows, row, limit=200)


def shorten(text: str, limit: int = 200) -> str:
    """Return the string, shortened so that it fits into an error message."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def check_changes_key(what: str, named: Sequence[str], key: Sequence[str], delete: str | None) -> None:
    """Check that a sink can write a changelog: the sink's key is the changelog's `key`, and it has no
    `delete` column of its own. Raise ProgramError."""
    if set(named) != set(key):
        raise ProgramError(
            f"the rows are changes of a table with the key {', '.join(key)}, but the key of the "
            f"sink is {', '.join(named) or 'not set'}",
            hint=f"set the same key on the sink ({what}=), or create a changelog with the sink's "
            "key: .upserts(key=...)",
        )
    if delete is not None:
        raise ProgramError(
            f"the column {delete!r} marks deletions, but the changelog already marks them",
            hint="leave it out",
        )
