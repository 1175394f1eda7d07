"""`map` and `flat_map`: a plain Python function of one record.

Emitted records inherit the hidden columns of their input record, including its timestamp.

```python
def dozens(sale):
    return {"item": sale.item, "dozens": sale.count / 12}

def packets(sale):
    for number in range(sale.count // 12):
        yield {"item": sale.item, "number": number}

schema = pa.schema([("item", pa.string()), ("count", pa.int64())])
sales = [{"item": "tea", "count": 30}, {"item": "jam", "count": 6}]
check_example(
    OperatorExample(
        lambda rows: rows.map(dozens, returns={"item": str, "dozens": float}), schema, sales
    ),
    {"out": [{"item": "tea", "dozens": 2.5}, {"item": "jam", "dozens": 0.5}]},
)
check_example(
    OperatorExample(
        lambda rows: rows.flat_map(packets, returns={"item": str, "number": int}), schema, sales
    ),
    {"out": [{"item": "tea", "number": 0}, {"item": "tea", "number": 1}]},
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import GeneratorType
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.callables import is_generator
from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.compiler.forms import FLAT_MAP, MAP
from rheos.core.compiler.values import EmittedType
from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.graph.render import spell_record
from rheos.core.operators.automatic_rows import automatic_rows, row_typing
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, Out, RowSpec
from rheos.core.operators.origins import OneRow, Origin, SameRow
from rheos.core.operators.records import (
    UserRaised,
    check_kept,
    not_iterable,
    user_error,
    wrong_type,
)
from rheos.core.operators.rich_function import RichFunctionOperator
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.types import RowsOfBatch, TypeMismatch, batch_of

_SINGLE = (str, bytes, dict)


def emitted(
    ctx: OperatorContext,
    made: list[Any],
    batch: Batch,
    rows: Sequence[Any] | RowsOfBatch,
    origins: Sequence[int] | None,
    keeps: str | None,
) -> Iterator[Out]:
    """Yield one batch of the records that a function returned. `origins` is the position of each
    record's input row; None: one record per row, in order. Raise an error if the function changed
    values of the column `keeps`."""
    output = ctx.outputs.get(MAIN)
    if output is None or not made:
        return
    schema = output.schema
    try:
        made_batch = batch_of(made, schema, output.type.record)
    except TypeMismatch as mismatch:
        origin = mismatch.index if origins is None else origins[mismatch.index]
        raise wrong_type(ctx, mismatch, record=rows[origin]) from None
    hidden = [batch.column(name) for name in schema.names[made_batch.num_columns :]]
    indices = None
    if origins is not None and hidden:
        indices = pa.array(origins, pa.int64())
        hidden = [column.take(indices) for column in hidden]
    if keeps is not None:
        before = batch.column(keeps)
        before = before if indices is None else before.take(indices)
        after = made_batch.column(keeps)
        check_kept(ctx, keeps, before, after, lambda at: rows[at if origins is None else origins[at]])
    yield Out(pa.RecordBatch.from_arrays([*made_batch.columns, *hidden], schema=schema))


@dataclass(frozen=True)
class MapSpec(RowSpec):
    """A plain function of one record. `flat` functions return an iterable of records.

    The function receives instances of `record`, a dataclass. If `record` is None, it receives named
    rows.
    """

    keeps_splits: ClassVar[bool] = True

    fn: Callable[[Any], Any]
    flat: bool
    record: type | None
    keeps: str | None = None
    """Column that the function must not change, because operators downstream use it as event time."""
    automatic: Automatic = None

    @property
    def kind(self) -> str:
        return "flat_map" if self.flat else "map"

    def operator(self, ctx: OperatorContext) -> Operator:
        return FlatMapOperator(ctx, self) if self.flat else MapOperator(ctx, self)

    def keeping(self, column: str) -> Spec | None:
        return replace(self, keeps=column)

    def origin(self) -> Origin:
        return OneRow() if self.flat else SameRow()

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)

    def summary(self) -> str:
        return f"takes {spell_record(self.record)}{summary_of(self.automatic)}"


class _RecordOperator(RichFunctionOperator):
    def __init__(self, ctx: OperatorContext, spec: MapSpec) -> None:
        super().__init__(ctx, spec.fn)
        self._record = spec.record
        self._keeps = spec.keeps
        output = ctx.outputs.get(MAIN)
        emits = None if output is None else EmittedType(visible(output.schema), output.type.record)
        form = FLAT_MAP if spec.flat else MAP
        typing = row_typing(ctx.ports[0].schema, spec.record, emits, form)
        self._compiled = automatic_rows(ctx, self._fn, spec.automatic, typing)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        made = self._by_compiled(batch)
        return self._by_python(batch) if made is None else iter(made)

    def _by_python(self, batch: Batch) -> Iterator[Out]:
        raise NotImplementedError

    def _by_compiled(self, batch: Batch) -> list[Out] | None:
        """Return the output of the compiled form; None if Python must call the function."""
        results = None if self._compiled is None else self._compiled.results(batch)
        output = self.ctx.outputs.get(MAIN)
        if results is None or output is None:
            return None if results is None else []
        made, origins = results
        schema, indices = output.schema, pa.array(origins)
        if self._keeps is not None:
            before = batch.column(self._keeps).take(indices)
            try:
                check_kept(self.ctx, self._keeps, before, made.column(self._keeps), origins.__getitem__)
            except UserFunctionError as error:
                assert self._compiled is not None
                self._compiled.leave(error)
                return None
        hidden = [batch.column(name).take(indices) for name in schema.names[made.num_columns :]]
        whole = pa.RecordBatch.from_arrays([*made.columns, *hidden], schema=schema)
        most = max(1, self._most_rows(batch))
        return [Out(whole.slice(start, most)) for start in range(0, whole.num_rows, most)]

    def _most_rows(self, batch: Batch) -> int:
        """Return the maximum number of rows of an output batch."""
        rows: int = batch.num_rows
        return rows

    def _emit(
        self, made: list[Any], batch: Batch, rows: RowsOfBatch, origins: Sequence[int] | None
    ) -> Iterator[Out]:
        return emitted(self.ctx, made, batch, rows, origins, self._keeps)


class MapOperator(_RecordOperator):
    """Emits one record for each input record."""

    def _by_python(self, batch: Batch) -> Iterator[Out]:
        fn, rows = self._fn, RowsOfBatch(batch, self._record)
        made: list[Any] = []
        add, due = made.append, iter(rows)
        try:
            for row in due:
                add(fn(row))
        except UserRaised as error:
            raise user_error(self.ctx, error, record=rows[len(made)]) from error
        yield from self._emit(made, batch, rows, None)


class FlatMapOperator(_RecordOperator):
    """Emits any number of records for each input record, in batches of a bounded size."""

    def _most_rows(self, batch: Batch) -> int:
        return self.ctx.batch_rows

    def _by_python(self, batch: Batch) -> Iterator[Out]:
        rows = RowsOfBatch(batch, self._record)
        origins: list[int] = []
        records = self._records(rows, origins)
        while made := list(islice(records, self.ctx.batch_rows)):
            yield from self._emit(made, batch, rows, origins)
            origins.clear()

    def _records(self, rows: RowsOfBatch, origins: list[int]) -> Iterator[Any]:
        """Yield the records of all rows. Before each of them, append the position of its row to
        `origins`."""
        fn, note, row_number = self._fn, origins.append, 0
        checks = not is_generator(fn)
        try:
            for row in rows:
                given = fn(row)
                if checks and given.__class__ is not GeneratorType:
                    if given is None:
                        given = ()
                    # A string or a dict is a single record, too, although Python could iterate over it.
                    elif isinstance(given, _SINGLE) or not hasattr(given, "__iter__"):
                        break
                for record in given:
                    note(row_number)
                    yield record
                row_number += 1
            else:
                return
        except UserRaised as error:
            raise user_error(self.ctx, error, record=rows[row_number]) from error
        raise not_iterable(self.ctx, given, record=rows[row_number])
