"""Built-in aggregates, as the user names them. `rh.agg.count()`, `rh.agg.sum("v")`, ..."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from rheos.errors import ProgramError, SchemaError


class AggKind(Enum):
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    QUANTILE = "quantile"
    COUNT_DISTINCT = "count_distinct"


@dataclass(frozen=True)
class Agg:
    """One aggregate of a column. Nulls are left out, except by `count()` without a column."""

    kind: AggKind
    column: str | None = None
    q: float = 0.5

    def __str__(self) -> str:
        q = f", {self.q}" if self.kind is AggKind.QUANTILE else ""
        return f"{self.kind.value}({self.column or ''}{q})"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """The type of the result over rows of `schema`. Raises SchemaError."""
        if self.kind in (AggKind.COUNT, AggKind.COUNT_DISTINCT) and self.column is None:
            return pa.int64()
        assert self.column is not None
        if self.column not in schema.names:
            raise SchemaError(
                f"unknown column {self.column!r} in {self.kind.value}()",
                hint=f"the columns here are {', '.join(schema.names)}",
            )
        kind = schema.field(self.column).type
        if self.kind in (AggKind.COUNT, AggKind.COUNT_DISTINCT):
            return pa.int64()
        if self.kind in (AggKind.MIN, AggKind.MAX):
            return kind
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise SchemaError(
                f"{self.kind.value}() needs a number, and column {self.column!r} is {kind}",
                hint="name a numeric column, or cast it before",
            )
        if self.kind in (AggKind.MEAN, AggKind.QUANTILE):
            return pa.float64()
        return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def count(column: str | None = None) -> Agg:
    """How many rows, or how many non-null values of `column`: int64."""
    return Agg(AggKind.COUNT, column)


def sum(column: str) -> Agg:
    """The sum: int64 for integers, float64 otherwise, whatever the order of the rows."""
    return Agg(AggKind.SUM, column)


def min(column: str) -> Agg:
    """The smallest value, of the column's type."""
    return Agg(AggKind.MIN, column)


def max(column: str) -> Agg:
    """The largest value, of the column's type."""
    return Agg(AggKind.MAX, column)


def mean(column: str) -> Agg:
    """The arithmetic mean: float64."""
    return Agg(AggKind.MEAN, column)


def quantile(column: str, q: float) -> Agg:
    """The exact q-quantile (0 <= q <= 1) with linear interpolation: float64."""
    if not 0 <= q <= 1:
        raise ProgramError(f"a quantile lies between 0 and 1, not at {q}")
    return Agg(AggKind.QUANTILE, column, q)


def count_distinct(column: str) -> Agg:
    """How many different non-null values, exactly: int64."""
    return Agg(AggKind.COUNT_DISTINCT, column)
