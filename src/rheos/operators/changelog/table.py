"""`table`: aggregates per key, as a table that changes: each row gives what its key's row is now.

Of a stream that retracts, a row that is taken back counts with the other sign. A key without rows is
deleted and forgotten: what comes of it later begins with nothing.

```python
check_example(
    OperatorExample(
        lambda sales: sales.key_by("item").table(n=rh.agg.count(), total=rh.agg.sum("price")),
        pa.schema([("item", pa.string()), ("price", pa.int64())]),
        [{"item": "tea", "price": 3}, {"item": "jam", "price": 5}, {"item": "tea", "price": 4}],
    ),
    {
        "out": [
            {"item": "tea", "n": 1, "total": 3, "op": "insert"},
            {"item": "jam", "n": 1, "total": 5, "op": "insert"},
            {"item": "tea", "n": 2, "total": 7, "op": "update_after"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.aggregates import Agg, count
from rheos.aggregates import sum as sum_of
from rheos.aggregates.count import Count
from rheos.aggregates.integer_sum import SumTooLarge
from rheos.aggregates.mean import Mean
from rheos.aggregates.sum import Sum, summed_type
from rheos.graph.changes import DELETE, INSERT, OP, UPDATE_AFTER
from rheos.graph.nodes import MAIN
from rheos.operators.changes import goes, was_not_there
from rheos.operators.contract import Operator, OperatorContext, OperatorSpec, Out, PortType
from rheos.operators.running import STATE, RunningStateOperator
from rheos.operators.running_state import running_shape
from rheos.protocol.elements import Batch
from rheos.protocol.shapes import StateShape

SIGNED = (Count, Sum, Mean)
"""The kinds from which a row can be taken back."""

_ROWS = "__rows"
_SIGN = "__sign"

Signs: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TableSpec(OperatorSpec):
    aggregates: Mapping[str, Agg]
    of_changes: bool
    """Whether its input retracts."""

    kind: ClassVar[str] = "table"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TableOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        kept = _of_changes(self.aggregates) if self.of_changes else _of_rows(self.aggregates)
        schema = _widened(ports[0].schema, self.aggregates) if self.of_changes else ports[0].schema
        return {STATE: running_shape(ports[0], kept, schema)}

    def summary(self) -> str:
        return ", ".join(f"{name}={agg}" for name, agg in self.aggregates.items())


class TableOperator(RunningStateOperator):
    """Gives a row for each that comes."""

    def __init__(self, ctx: OperatorContext, spec: TableSpec) -> None:
        schema, kept = ctx.ports[0].schema, _of_rows(spec.aggregates)
        if spec.of_changes:
            schema, kept = _widened(schema, spec.aggregates), _of_changes(spec.aggregates)
        super().__init__(ctx, kept, schema, counted_by=_ROWS if spec.of_changes else None)
        self._aggregates = spec.aggregates
        self._of_changes = spec.of_changes

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        slots = self.slots_of(batch)
        signs = np.ones(batch.num_rows, np.int64)
        if self._of_changes:
            signs[goes(batch)] = -1
        given = self._signed(batch, signs) if self._of_changes else batch
        try:
            made = self.state.run(slots, given)
        except SumTooLarge as error:
            named = SumTooLarge(error.row, error.column.rpartition(".")[2])
            raise self.too_large(named, batch) from None
        rows: Signs = made[_ROWS].to_numpy(zero_copy_only=False).astype(np.int64)
        if self._of_changes:
            self._check(rows, batch)
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= self._results(made) if self._of_changes else made
        columns[OP] = _ops(rows, signs)
        arrays = [columns[field.name].cast(field.type) for field in output.schema]
        yield Out(pa.RecordBatch.from_arrays(arrays, schema=output.schema))

    def _signed(self, batch: Batch, signs: Signs) -> Batch:
        """The batch with what is to be added up."""
        sign = pa.array(signs)
        added = {_SIGN: sign}
        for column in _columns(self._aggregates):
            values = batch.column(column)
            added[f"__n.{column}"] = pc.if_else(values.is_valid(), sign, 0)
            if _is_number(values.type):
                floating = pa.types.is_floating(values.type)
                numbers = values.cast(pa.float64() if floating else pa.int64())
                added[f"__s.{column}"] = pc.multiply(numbers, sign.cast(numbers.type))
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *added.values()], names=[*batch.schema.names, *added]
        )

    def _results(self, made: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        results: dict[str, pa.Array] = {}
        for name, agg in self._aggregates.items():
            if agg.column is None:
                results[name] = made[_ROWS]
                continue
            counts = made[f"__n.{agg.column}"]
            if isinstance(agg, Count):
                results[name] = counts
                continue
            there = pc.greater(counts, 0)
            total = made[f"__s.{agg.column}"]
            if isinstance(agg, Mean):
                total = pc.divide(total.cast(pa.float64()), counts.cast(pa.float64()))
            results[name] = pc.if_else(there, total, pa.scalar(None, total.type))
        return results

    def _check(self, rows: Signs, batch: Batch) -> None:
        if rows.min() >= 0:
            return
        raise was_not_there(self.ctx, batch, int(rows.argmin()), self.ctx.ports[0].keys)


def _ops(rows: Signs, signs: Signs) -> pa.Array:
    new, gone = (rows - signs == 0) & (rows > 0), rows == 0
    codes = np.where(gone, 2, np.where(new, 0, 1)).astype(np.int8)
    return pa.DictionaryArray.from_arrays(codes, [INSERT, UPDATE_AFTER, DELETE]).dictionary_decode()


def _of_rows(aggregates: Mapping[str, Agg]) -> dict[str, Agg]:
    return {**aggregates, _ROWS: count()}


def _of_changes(aggregates: Mapping[str, Agg]) -> dict[str, Agg]:
    """What is added up, by columns of `_widened`."""
    kept = {_ROWS: sum_of(_SIGN)}
    for agg in aggregates.values():
        if agg.column is not None:
            kept[f"__n.{agg.column}"] = sum_of(f"__n.{agg.column}")
            if not isinstance(agg, Count):
                kept[f"__s.{agg.column}"] = sum_of(f"__s.{agg.column}")
    return kept


def _columns(aggregates: Mapping[str, Agg]) -> list[str]:
    return list(dict.fromkeys(agg.column for agg in aggregates.values() if agg.column is not None))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _widened(schema: pa.Schema, aggregates: Mapping[str, Agg]) -> pa.Schema:
    fields = [pa.field(_SIGN, pa.int64())]
    for column in _columns(aggregates):
        kind = schema.field(column).type
        fields.append(pa.field(f"__n.{column}", pa.int64()))
        if _is_number(kind):
            fields.append(pa.field(f"__s.{column}", summed_type(kind)))
    return pa.schema([*schema, *fields])
