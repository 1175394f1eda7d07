"""The contract of layouts: the columns of one state in a DataFrame, and its tables as such rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rheos.connectors.spark.types import spark_arrow_type
from rheos.core.operators.window.frames import KEY
from rheos.core.protocol.shapes import FieldShape, Holds, StateShape
from rheos.ops.savepoints.arrow_names import arrow_type


class StateLayout(ABC):
    """Layout of one state. `schema` is that of the DataFrame."""

    schema: pa.Schema

    @abstractmethod
    def rows(self, table: pa.Table) -> pa.Table:
        """A table of the state as rows of `schema`. Raises UnrestorableError."""


def column_schema(fields: Sequence[FieldShape]) -> pa.Schema:
    """Columns of a stream, as a DataFrame has them."""
    return pa.schema(
        [
            pa.field(field.name, spark_arrow_type(arrow_type(field.type.name), field.name))
            for field in fields
        ]
    )


def unique(taken: Sequence[str], wanted: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Names for these columns that none of the others has, whatever their case."""
    used = {name.lower() for name in taken}
    names = {}
    for name in wanted:
        free = name
        while free.lower() in used:
            free += "_"
        used.add(free.lower())
        names[name] = free
    return names


def key_prefix(shape: StateShape) -> str:
    """Return the prefix of the names of key columns in the tables of columnar state."""
    return "" if shape.holds == Holds.ROWS else KEY
