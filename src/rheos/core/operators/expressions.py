"""`filter`, `select` and `with_columns`: Polars expressions over each batch.

Only the columns that expressions read go to Polars, and only what they compute comes back: all other
columns, the hidden ones too, stay the Arrow arrays they are. A filter computes a mask and Arrow drops
the rows. What is computed is cast to the declared type, Polars' large strings to plain ones (their
offsets alone are rewritten).

```python
schema = pa.schema([("item", pa.string()), ("price", pa.int64())])
sales = [{"item": "tea", "price": 4}, {"item": "jam", "price": 6}]
check_example(
    OperatorExample(lambda rows: rows.filter(rh.col("price") > 5), schema, sales),
    {"out": [{"item": "jam", "price": 6}]},
)
check_example(
    OperatorExample(lambda rows: rows.select("item", third=rh.col("price") / 3), schema, sales),
    {"out": [{"item": "tea", "third": 4 / 3}, {"item": "jam", "third": 2.0}]},
)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_

import polars as pl
import pyarrow as pa

from rheos.core.graph.nodes import MAIN, ExpressionSpec
from rheos.core.operators.contract import Operator, OperatorContext, Out
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.polars_frames import arrow_column


class ExpressionOperator(Operator):
    """Evaluates row-separable expressions. The order of rows stays."""

    def __init__(self, ctx: OperatorContext, spec: ExpressionSpec) -> None:
        super().__init__(ctx)
        self._op = spec.op
        self._failing = spec.failing
        self._schema = ctx.outputs[MAIN].schema if MAIN in ctx.outputs else None
        # A filter has one mask; a plain column of a select is the array that arrives, also by another
        # name.
        computed: tuple[pl.Expr, ...] = spec.exprs
        self._named: dict[str, str] = {}
        if spec.op == "filter":
            computed = (reduce(and_, spec.exprs),)
        else:
            computed = tuple(expr for expr in spec.exprs if not _is_renamed(expr))
            self._named = {
                expr.meta.output_name(): expr.meta.root_names()[0]
                for expr in spec.exprs
                if _is_renamed(expr)
            }
        self._computed = RowExpressions(computed, visible(ctx.ports[0].schema))

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        try:
            result = self._evaluate(batch)
        except EVALUATION_FAILURES as error:
            found = self._computed.failure(batch, error, self.ctx, f"{self._op}()", self._declared)
            if self._failing is not None:
                found.what, found.hint = self._failing
            raise found from None
        if result is not None and result.num_rows:
            yield Out(result)

    def _evaluate(self, batch: Batch) -> Batch | None:
        computed = self._computed.values(batch)
        if self._schema is None:
            return None
        if self._op == "filter":
            kept = arrow_column(computed[0])
            if batch.num_columns > len(self._schema):
                # Of the hidden columns, those that nobody reads from here on stay behind.
                batch = batch.select(self._schema.names)
            return batch if kept.true_count == batch.num_rows else batch.filter(kept)
        by_name = {series.name: series for series in computed}
        arrays = [
            _arrow(by_name[field.name], field.type)
            if field.name in by_name
            else _fitted(batch.column(self._named.get(field.name, field.name)), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _declared(self, series: pl.Series) -> None:
        """The values as they are declared."""
        if self._schema is not None and series.name in self._schema.names and self._op != "filter":
            _arrow(series, self._schema.field(series.name).type)


def _is_renamed(expr: pl.Expr) -> bool:
    """Whether it is a column, by its own name or another."""
    return bool(expr.meta.undo_aliases().meta.is_column())


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    return _fitted(arrow_column(series), kind)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
