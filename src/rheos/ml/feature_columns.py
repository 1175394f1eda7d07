"""The columns that models read and give, checked where the program is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.graph.validate import unknown_column
from rheos.core.protocol.types import arrow_type


def check_features(schema: pa.Schema, features: Sequence[str], method: str) -> tuple[str, ...]:
    """Raises SchemaError where a column is not there, or no number, text or truth value."""
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
    """The columns of the rows, and those of what a model says (name to type), which may be null."""
    for name in results:
        if name in schema.names:
            raise SchemaError(
                f"the stream already has a column {name!r}",
                hint=f'rename the result: {method}(..., name="score")',
            )
    made = [pa.field(name, arrow_type(kind)) for name, kind in results.items()]
    return pa.schema([*schema, *made])
