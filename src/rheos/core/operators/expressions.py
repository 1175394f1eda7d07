"""`filter`, `select` and `with_columns`: Polars expressions over each batch.

Polars receives only the columns that expressions read, and returns only computed columns. All other
columns, and fields of structs, stay the same Arrow arrays. For a filter, Polars computes a mask and
Arrow drops the rows. Arrow computes simple masks, too (`arrow_expressions`). Computed columns are cast
to the declared type. For Polars' large strings only the offsets are rewritten.

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

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import ClassVar, Literal

import polars as pl
import pyarrow as pa

from rheos.core.graph.expression_trees import FAILURES, spell_expression, tree_of
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.graph.types import columns_read, without
from rheos.core.operators.arrow_expressions import Mask, arrow_mask, column_path, read_path
from rheos.core.operators.contract import Needed, Operator, OperatorContext, Out, RowSpec
from rheos.core.operators.origins import OneRow, Origin, SameRow
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.polars_frames import arrow_column


@dataclass(frozen=True)
class ExpressionSpec(RowSpec):
    """Spec of `filter`, `select` and `with_columns` with row-separable Polars expressions."""

    keeps_changes: ClassVar[bool] = True
    keeps_splits: ClassVar[bool] = True
    is_pure: ClassVar[bool] = True

    op: Literal["filter", "select", "with_columns"]
    exprs: tuple[pl.Expr, ...]
    failing: tuple[str, str] | None = None
    """Error message and hint for a row on which an expression fails; None: those of Polars."""

    def operator(self, ctx: OperatorContext) -> Operator:
        return ExpressionOperator(ctx, self)

    @property
    def kind(self) -> str:
        return self.op

    @property
    def takes_changes(self) -> bool:
        return True  # The methods of streams check more.

    def keeping(self, column: str) -> Spec | None:
        return self

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        """Return the columns that the operator needs. It evaluates every expression, even if no
        operator needs its value, because the expression may fail."""
        downstream = needed[MAIN]
        if self.op == "filter":
            return downstream | columns_read(self.exprs, columns.names)
        computed = [expr for expr in self.exprs if not expr.meta.is_column()]
        passed_on = downstream.intersection(columns.names) - _replaced(computed, columns)
        return columns_read(computed, columns.names) | passed_on

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        computed = [expr for expr in self.exprs if not expr.meta.is_column()]
        return columns if not gone else without(columns, gone - _replaced(computed, columns))

    def keeps_columns(self, columns: Collection[str]) -> bool:
        if self.op == "filter":
            return True
        try:
            made = {expr.meta.output_name(): expr.meta.is_column() for expr in self.exprs}
        except FAILURES:
            return False
        same = {name for name, is_column in made.items() if is_column}
        return all(name in same or (self.op == "with_columns" and name not in made) for name in columns)

    def predicates(self) -> Sequence[pl.Expr]:
        return self.exprs if self.op == "filter" else ()

    def origin(self) -> Origin:
        return OneRow() if self.op == "filter" else SameRow()

    def summary(self) -> str:
        return ", ".join(map(spell_expression, self.exprs))


def _replaced(exprs: Iterable[pl.Expr], columns: pa.Schema) -> frozenset[str]:
    """Return the columns of which it is certain that the expressions replace them."""
    names = (
        expr.meta.output_name(raise_if_undetermined=False)
        for expr in exprs
        if not expr.meta.has_multiple_outputs()
    )
    return frozenset(columns.names).intersection(name for name in names if name is not None)


class ExpressionOperator(Operator):
    """Evaluates row-separable expressions. Rows keep their order."""

    def __init__(self, ctx: OperatorContext, spec: ExpressionSpec) -> None:
        super().__init__(ctx)
        self._op = spec.op
        self._failing = spec.failing
        self._schema = ctx.outputs[MAIN].schema if MAIN in ctx.outputs else None
        # A filter has one mask. A plain column of a select, or a plain field of a struct, is passed on
        # as the same array, renamed or not.
        computed: tuple[pl.Expr, ...] = spec.exprs
        self._mask: Mask | None = None
        self._named: dict[str, tuple[str, ...]] = {}
        if spec.op == "filter":
            computed = (reduce(and_, spec.exprs),)
            self._mask = arrow_mask(computed[0], visible(ctx.ports[0].schema))
        else:
            paths = [_path(expr, ctx.ports[0].schema, self._schema) for expr in spec.exprs]
            named = zip(spec.exprs, paths, strict=True)
            self._named = {expr.meta.output_name(): path for expr, path in named if path}
            computed = tuple(expr for expr, path in zip(spec.exprs, paths, strict=True) if path is None)
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
        computed = self._computed.values(batch) if self._mask is None else []
        if self._schema is None:
            return None
        if self._op == "filter":
            kept = arrow_column(computed[0]) if self._mask is None else self._mask(batch)
            if not kept.true_count:
                return None
            if batch.num_columns > len(self._schema):
                # Drop hidden columns that no operator downstream reads.
                batch = batch.select(self._schema.names)
            return batch if kept.true_count == batch.num_rows else batch.filter(kept)
        by_name = {series.name: series for series in computed}
        arrays = [
            _arrow(by_name[field.name], field.type)
            if field.name in by_name
            else _fitted(read_path(batch, self._named.get(field.name, (field.name,))), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _declared(self, series: pl.Series) -> None:
        """Check that the values can be converted to their declared type."""
        if self._schema is not None and series.name in self._schema.names and self._op != "filter":
            _arrow(series, self._schema.field(series.name).type)


def _path(expr: pl.Expr, columns: pa.Schema, output: pa.Schema | None) -> tuple[str, ...] | None:
    """Return the path to a plain column, or to a plain field of a struct in it. Return None for other
    expressions, and for fields that are converted to another type."""
    plain = expr.meta.undo_aliases()
    if plain.meta.is_column():
        return (plain.meta.root_names()[0],)
    path = column_path(tree_of(plain), columns)
    if output is None or path is None:
        return None
    name = expr.meta.output_name()
    return None if name in output.names and output.field(name).type != path.type else path.names


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    return _fitted(arrow_column(series), kind)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
