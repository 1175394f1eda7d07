"""`top_n`: the first rows of each key in the order of a column, as a table by key and rank.

Of rows, those are kept that are among the first; of changes all that are there, as one that goes lets
another one in.

```python
check_example(
    OperatorExample(
        lambda bids: bids.key_by("item").top_n(2, by="price"),
        pa.schema([("item", pa.string()), ("user", pa.int64()), ("price", pa.int64())]),
        [
            {"item": "tea", "user": 1, "price": 3},
            {"item": "tea", "user": 2, "price": 5},
            {"item": "tea", "user": 3, "price": 2},
        ],
    ),
    {
        "out": [
            {"item": "tea", "user": 1, "price": 3, "rank": 1, "op": "insert"},
            {"item": "tea", "user": 1, "price": 3, "rank": 1, "op": "update_before"},
            {"item": "tea", "user": 2, "price": 5, "rank": 1, "op": "update_after"},
            {"item": "tea", "user": 1, "price": 3, "rank": 2, "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import pyarrow as pa

from rheos.graph.changes import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from rheos.operators.changelog.retractions import ChangesOut, row_shape
from rheos.operators.changes import table_columns
from rheos.operators.contract import Operator, OperatorContext, OperatorSpec, Out, PortType
from rheos.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.protocol.elements import Batch
from rheos.protocol.shapes import Holds, StateShape, TypeShape
from rheos.protocol.types import rows_of
from rheos.state.keys import Key, KeyCodec
from rheos.state.stores import ABSENT, MISSING

RANK = "rank"
_TOP, _ROWS = "top", "rows"


@dataclass(frozen=True)
class TopNSpec(OperatorSpec):
    n: int
    by: str
    smallest: bool
    of_changes: tuple[str, ...] | None
    """The key of the table, where the input is changes of one."""

    kind: ClassVar[str] = "top-n"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TopNOperator(ctx, self) if self.of_changes is None else TopNOfChanges(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        row = row_shape(table_columns(ports[0].schema))
        if self.of_changes is None:
            return {_TOP: keyed_shape(ports[0], Holds.VALUE, TypeShape(name="list", args=[row]))}
        rows = TypeShape(name="dict", args=[TypeShape(name="str"), row])
        return {_ROWS: keyed_shape(ports[0], Holds.MAP, rows)}

    def summary(self) -> str:
        return f"the {self.n} {'smallest' if self.smallest else 'largest'} by {self.by}"


class _TopN(KeyedStateOperator):
    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._columns = table_columns(port.schema)
        self._by = self._columns.get_field_index(spec.by)
        self._tie = _tie(self._columns)
        self._ranked = pa.schema([*self._columns, pa.field(RANK, pa.int64())])

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys = self._codec.of(batch)
        rows = rows_of(batch.select(self._columns.names), None)
        made = ChangesOut(self.ctx, self._ranked)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            self.backend.prepare(keys[first : first + stride])
            for at in range(first, min(first + stride, len(keys))):
                before, after = self._change(keys[at], rows[at], batch, at)
                if before is not after:
                    _rank(before, after, at, made)
        yield from made.of(batch)

    def _change(self, key: Key, row: Any, batch: Batch, at: int) -> tuple[Sequence[Any], Sequence[Any]]:
        """The first rows before and after; the same object where they are the same."""
        raise NotImplementedError

    def _first(self, rows: Iterable[Any]) -> list[Any]:
        ordered = sorted(rows, key=self._tie)
        ordered.sort(key=lambda row: row[self._by], reverse=not self._spec.smallest)
        return ordered[: self._spec.n]

    def _counts(self, row: Any) -> bool:
        """Whether its value is one, and can be compared."""
        value = row[self._by]
        return value is not None and value == value


class TopNOperator(_TopN):
    """Of rows that stay."""

    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx, spec)
        self._state = self.backend.values(_TOP, object)

    def _change(self, key: Key, row: Any, batch: Batch, at: int) -> tuple[Sequence[Any], Sequence[Any]]:
        before = self._state.values.get(key, MISSING)
        if before is MISSING:
            before = self._state.fetch(key)
        if before is ABSENT:
            before = []
        if not self._counts(row):
            return before, before
        if len(before) == self._spec.n:
            last, value = before[-1][self._by], row[self._by]
            if value > last if self._spec.smallest else value < last:
                return before, before
        after = self._first([*before, row])
        self._state.values[key] = after
        self._state.dirty.add(key)
        return before, after


class TopNOfChanges(_TopN):
    """Of the rows of a table that changes."""

    def __init__(self, ctx: OperatorContext, spec: TopNSpec) -> None:
        super().__init__(ctx, spec)
        self._state = self.backend.maps(_ROWS, str, object)
        assert spec.of_changes is not None
        self._known_by = [self._columns.get_field_index(name) for name in spec.of_changes]

    def _change(self, key: Key, row: Any, batch: Batch, at: int) -> tuple[Sequence[Any], Sequence[Any]]:
        state = self._state
        item = repr(tuple(row[place] for place in self._known_by))
        there = dict(state.read(key, {}))
        before = self._first(there.values())
        gone = batch.column(OP)[at].as_py() in (DELETE, UPDATE_BEFORE) or not self._counts(row)
        if gone:
            if there.pop(item, None) is not None:
                state.remove(key, item)
        else:
            there[item] = row
            known = state.values.get(key)
            if known is None:
                known = state.enter(key)
            known[item] = row
            state.changed[key].add(item)
        return before, self._first(there.values())


def _rank(before: Sequence[Any], after: Sequence[Any], at: int, made: ChangesOut) -> None:
    """What has become of each rank."""
    for rank, (was, now) in enumerate(zip_longest(before, after), 1):
        if was == now:
            continue
        if was is None:
            made.add((*now, rank), INSERT, at)
        elif now is None:
            made.add((*was, rank), DELETE, at)
        else:
            made.add((*was, rank), UPDATE_BEFORE, at)
            made.add((*now, rank), UPDATE_AFTER, at)


def _tie(columns: pa.Schema) -> Callable[[Any], tuple[Any, ...]]:
    """By what rows of one value are ordered: their columns, nulls last."""
    nested = [pa.types.is_nested(field.type) for field in columns]

    def order(row: Any) -> tuple[Any, ...]:
        return tuple(
            (value is None, repr(value) if is_nested else value)
            for value, is_nested in zip(row, nested, strict=True)
        )

    return order
