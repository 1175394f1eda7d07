"""`filter`, `select` and `with_columns`: Polars expressions over each batch.

Only the columns that expressions read go to Polars, and only what they compute comes back: all other
columns, the hidden ones too, stay the Arrow arrays they are. A filter computes a mask and Arrow drops
the rows. What is computed is cast to the declared type, Polars' large strings to plain ones (their
offsets alone are rewritten).

A row's result is the same in whatever company it travels. Polars takes a column of one value for a
constant, and computes with constants in another way: `x / 3` is `x * (1 / 3)`, but not where `x` is one
value alone. So it never computes with one: a batch of one row is given twice. So is every batch where
expressions compute with the elements of lists, of which it may have a single one.

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

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_

import polars as pl
import pyarrow as pa

from rheos.errors import UserFunctionError
from rheos.graph.expression_trees import FAILURES, computes, computes_on_elements
from rheos.graph.nodes import MAIN, ExpressionSpec
from rheos.graph.types import empty_frame
from rheos.operators.contract import Operator, OperatorContext, Out
from rheos.operators.records import shown
from rheos.protocol.elements import Batch, strip_hidden, visible

_FAILURES = (*FAILURES, pa.ArrowException)
_COMPAT = pl.CompatLevel.oldest()


class ExpressionOperator(Operator):
    """Evaluates row-separable expressions. The order of rows stays."""

    def __init__(self, ctx: OperatorContext, spec: ExpressionSpec) -> None:
        super().__init__(ctx)
        self._op = spec.op
        self._schema = ctx.outputs[MAIN].schema if MAIN in ctx.outputs else None
        columns = visible(ctx.ports[0].schema)
        # A filter has one mask; a plain column of a select is the array that arrives.
        self._computed: tuple[pl.Expr, ...] = spec.exprs
        if spec.op == "filter":
            self._computed = (reduce(and_, spec.exprs),)
        else:
            self._computed = tuple(expr for expr in spec.exprs if not expr.meta.is_column())
        self._reads = _columns_read(self._computed, columns)
        frame = empty_frame(columns).lazy()
        computing = [expr for expr in self._computed if computes(expr)]
        # Batches of fewer rows are given twice.
        self._enough_rows: float = 2 if computing else 0
        if any(computes_on_elements(expr, frame) for expr in computing):
            self._enough_rows = math.inf

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        try:
            result = self._evaluate(batch)
        except _FAILURES as error:
            raise self._failure(batch, error) from None
        if result is not None and result.num_rows:
            yield Out(result)

    def _evaluate(self, batch: Batch) -> Batch | None:
        computed = self._compute(self._computed, batch)
        if self._schema is None:
            return None
        if self._op == "filter":
            kept = computed[0].to_arrow()
            if batch.num_columns > len(self._schema):
                # Of the hidden columns, those that nobody reads from here on stay behind.
                batch = batch.select(self._schema.names)
            return batch if kept.true_count == batch.num_rows else batch.filter(kept)
        by_name = {series.name: series for series in computed}
        arrays = [
            _arrow(by_name[field.name], field.type)
            if field.name in by_name
            else batch.column(field.name)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _compute(self, exprs: Sequence[pl.Expr], batch: Batch) -> list[pl.Series]:
        """The expressions' values, one for each row of the batch."""
        if not exprs:
            return []
        rows, frame = batch.num_rows, pl.DataFrame()
        if self._reads:
            read = batch.select(self._reads)
            given = pl.from_arrow(
                read if rows >= self._enough_rows else pa.concat_batches([read, read])
            )
            assert isinstance(given, pl.DataFrame)
            frame = given
        computed = frame.select(exprs).get_columns()
        # Constants are one row long where nothing beside them is longer.
        return [
            series
            if len(series) == rows
            else series.head(rows)
            if len(series) > rows
            else series.new_from_index(0, rows)
            for series in computed
        ]

    def _failure(self, batch: Batch, error: BaseException) -> UserFunctionError:
        """The error with the first record that fails, and the expression that fails on it."""
        fine, failing = 0, batch.num_rows
        while failing - fine > 1:
            middle = (fine + failing) // 2
            if self._fails(self._computed, batch.slice(fine, middle - fine)):
                failing = middle
            else:
                fine = middle
        record = batch.slice(fine, 1)
        guilty = [expr for expr in self._computed if self._fails((expr,), record)]
        spelled = str(guilty[0]) if guilty else ", ".join(map(str, self._computed))
        first_line = str(error).strip().partition("\n")[0]
        return UserFunctionError(
            f"{self._op}() failed at {spelled}: {first_line}",
            site=self.ctx.site,
            operator=self.ctx.name,
            record=shown(strip_hidden(record).to_pylist()[0]),
            hint="drop or repair such records before, or use what gives null instead, such as "
            "cast(..., strict=False)",
        )

    def _fails(self, exprs: Sequence[pl.Expr], batch: Batch) -> bool:
        try:
            for series in self._compute(exprs, batch):
                if (
                    self._schema is not None
                    and series.name in self._schema.names
                    and self._op != "filter"
                ):
                    _arrow(series, self._schema.field(series.name).type)
        except _FAILURES:
            return True
        return False


def _columns_read(exprs: Sequence[pl.Expr], schema: pa.Schema) -> list[str]:
    """The columns that the expressions read: all, where they choose by pattern or type."""
    read: set[str] = set()
    for expr in exprs:
        roots = expr.meta.root_names()
        if expr.meta.has_multiple_outputs() or not set(roots) <= set(schema.names):
            return list(schema.names)
        read.update(roots)
    return [name for name in schema.names if name in read]


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    array = series.to_arrow(compat_level=_COMPAT)
    return array if array.type == kind else array.cast(kind)
