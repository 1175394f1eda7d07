"""Checks of the columns that a batch function returns, against its declaration."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rheos.core.errors import UserFunctionError
from rheos.core.graph.types import canonical, describe
from rheos.core.protocol.casts import cast_exactly

Failed = Callable[[str, str | None], UserFunctionError]
"""Function that creates the error, from a message and a hint."""


def given_columns(table: pa.Table, declared: pa.Schema, name: str, failed: Failed) -> list[pa.Array]:
    """Return the columns in the declared order, with the declared types. The function may return them
    in any order, with these types or with numbers that fit them. `name` is the function's."""
    missing = [name for name in declared.names if name not in table.column_names]
    extra = [name for name in table.column_names if name not in declared.names]
    if missing or extra:
        raise failed(
            f"{name}() returned the columns {describe(table.schema)}, but declares "
            f"{describe(declared)}",
            "return exactly the declared columns, or change returns=",
        )
    return [_column(table.column(field.name), field, name, failed) for field in declared]


def _column(column: pa.ChunkedArray, field: pa.Field, name: str, failed: Failed) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if not field.nullable and array.null_count:
        raise failed(
            f"{name}() returned nulls in column {field.name!r}, which is declared as not nullable",
            f"declare it as `{field.name}: ... | None`, or fill the nulls",
        )
    if array.type == field.type:
        return array
    try:
        if _may_become(array.type, field.type):
            return cast_exactly(array, field.type)
    except pa.ArrowException as error:
        raise failed(
            f"{name}() returned values in column {field.name!r} that do not fit {field.type}: {error}",
            f"cast the column to {field.type} in the function",
        ) from None
    raise failed(
        f"{name}() returned column {field.name!r} as {array.type}, but declares {field.type}",
        f"cast the column to {field.type} in the function, or change returns=",
    )


def _may_become(given: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether a cast only changes how values are stored, and fails if a value does not fit."""
    types = pa.types
    given, declared = canonical(given), canonical(declared)

    def number(kind: pa.DataType) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    def moment(kind: pa.DataType) -> bool:
        return bool(types.is_timestamp(kind) or types.is_date(kind))

    same_kind = given.id == declared.id or (number(given) and number(declared))
    return bool(same_kind or types.is_null(given) or (moment(given) and moment(declared)))
