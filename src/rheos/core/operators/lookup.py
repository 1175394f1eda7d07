"""`lookup`: adds to each row the columns that an external system has for its key.

A batch is looked up while it waits at the input, concurrently with earlier batches, and rows keep their
order. The operator requests the distinct keys of a batch that are not cached. If a row's key is null,
or has no external row, the row gets nulls (`how="left"`) or is dropped (`how="inner"`). A row whose key
has several external rows becomes several rows.

Results are not state: a row that is not emitted yet is still at the input. It is part of the checkpoint
there, and is looked up again after a restore.

```python
check_example(
    OperatorExample(
        lambda visits: visits.lookup(
            MemoryLookup(
                ["user"], [{"user": "ada", "country": "uk"}, {"user": "bo", "country": "se"}]
            ),
            on="user",
        ),
        pa.schema([("user", pa.string()), ("page", pa.string())]),
        [
            {"user": "ada", "page": "home"},
            {"user": "eve", "page": "home"},
            {"user": "bo", "page": "about"},
        ],
    ),
    {
        "out": [
            {"user": "ada", "page": "home", "country": "uk"},
            {"user": "eve", "page": "home", "country": None},
            {"user": "bo", "page": "about", "country": "se"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rheos.core.connectors.lookup import Lookup, LookupContext
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import (
    ASKS_OUTSIDE,
    AsyncOperator,
    Operator,
    OperatorContext,
    Out,
    Restored,
    SplitSpec,
    StartedWork,
)
from rheos.core.operators.lookup_calls import (
    Call,
    FoundBlock,
    Key,
    KnownRows,
    LookupCalls,
    Numbers,
    spans,
)
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.types import read_column
from rheos.core.redaction import redacted


@dataclass(frozen=True)
class LookupSpec(SplitSpec):
    """Spec of `lookup`: adds columns from the rows of an external system."""

    lookup: Lookup
    on: tuple[str, ...]
    """Columns of the stream, one for each key of the lookup."""
    columns: tuple[tuple[str, str], ...]
    """Added columns, each with the lookup's column that it is read from."""
    how: Literal["left", "inner"]
    cache_for_ms: int
    """Duration for which a result is cached; 0: only for the rows that wait for it."""
    cache_keys: int
    """Maximum number of cached keys."""
    retry_for_ms: int

    kind: ClassVar[str] = "lookup"
    begins_chain: ClassVar[bool] = True

    @property
    def looks_up(self) -> Lookup:
        return self.lookup

    def with_lookup(self, lookup: Lookup) -> LookupSpec:
        return replace(self, lookup=lookup)

    def operator(self, ctx: OperatorContext) -> Operator:
        return LookupOperator(ctx, self)

    def lookup_keys(self, schema: pa.Schema) -> pa.Schema:
        names = zip(self.lookup.keys, self.on, strict=True)
        return pa.schema([schema.field(on).with_name(key).with_nullable(False) for key, on in names])

    def summary(self) -> str:
        return redacted(f"{self.how}, by {', '.join(self.on)}: {self.lookup.describe()}")

    def differs_elsewhere(self) -> Sequence[str]:
        return (ASKS_OUTSIDE,)


class LookupOperator(AsyncOperator):
    """Requests missing rows through `LookupCalls`, and joins the results."""

    def __init__(self, ctx: OperatorContext, spec: LookupSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._known = KnownRows(spec.cache_keys, spec.cache_for_ms * 1000)
        self._calls: LookupCalls | None = None

    def open(self, restored: Restored) -> None:
        ctx, spec = self.ctx, self._spec
        keys = spec.lookup_keys(ctx.ports[0].schema)
        self._calls = LookupCalls(
            spec.lookup.open(LookupContext(ctx.name, ctx.subtask, keys, ctx.clock)),
            spec.lookup.schema,
            self._known,
            retry_for_us=spec.retry_for_ms * 1000,
            clock=ctx.clock,
            io=ctx.io,
            count=ctx.count,
        )

    def away_ms(self) -> float:
        return 0.0 if self._calls is None else self._calls.failing_ms()

    def begin(self, port: int, batch: Batch) -> StartedWork:
        assert self._calls is not None
        places, distinct = _distinct([batch.column(name) for name in self._spec.on])
        on = pa.RecordBatch.from_arrays(distinct, names=self._spec.on)
        keys: list[Key] = list(zip(*(_key_values(on, name) for name in self._spec.on), strict=True))
        self._known.forget(self.ctx.clock.monotonic_us())
        blocks: list[FoundBlock | None] = [self._known.get(key) for key in keys]
        missing = [at for at, block in enumerate(blocks) if block is None]
        self.ctx.count("cache_hits", len(keys) - len(missing))
        waits: Sequence[Call] = ()
        if missing:
            names = list(self._spec.lookup.keys)
            wanted = pa.RecordBatch.from_arrays(distinct, names=names).take(pa.array(missing))
            waits = self._calls.want([keys[at] for at in missing], wanted)
        return _LookupWork(self, self._calls, places, keys, blocks, waits)

    def joined(
        self, batch: Batch, places: Numbers, found: Sequence[tuple[FoundBlock, Key]]
    ) -> Iterator[Out]:
        """Yield the rows joined with their results. Row i has the key of `found` at `places[i]`; -1
        means that nothing was found."""
        output = self.ctx.outputs.get(MAIN)
        if output is None or not batch.num_rows:
            return
        begins = np.zeros(len(found) + 1, np.int64)
        counts = np.zeros(len(found) + 1, np.int64)
        found_rows = pa.RecordBatch.from_pylist([], self._spec.lookup.schema)
        if found:
            found_rows, begins[:-1], counts[:-1] = spans(found)
        # The last place, -1, belongs to the rows without a key.
        begin, count = begins[places], counts[places]
        repeats = count if self._spec.how == "inner" else np.maximum(count, 1)
        if (repeats == 1).all():
            right, there = begin, count > 0
        else:
            left = np.repeat(np.arange(len(places)), repeats)
            within = np.arange(len(left)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            right, there = begin[left] + within, count[left] > 0
            batch = batch.take(pa.array(left))
        taken = pa.array(right, mask=~there)
        new = {name: found_rows.column(of).take(taken) for name, of in self._spec.columns}
        columns = [new[f.name] if f.name in new else batch.column(f.name) for f in output.schema]
        result = pa.RecordBatch.from_arrays(columns, schema=output.schema)
        for start in range(0, result.num_rows, self.ctx.batch_rows):
            yield Out(result.slice(start, self.ctx.batch_rows))

    def close(self) -> None:
        if self._calls is not None:
            calls, self._calls = self._calls, None
            calls.close()


class _LookupWork(StartedWork):
    """Work on a batch while its keys are looked up."""

    def __init__(
        self,
        operator: LookupOperator,
        calls: LookupCalls,
        places: Numbers,
        keys: Sequence[Key],
        blocks: list[FoundBlock | None],
        waits: Sequence[Call],
    ) -> None:
        self._operator = operator
        self._calls = calls
        self._places = places
        self._keys = keys
        self._blocks = blocks
        """Blocks of the cached keys."""
        self._waits = waits

    def ready(self) -> bool:
        self._calls.advance()
        return all(call.block is not None for call in self._waits)

    def wake_after_us(self) -> int | None:
        return self._calls.wake_after_us()

    def finish(self, batch: Batch) -> Iterator[Out]:
        keys = zip(self._keys, self._blocks, strict=True)
        found = [(known or self._fetched(key), key) for key, known in keys]
        return self._operator.joined(batch, self._places, found)

    def _fetched(self, key: Key) -> FoundBlock:
        block = next(call.block for call in self._waits if key in call.keys)
        assert block is not None, "a batch is finished when it is ready"
        return block


def _key_values(keys: Batch, name: str) -> Sequence[Any]:
    values = read_column(keys, name)
    return [tuple(each) for each in values] if _has_lists(keys.schema.field(name).type) else values


def _has_lists(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(kind) for check in checks)


def _distinct(columns: Sequence[pa.Array]) -> tuple[Numbers, list[pa.Array]]:
    """Return the distinct combinations without a null, as columns. Also return for each row the number
    of its combination, or -1. Equal lists may have several numbers."""
    rows = len(columns[0])
    encoded = [_encoded(column) for column in columns]
    null = np.zeros(rows, np.bool_)
    codes = np.zeros(rows, np.int64)
    for indices, dictionary in encoded:
        null |= indices < 0
        codes = codes * max(len(dictionary), 1) + indices
    if len(encoded) == 1:
        return codes, [encoded[0][1]]
    _, first, inverse = np.unique(codes[~null], return_index=True, return_inverse=True)
    places = np.full(rows, -1, np.int64)
    places[~null] = inverse
    of_rows = np.flatnonzero(~null)[first]
    return places, [d.take(pa.array(indices[of_rows])) for indices, d in encoded]


def _encoded(column: Any) -> tuple[Numbers, pa.Array]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _has_lists(column.type):
        # Arrow encodes no lists.
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(valid, np.cumsum(valid) - 1, -1), column.drop_null()
    encoded = column.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary
