"""Columns that models read and return, checked while the program is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.graph.validate import unknown_column
from rheos.core.protocol.types import arrow_type


def check_features(schema: pa.Schema, features: Sequence[str], method: str) -> tuple[str, ...]:
    """Check the features. Raise SchemaError if a column does not exist, or is not a number, string or
    boolean."""
    if isinstance(features, str) or not features:
        raise SchemaError(
            f"features of {method}() must be the columns that the model reads, not {features!r}",
            hint=f'name them: {method}(..., features=["price", "n"])',
        )
    for name in features:
        check_column(schema, name, method)
    return tuple(features)


def check_column(schema: pa.Schema, name: str, method: str) -> None:
    if name not in schema.names:
        raise unknown_column(name, schema, f" in {method}()")


def with_result(schema: pa.Schema, results: dict[str, Any], method: str) -> pa.Schema:
    """Return the columns of the rows, and the nullable columns of a model's results (name to type)."""
    for name in results:
        if name in schema.names:
            raise SchemaError(
                f"the stream already has a column {name!r}",
                hint=f'rename the result: {method}(..., name="score")',
            )
    made = [pa.field(name, arrow_type(kind)) for name, kind in results.items()]
    return pa.schema([*schema, *made])
