"""Any Polars expression that reduces, computed over the rows of a window when the window fires.

    .aggregate(p95=rh.col("ms").quantile(0.95), top=rh.col("item").sort_by("n").last())

The expression receives the rows in the order of event time. Rows of the same time are sorted by the
columns that the program's expressions read, nulls last. So the result depends on the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import Agg, RowsState
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import TS


@dataclass(frozen=True)
class Expression(Agg):
    """An aggregate by a Polars expression. Its state has the columns that the expression reads."""

    kind: ClassVar[str] = "expression"

    form: bytes = b""
    """Serialised form of the expression, made by Polars."""
    spelled: str = ""

    def __str__(self) -> str:
        return self.spelled

    @property
    def expr(self) -> pl.Expr:
        return pl.Expr.deserialize(self.form)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*sorted(set(self.expr.meta.root_names())), TS)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        frame = pl.from_arrow(schema.empty_table())
        assert isinstance(frame, pl.DataFrame)
        try:
            made = frame.select(self.expr.alias("result"))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise SchemaError(
                f"{self.spelled} does not fit the columns: {str(error).strip().splitlines()[0]}",
                hint="the columns here are " + ", ".join(f"{f.name}: {f.type}" for f in schema),
            ) from None
        if made["result"].dtype in (pl.Null, pl.Object, pl.Unknown):
            raise SchemaError(
                f"the type of {self.spelled} is unknown", hint="cast it, as in .cast(pl.Int64)"
            )
        return made.to_arrow().schema.field(0).type

    def windowed(self, schema: pa.Schema) -> RowsState:
        return RowsState(self.columns, self.expr)


def expression(expr: pl.Expr) -> Agg:
    """Return the value of a Polars expression that reduces columns to one value.

    `aggregate` also takes such an expression directly.

    ```python
    windows.aggregate(p95=rh.agg.expression(col("millis").quantile(0.95)))
    ```

    Args:
        expr: The expression.

    Returns:
        The aggregate.
    """
    return Expression(form=expr.meta.serialize(), spelled=" ".join(str(expr).split()))
