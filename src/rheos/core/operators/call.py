"""`call`: adds a column that a Python function computes from others, per row or for whole columns.

A function of single values is not called for a row in which one of its arguments is null, unless the
function accepts null there. The result is then null.

```python
def dollars(cents: int) -> float:
    return cents / 100

check_example(
    OperatorExample(
        lambda sales: sales.transformation.then(
            CallSpec("dollars", dollars, ("cents",), CallForm.VALUES),
            "call",
            sales.schema.append(pa.field("dollars", pa.float64())),
        ).stream,
        pa.schema([("cents", pa.int64())]),
        [{"cents": 250}, {"cents": None}],
    ),
    {"out": [{"cents": 250, "dollars": 2.5}, {"cents": None, "dollars": None}]},
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import reduce
from typing import Any, ClassVar, assert_never

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.compiler.forms import RESULT
from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.automatic_rows import (
    AutomaticRows,
    automatic_rows,
    column_typing,
)
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, Out, RowSpec
from rheos.core.operators.records import (
    Stamps,
    UserRaised,
    is_single,
    not_iterable,
    user_error,
    wrong_type,
)
from rheos.core.operators.returned_columns import given_columns
from rheos.core.operators.rich_function import RichFunctionOperator
from rheos.core.protocol.columns import column_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_column, polars_frame
from rheos.core.protocol.shown_rows import row_values
from rheos.core.protocol.types import TypeMismatch, read_column
from rheos.core.safe_strings import shown


class CallForm(Enum):
    """Input and output forms of a function."""

    VALUES = auto()
    """Takes the values of a row and returns one value."""
    MANY = auto()
    """Takes the values of a row and returns any number of values; the column holds their list."""
    SERIES = auto()
    """Takes columns as Polars series."""
    ARROW = auto()
    """Takes columns as Arrow arrays."""

    @property
    def is_by_row(self) -> bool:
        """Return whether the function is called once for each row."""
        return self in (CallForm.VALUES, CallForm.MANY)


@dataclass(frozen=True)
class CallSpec(RowSpec):
    column: str
    """Name of the added column."""
    fn: Callable[..., Any]
    arguments: tuple[str, ...]
    form: CallForm
    takes_null: tuple[str, ...] = ()
    """Arguments of value functions that may be null."""
    automatic: Automatic = None

    kind: ClassVar[str] = "call"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return CallOperator(ctx, self)

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic) if self.form.is_by_row else {}

    def summary(self) -> str:
        of = ", ".join(self.arguments) or "nothing"
        return f"{self.column} of {of}{summary_of(self.automatic)}"


class CallOperator(RichFunctionOperator):
    """Adds a column to each batch; the rows stay as they are."""

    def __init__(self, ctx: OperatorContext, spec: CallSpec) -> None:
        super().__init__(ctx, spec.fn)
        self._spec = spec
        self._name = getattr(spec.fn, "__name__", type(spec.fn).__name__)
        self._output = output = ctx.outputs.get(MAIN)
        self._compiled: AutomaticRows | None = None
        if output is not None and spec.automatic is not None:
            field, columns = output.schema.field(spec.column), ctx.ports[0].schema
            many = spec.form is CallForm.MANY
            typing = column_typing(columns, spec.arguments, spec.takes_null, field, many=many)
            self._compiled = automatic_rows(ctx, self._fn, spec.automatic, typing)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._output is None or not batch.num_rows:
            return
        schema = self._output.schema
        field = schema.field(self._spec.column)
        match self._spec.form:
            case CallForm.VALUES | CallForm.MANY:
                made = self._of_values(batch, field)
            case CallForm.SERIES | CallForm.ARROW:
                made = self._of_columns(batch, field)
            case _:
                assert_never(self._spec.form)
        columns = [made if name == field.name else batch.column(name) for name in schema.names]
        yield Out(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _of_values(self, batch: Batch, field: pa.Field) -> pa.Array:
        spec, fn = self._spec, self._fn
        there = _complete_rows(batch, [name for name in spec.arguments if name not in spec.takes_null])
        called = batch if there is None else batch.filter(there)
        results = None if self._compiled is None else self._compiled.results(called)
        if results is not None:
            compiled: pa.Array = (
                _lists_of(*results, called, field)
                if spec.form is CallForm.MANY
                else results[0].column(RESULT)
            )
            return compiled if there is None else _placed(compiled, there)
        values = [read_column(called, name) for name in spec.arguments]
        given: list[Any] = []
        add = given.append
        many = spec.form is CallForm.MANY
        result: Any = None
        try:
            if values and not many:
                # If a call fails, the list has the results of the calls before it.
                given.extend(map(fn, *values))
            else:
                for row in zip(*values, strict=True) if values else [()] * called.num_rows:
                    result = fn(*row)
                    add(_listed(result) if many else result)
        except UserRaised as error:
            at = len(given)
            if many and result is not None and is_single(result):
                raise not_iterable(self.ctx, result, record=_record(called, at)) from error
            raise user_error(self.ctx, error, record=_record(called, at)) from error
        try:
            made = column_of(given, field)
        except TypeMismatch as mismatch:
            raise wrong_type(self.ctx, mismatch, record=_record(called, mismatch.index)) from None
        return made if there is None else _placed(made, there)

    def _of_columns(self, batch: Batch, field: pa.Field) -> pa.Array:
        columns: list[Any] = [batch.column(name) for name in self._spec.arguments]
        wanted: type = pa.Array
        if self._spec.form is CallForm.SERIES:
            names = [str(place) for place in range(len(columns))]
            frame = polars_frame(pa.RecordBatch.from_arrays(columns, names=names))
            columns, wanted = frame.get_columns(), pl.Series
        try:
            given = self._fn(*columns)
        except UserRaised as error:
            raised = user_error(self.ctx, error)
            first = shown(_record(batch, 0))
            raised.record = raised.record or f"one of {batch.num_rows}, the first of which is {first}"
            raise raised from error
        if not isinstance(given, wanted):
            raise self._failed(
                f"{self._name}() returned {type(given).__name__}, but must return a {wanted.__name__}",
                None,
            )
        made: pa.Array = arrow_column(given) if isinstance(given, pl.Series) else given
        if len(made) != batch.num_rows:
            raise self._failed(
                f"{self._name}() returned {len(made)} values for {batch.num_rows} rows",
                "return one value per row, in the same order",
            )
        table = pa.table({field.name: made})
        return given_columns(table, pa.schema([field]), self._name, self._failed)[0]

    def _failed(self, what: str, hint: str | None) -> UserFunctionError:
        return UserFunctionError(what, site=self.ctx.site, operator=self.ctx.name, hint=hint)


def _lists_of(made: Batch, origins: Stamps, called: Batch, field: pa.Field) -> pa.Array:
    """Return the results of compiled calls as lists, one for each called row. `origins` has the row of
    each result, in order."""
    is_record = pa.types.is_struct(field.type.value_type)
    values = made.to_struct_array() if is_record else made.column(RESULT)
    offsets = np.searchsorted(origins, np.arange(called.num_rows + 1))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values).cast(field.type)


def _listed(result: Any) -> list[Any]:
    if result is None:
        return []
    if is_single(result):
        raise TypeError("a single value, not an iterable")
    return list(result)


def _complete_rows(batch: Batch, names: Sequence[str]) -> pa.Array | None:
    """Return a mask of the rows in which none of the columns is null; None if that is every row."""
    some = [batch.column(name).is_valid() for name in names if batch.column(name).null_count]
    return reduce(pc.and_, some) if some else None


def _placed(results: pa.Array, is_called: pa.Array) -> pa.Array:
    """Return an array with the values at the rows of the mask `is_called`, and null at other rows."""
    ordinal = pc.subtract(pc.cumulative_sum(is_called.cast(pa.int64())), 1)
    return results.take(pc.if_else(is_called, ordinal, None))


def _record(batch: Batch, at: int) -> Any:
    return row_values(batch, at)
