"""`map_batches`: a function of whole batches, as Polars frames, Arrow batches or pandas frames.

```python
def add_tax(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(tax=frame["price"] * 0.25)

check_example(
    OperatorExample(
        lambda sales: sales.map_batches(add_tax, returns={"item": str, "price": int, "tax": float}),
        pa.schema([("item", pa.string()), ("price", pa.int64())]),
        [{"item": "tea", "price": 4}, {"item": "jam", "price": 6}],
    ),
    {
        "out": [
            {"item": "tea", "price": 4, "tax": 1.0},
            {"item": "jam", "price": 6, "tax": 1.5},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import polars as pl
import pyarrow as pa

from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.operators.contract import Operator, OperatorContext, Out, RowSpec
from rheos.core.operators.records import UserRaised, check_kept, user_error
from rheos.core.operators.returned_columns import given_columns
from rheos.core.operators.rich_function import RichFunctionOperator
from rheos.core.protocol.elements import Batch, strip_hidden, visible
from rheos.core.protocol.pandas_frames import pandas_frame, table_of_pandas
from rheos.core.protocol.polars_frames import arrow_table, polars_frame
from rheos.core.protocol.shown_rows import row_values, shown_record
from rheos.core.protocol.types import TypeMismatch

_WANTED = {
    "polars": "a polars.DataFrame",
    "arrow": "a pyarrow.RecordBatch or pyarrow.Table",
    "pandas": "a pandas.DataFrame",
}


@dataclass(frozen=True)
class MapBatchesSpec(RowSpec):
    """A function of whole batches, in the form that the user chose.

    It may drop rows and change their order. If the stream has event time, it must return as many rows
    as it received.
    """

    kind: ClassVar[str] = "map_batches"
    keeps_splits: ClassVar[bool] = True

    fn: Callable[[Any], Any]
    form: Literal["polars", "arrow", "pandas"]
    keeps: str | None = None
    """Column that the function must not change; see `MapSpec.keeps`."""

    def operator(self, ctx: OperatorContext) -> Operator:
        return MapBatchesOperator(ctx, self)

    def keeping(self, column: str) -> Spec | None:
        return replace(self, keeps=column)

    def summary(self) -> str:
        return f"takes batches as {self.form}"


class MapBatchesOperator(RichFunctionOperator):
    """Passes the visible columns to the user's function, and checks its result.

    The function returns the declared columns, in any order, with the declared types or with numbers
    that fit them. With event time it returns one row per input row, and the operator adds the hidden
    columns.
    """

    def __init__(self, ctx: OperatorContext, spec: MapBatchesSpec) -> None:
        super().__init__(ctx, spec.fn)
        self._spec = spec
        self._name = getattr(spec.fn, "__name__", type(spec.fn).__name__)
        self._output = ctx.outputs.get(MAIN)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        given = self._call(strip_hidden(batch))
        if self._output is None:
            return
        schema = self._output.schema
        declared = visible(schema)
        table = self._table(given)
        columns = given_columns(table, declared, self._name, self._failed)
        hidden = schema.names[len(declared) :]
        if hidden and table.num_rows != batch.num_rows:
            raise self._failed(
                f"{self._name}() returned {table.num_rows} rows for {batch.num_rows}, so the "
                "event time of each row is unknown",
                hint="return one row per input row, in the same order; use filter() to drop rows, "
                "and flat_map() to return several",
            )
        kept = self._spec.keeps
        if kept is not None:
            after = columns[declared.get_field_index(kept)]
            check_kept(
                self.ctx,
                kept,
                batch.column(kept),
                after,
                lambda at: row_values(batch, at),
            )
        columns += [batch.column(name) for name in hidden]
        result = pa.RecordBatch.from_arrays(columns, schema=schema)
        for start in range(0, result.num_rows, self.ctx.batch_rows):
            yield Out(result.slice(start, self.ctx.batch_rows))

    def _call(self, batch: Batch) -> Any:
        handed: Any = batch
        if self._spec.form == "polars":
            handed = polars_frame(batch)
        elif self._spec.form == "pandas":
            handed = pandas_frame(batch)
        try:
            return self._fn(handed)
        except UserRaised as error:
            first = shown_record(batch, 0)
            raised = user_error(self.ctx, error, columns=batch.schema.names)
            raised.record = raised.record or f"one of {batch.num_rows}, the first of which is {first}"
            raise raised from error

    def _table(self, given: Any) -> pa.Table:
        form = self._spec.form
        if form == "polars" and isinstance(given, pl.DataFrame):
            return arrow_table(given)
        if form == "arrow" and isinstance(given, pa.RecordBatch):
            return pa.Table.from_batches([given])
        if form == "arrow" and isinstance(given, pa.Table):
            return given
        if form == "pandas" and _is_pandas_frame(given):
            assert self._output is not None
            try:
                return table_of_pandas(given, visible(self._output.schema))
            except TypeMismatch as mismatch:
                raise self._failed(
                    f"{self._name}() returned an invalid value in row {mismatch.index}: {mismatch}",
                    hint="return the declared output type, or declare the type that is returned "
                    "(returns=)",
                ) from None
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise self._failed(
                    f"{self._name}() returned a frame that Arrow cannot convert: {error}"
                ) from None
        raise self._failed(
            f"{self._name}() returned {type(given).__name__}, but must return {_WANTED[form]}",
            hint="return the frame itself; call collect() on a lazy one",
        )

    def _failed(self, what: str, hint: str | None = None) -> UserFunctionError:
        return UserFunctionError(what, site=self.ctx.site, operator=self.ctx.name, hint=hint)


def _is_pandas_frame(value: Any) -> bool:
    import pandas as pd  # Imported here because the import takes long, and few programs need it.

    return isinstance(value, pd.DataFrame)
