"""`table`: aggregates per key, as an updating table. For each input row, the operator emits the new row
of its key.

If the input is a changelog, a retracted row counts with the opposite sign. When a key has no rows left,
the operator deletes its row and drops its state, so that later rows of the key start without state. For
aggregates over distinct values, and for minima and maxima of a changelog, state has the values of each
key with their counts. `collect` keeps lists of values; with it, a batch emits one row for each of its
keys.

A table with an `only_key` has one row for all rows of its input, also for no rows: `SELECT COUNT(*)` is
then 0. This row is emitted with the first row of the input, or at its end, and is never deleted.

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
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates import Agg, count
from rheos.core.aggregates import sum as sum_of
from rheos.core.aggregates.collect import Collect
from rheos.core.aggregates.count import Count
from rheos.core.aggregates.distinct import CountDistinct, DistinctAgg, MeanDistinct, SumDistinct
from rheos.core.aggregates.extremes import Max, Min
from rheos.core.aggregates.mean import Mean
from rheos.core.aggregates.segments import Segments
from rheos.core.aggregates.sum import Sum
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_AFTER
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.types import key_type
from rheos.core.operators.change_rows import goes, missing_row_error
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.running import STATE, RunningStateOperator
from rheos.core.operators.running_lists import CollectedList, signed_type, signed_values
from rheos.core.operators.running_retractions import GivenExtreme, RowsWithValues
from rheos.core.operators.running_state import KeptAggregates, MemoryRunningState, running_shape
from rheos.core.operators.running_values import DiskValues, MemoryValues
from rheos.core.operators.signed_sums import SignedSum, kept_type, mean_of_signed, signed, sum_of_signed
from rheos.core.protocol.columns import plain_type
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import VALUE, FieldShape, StateShape, TypeShape
from rheos.core.protocol.shown_rows import row_values
from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.key_limit import CountedLimit, KeyContents
from rheos.core.state.slots import Slots

SIGNED = (Count, Sum, Mean, Min, Max, CountDistinct, SumDistinct, MeanDistinct, Collect)
"""Kinds of aggregates that can retract a row."""


def can_be_kept(agg: Agg) -> bool:
    """Return whether a table of append-only rows supports the aggregate."""
    return agg.can_run() or isinstance(agg, DistinctAgg | Collect)


_ROWS = "__rows"
_SIGN = "__sign"
_DISTINCT = "__distinct."
"""Prefix of the sums over the distinct values of a column."""
_VALUES = "values of "
"""Prefix of the names of the states with the values of a column."""

Signs: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TableSpec(KeySpec):
    aggregates: Mapping[str, Agg]
    of_changes: bool
    """Whether the input is a changelog that retracts rows."""
    only_key: tuple[Any, ...] | None = None
    """Values of the key if the table has exactly one row, even without input; otherwise None."""

    kind: ClassVar[str] = "table"
    prepares_state: ClassVar[bool] = True
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TableOperator(ctx, self)

    @property
    def emits_without_rows(self) -> bool:
        return self.only_key is not None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        shapes = {}
        for name, kept in _Plan(self, ports[0]).states.items():
            shape = running_shape(ports[0], kept.aggregates, kept.schema, retracts=self.of_changes)
            added = [
                FieldShape(
                    name=column,
                    type=TypeShape(name=key_type(kept.schema.field(column).type), label=VALUE),
                )
                for column in kept.within
            ]
            shapes[name] = msgspec.structs.replace(shape, key=[*shape.key, *added])
        return shapes

    def summary(self) -> str:
        return ", ".join(f"{name}={agg}" for name, agg in self.aggregates.items())


@dataclass(frozen=True)
class _Plan:
    """The columns that the operator computes for a batch, and those that it keeps as state."""

    spec: TableSpec
    port: PortType

    @cached_property
    def summed(self) -> dict[str, tuple[str, bool]]:
        """Return the signed sums by name: the column, and whether its values are summed rather than
        counted. The name shows whether only distinct values count."""
        found: dict[str, tuple[str, bool]] = {}
        for agg in self.spec.aggregates.values():
            if agg.column is None or not self.is_signed(agg) or isinstance(agg, Min | Max | Collect):
                continue
            of = _summed(agg)
            found[f"__n.{of}"] = (agg.column, False)
            if not isinstance(agg, Count | CountDistinct):
                found[f"__s.{of}"] = (agg.column, True)
        return found

    @cached_property
    def extremes(self) -> dict[str, Min | Max]:
        """Return minima and maxima of values that may be retracted, by the name of their state."""
        signed = (agg for agg in self.spec.aggregates.values() if self.is_signed(agg))
        return {_extreme(agg): agg for agg in signed if isinstance(agg, Min | Max)}

    def is_signed(self, agg: Agg) -> bool:
        """Return whether the aggregate is derived from signed sums or values, and so has no state of
        its own."""
        return self.spec.of_changes or isinstance(agg, DistinctAgg | Collect)

    @cached_property
    def lists(self) -> dict[str, str]:
        """Return the columns whose values are kept as lists, by the names of these lists."""
        of = (agg for agg in self.spec.aggregates.values() if isinstance(agg, Collect))
        return {_list(agg): str(agg.column) for agg in of}

    @cached_property
    def values(self) -> dict[str, str]:
        """Return the columns whose values are state, by the names of these states."""
        aggregates = self.spec.aggregates.values()
        kinds = (Min, Max, DistinctAgg)
        of = [agg.column for agg in aggregates if self.is_signed(agg) and isinstance(agg, kinds)]
        return {_VALUES + column: column for column in of if column is not None}

    @cached_property
    def states(self) -> dict[str, KeptAggregates]:
        schema, keys = self.port.schema, self.port.keys
        aggregates, counted_by = self.spec.aggregates, None
        kept = {name: agg for name, agg in aggregates.items() if not self.is_signed(agg)}
        kept |= {name: SignedSum(name) for name in self.summed}
        kept |= {name: GivenExtreme(name, of) for name, of in self.extremes.items()}
        kept |= {name: CollectedList(name) for name in self.lists}
        if self.spec.of_changes:
            kept[_ROWS] = sum_of(_SIGN)
            counted_by = _ROWS if self.spec.only_key is None else None
        else:
            kept[_ROWS] = count()
        fields = [pa.field(_SIGN, pa.int64())]
        for name, (column, of_values) in self.summed.items():
            kind = kept_type(schema.field(column).type) if of_values else pa.int64()
            fields.append(pa.field(name, kind))
        for name, agg in self.extremes.items():
            fields.append(pa.field(name, agg.result_type(schema)))
        for name, column in self.lists.items():
            fields.append(pa.field(name, signed_type(schema.field(column).type)))
        states = {STATE: KeptAggregates(pa.schema([*schema, *fields]), keys, kept, counted_by)}
        for name, column in self.values.items():
            value = "value"
            while value in keys:
                value += "_"
            columns = [*(schema.field(key) for key in keys), schema.field(column).with_name(value)]
            of = pa.schema([*columns, pa.field(_SIGN, pa.int64())])
            states[name] = KeptAggregates(of, keys, {_ROWS: sum_of(_SIGN)}, _ROWS, (value,))
        return states


class TableOperator(RunningStateOperator):
    """Emits a row for each input row; for an `only_key`, also if there is no input."""

    def __init__(self, ctx: OperatorContext, spec: TableSpec) -> None:
        self._plan = _Plan(spec, ctx.ports[0])
        super().__init__(ctx, self._plan.states)
        self._aggregates = spec.aggregates
        self._of_changes = spec.of_changes
        self._only_key: list[pa.Array] | None = None
        """The only key, if its row has not been emitted yet."""
        self._has_one_row = spec.only_key is not None
        if spec.only_key is not None:
            kinds = [ctx.ports[0].schema.field(key).type for key in self._keys]
            key = [pa.array([each], kind) for each, kind in zip(spec.only_key, kinds, strict=True)]
            if groups_of_columns(key, ctx.max_parallelism)[0] in ctx.key_groups:
                self._only_key = key
        self._limits = {
            name: CountedLimit(ctx.key_limit(KeyContents.VALUES)) for name in self._plan.values
        }

    def open(self, restored: Restored) -> None:
        super().open(restored)
        if self._only_key is not None and self.state.knows(self._only_key):
            self._only_key = None

    def on_end(self) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if self._only_key is None or output is None:
            return
        columns = dict(zip(self._keys, self._only_key, strict=True))
        columns[OP] = pa.array([INSERT])
        for name, agg in self._aggregates.items():
            columns[name] = pa.array([agg.of_no_rows], output.schema.field(name).type)
        for name in output.schema.names:
            # Rows have no event time here, but hidden columns are never null.
            columns.setdefault(name, pa.array([0]))
        self._only_key = None
        arrays = [columns[field.name].cast(field.type) for field in output.schema]
        yield Out(pa.RecordBatch.from_arrays(arrays, schema=output.schema))

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        slots = self.slots_of(batch)
        signs = np.ones(batch.num_rows, np.int64)
        if self._of_changes:
            signs[goes(batch)] = -1
        try:
            made = self.state.run(slots, self._add_columns(batch, slots, signs))
            results = {
                name: self._result(name, agg, made, batch) for name, agg in self._aggregates.items()
            }
        except SumTooLarge as error:
            named = error.of(error.column.removeprefix("__s.").removeprefix(_DISTINCT))
            raise self.too_large(named, batch, self._aggregates) from None
        rows: Signs = made[_ROWS].to_numpy(zero_copy_only=False).astype(np.int64)
        if self._of_changes:
            self._check(rows, batch)
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= results
        before, last = rows - signs, None
        if self._plan.lists:
            # Lists exist only after the last row of a key.
            keys = Segments(slots, int(slots.max()) + 1)
            of = np.argsort(keys.order[keys.ends])
            last = keys.order[keys.ends][of]
            before, rows = before[keys.order[keys.starts]][of], rows[last]
            columns = {name: column.take(pa.array(last)) for name, column in columns.items()}
        columns[OP] = self._ops(before, rows)
        arrays = [columns[field.name].cast(field.type) for field in output.schema]
        made_rows = pa.RecordBatch.from_arrays(arrays, schema=output.schema)
        if last is not None and not self._has_one_row:
            made_rows = made_rows.filter(pa.array((before > 0) | (rows > 0)))
        yield Out(made_rows)

    def _add_columns(self, batch: Batch, slots: Slots, signs: Signs) -> Batch:
        """Return the batch with added columns: the values to sum, and the minima and maxima."""
        plan = self._plan
        added = {_SIGN: pa.array(signs)} if self._of_changes else {}
        changes = {column: signs for column, _ in plan.summed.values()}
        keys = Segments(slots, int(slots.max()) + 1)
        for state, column in plan.values.items():
            rows = self._value_rows(state, column, batch, keys, signs)
            changes[_DISTINCT + column] = rows.presence_changes()
            for name, agg in plan.extremes.items():
                if agg.column == column:
                    added[name] = self._extreme(name, agg, state, rows, batch)
        for name, column in plan.lists.items():
            added[name] = signed_values(batch.column(column), signs)
        for name, (column, of_values) in plan.summed.items():
            added[name] = _times(batch.column(column), changes[name[len("__n.") :]], of_values)
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *added.values()], names=[*batch.schema.names, *added]
        )

    def _value_rows(
        self, state: str, column: str, batch: Batch, rows: Segments, signs: Signs
    ) -> RowsWithValues:
        """Count the values of a column. `rows` has the rows of the batch by key."""
        values = _plain(batch.column(column))
        places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        keys, of_keys = [batch.column(key) for key in self._keys], rows.numbers
        if len(places) < batch.num_rows:
            values, signs, of_keys = values.take(pa.array(places)), signs[places], of_keys[places]
        there, firsts = self.states[state], pa.array(rows.order[rows.starts])
        of_pairs = there.slots_within([key.take(firsts) for key in keys], of_keys, values)
        counts = np.zeros(0, np.int64)
        if len(places):
            signed_rows = pa.RecordBatch.from_arrays([pa.array(signs)], names=[_SIGN])
            counts = there.run(of_pairs, signed_rows)[_ROWS].to_numpy(zero_copy_only=False)
        if counts.min(initial=0) < 0:
            raise missing_row_error(self.ctx, batch, int(places[counts.argmin()]), self._keys)
        if isinstance(there, MemoryRunningState):
            largest = partial(self._most_values, there)
            new = int(np.count_nonzero((signs > 0) & (counts == 1)))
            self._limits[state].add(new, len(there), largest)
        return RowsWithValues(
            batch=rows,
            places=places,
            keys=keys,
            values=values,
            signs=signs,
            counts=counts,
            pairs=Segments(of_pairs, int(of_pairs.max(initial=0)) + 1),
        )

    def _most_values(self, state: MemoryRunningState, above: int) -> tuple[int, Any] | None:
        """Return the largest number of values of a key, and that key. Return None if there is no
        value."""
        at = state.is_occupied()
        columns = state.keys(np.arange(len(state)) if at is None else at)[: len(self._keys)]
        counted = (
            pa.table(columns, names=self._keys).group_by(self._keys).aggregate([([], "count_all")])
        )
        if not counted.num_rows:
            return None
        most = int(np.argmax(counted.column("count_all").to_numpy()))
        found = row_values(counted.combine_chunks().to_batches()[0], most)
        return found.pop("count_all"), tuple(found.values())

    def _extreme(
        self, name: str, agg: Min | Max, state: str, rows: RowsWithValues, batch: Batch
    ) -> pa.Array:
        """Return the minimum or maximum of the current values after each row."""
        values = self.states[state]
        assert isinstance(values, MemoryValues | DiskValues)
        kind = rows.values.type
        before = self.state.value(name, rows.batch.slots, kind).cast(kind)
        return rows.best_after(
            before,
            lambda keys, others: values.best(keys, others, greatest=agg.greatest),
            greatest=agg.greatest,
        ).cast(agg.result_type(batch.schema))

    def _result(self, name: str, agg: Agg, made: Mapping[str, pa.Array], batch: Batch) -> pa.Array:
        """Return an aggregate after each row. Raise SumTooLarge if its type cannot hold a sum."""
        if not self._plan.is_signed(agg):
            return made[name]
        if agg.column is None:
            return made[_ROWS]
        if isinstance(agg, Min | Max):
            return made[_extreme(agg)]
        if isinstance(agg, Collect):
            return made[_list(agg)]
        of = _summed(agg)
        counts = made[f"__n.{of}"]
        if isinstance(agg, Count | CountDistinct):
            return counts
        finish = mean_of_signed if isinstance(agg, Mean | MeanDistinct) else sum_of_signed
        try:
            return finish(made[f"__s.{of}"], counts, batch.schema.field(agg.column).type)
        except SumTooLarge as error:
            raise error.of(agg.column) from None

    def _ops(self, before: Signs, rows: Signs) -> pa.Array:
        """Return the kinds of the changes, given the number of rows before and after each."""
        new, gone = (before == 0) & (rows > 0), rows == 0
        if self._has_one_row:
            new, gone = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
            new[0] = self._only_key is not None
            self._only_key = None
        codes = np.where(gone, 2, np.where(new, 0, 1)).astype(np.int8)
        return pa.DictionaryArray.from_arrays(codes, [INSERT, UPDATE_AFTER, DELETE]).dictionary_decode()

    def _check(self, rows: Signs, batch: Batch) -> None:
        if rows.min() >= 0:
            return
        raise missing_row_error(self.ctx, batch, int(rows.argmin()), self.ctx.ports[0].keys)


def _summed(agg: Agg) -> str:
    """Return the name of the aggregate's sum, without the prefix "__n." or "__s."."""
    return f"{_DISTINCT if isinstance(agg, DistinctAgg) else ''}{agg.column}"


def _extreme(agg: Min | Max) -> str:
    return f"__{agg.kind}.{agg.column}"


def _list(agg: Collect) -> str:
    return f"__{agg.kind}.{agg.column}"


def _times(values: pa.Array, signs: Signs, of_values: bool) -> pa.Array:
    """Return the values with these signs, or the signs alone to count values."""
    return signed(values, signs) if of_values else pc.if_else(values.is_valid(), pa.array(signs), 0)


def _plain(values: pa.Array) -> pa.Array:
    """Return the values in a form in which equal values have the same bits."""
    values = values.cast(plain_type(values.type))
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values
