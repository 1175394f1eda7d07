"""`reduce`: combines the records of a key, one by one, and emits the combined record for each input.

```python
check_example(
    OperatorExample(
        lambda bids: bids.key_by("item").reduce(lambda a, b: a if a.price >= b.price else b),
        pa.schema([("item", pa.string()), ("price", pa.int64())]),
        [{"item": "tea", "price": 3}, {"item": "tea", "price": 5}, {"item": "tea", "price": 4}],
    ),
    {
        "out": [
            {"item": "tea", "price": 3},
            {"item": "tea", "price": 5},
            {"item": "tea", "price": 5},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.render import spell_record
from rheos.core.graph.types import canonical
from rheos.core.operators.chosen_records import chosen_records
from rheos.core.operators.contract import (
    KeySpec,
    Operator,
    OperatorContext,
    OperatorSpec,
    Out,
    PortType,
)
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.operators.origins import Origin, RowsOfKey
from rheos.core.operators.records import HiddenColumns, UserRaised, user_error, with_hidden, wrong_type
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import RecordCollector, RowsOfBatch, TypeMismatch, row_type
from rheos.core.state.describe import type_shape
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.stores import ABSENT

REDUCED = "reduced"


@dataclass(frozen=True)
class ReduceSpec(KeySpec):
    """Combines two records of a key into one; emits the combined record for every input."""

    kind: ClassVar[str] = "reduce"
    prepares_state: ClassVar[bool] = True

    fn: Callable[[Any, Any], Any]
    record: type | None
    automatic: Automatic = None

    def operator(self, ctx: OperatorContext) -> Operator:
        return ReduceOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return {REDUCED: keyed_shape(ports[0], StatePurpose.VALUE, self._shape(ports[0].schema))}

    def _shape(self, schema: pa.Schema) -> TypeShape:
        """Return the shape of the combined record. Without a class, records are pickled as light rows,
        which know their columns."""
        if self.record is not None:
            return type_shape(REDUCED, self.record)
        fields = [
            FieldShape(name=field.name, type=TypeShape(name=str(canonical(field.type))))
            for field in visible(schema)
        ]
        return TypeShape(name="row", fields=fields)

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        return {} if self.record is None else {REDUCED: [self.record]}

    def origin(self) -> Origin:
        return RowsOfKey(doubt=None)

    def summary(self) -> str:
        return f"takes {spell_record(self.record)}{summary_of(self.automatic)}"

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)


class ReduceOperator(KeyedStateOperator):
    """Keeps the combined record of each key as state. It emits a key's first record unchanged.

    The function may change its first argument and return it.
    """

    def __init__(self, ctx: OperatorContext, spec: ReduceSpec) -> None:
        super().__init__(ctx)
        self._fn = spec.fn
        self._record = spec.record
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._state = self.backend.values(REDUCED, object if spec.record is None else spec.record)
        self._row: Any = row_type(port.schema)
        self._made = RecordCollector(port.type.schema, spec.record)
        self._compiled = chosen_records(ctx, spec.fn, spec.record, spec.automatic)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, stride = self._codec.of(batch), self.backend.stride
        for first in range(0, len(keys), stride):
            own, part = keys[first : first + stride], batch.slice(first, stride)
            shown = self._by_compiled(own, part)
            if shown is None:
                shown = self._by_python(own, part)
            if MAIN in self.ctx.outputs:
                schema = self.ctx.outputs[MAIN].schema
                yield Out(with_hidden(shown, schema, HiddenColumns.of(part)))

    def _by_compiled(self, keys: Sequence[Key], batch: Batch) -> Batch | None:
        """Return the combined records; None if Python must call the function."""
        found = None if self._compiled is None else self._compiled.results(keys, batch, self._stored)
        if found is None:
            return None
        shown, combined = found
        self._state.dirty.update(combined)
        self._state.values.update(combined)
        return shown

    def _stored(self, keys: Sequence[Key]) -> dict[Key, Any]:
        """Return the stored records of different keys."""
        self.backend.prepare(keys)
        values, fetch = self._state.values, self._state.fetch
        found = {key: values.get(key, ABSENT) for key in keys}
        found = {key: fetch(key) if value is ABSENT else value for key, value in found.items()}
        return {key: value for key, value in found.items() if value is not ABSENT}

    def _by_python(self, keys: Sequence[Key], batch: Batch) -> Batch:
        """Return the combined records."""
        rows, made = RowsOfBatch(batch, self._record), self._made
        self._combine(keys, rows)
        try:
            shown = made.batch()
        except TypeMismatch as error:
            at = error.index
            raise wrong_type(self.ctx, error, record=rows[at], key=keys[at]) from None
        made.clear()
        return shown

    def _combine(self, keys: Sequence[Key], rows: RowsOfBatch) -> None:
        self.backend.prepare(keys)
        values, fetch, add = self._state.values, self._state.fetch, self._made.add
        fn, record_type = self._fn, self._record or self._row
        # If the function fails, the state keeps the records combined so far: the attempt ends anyway.
        self._state.dirty.update(keys)
        try:
            for key, row in zip(keys, rows, strict=True):
                before = values.get(key, ABSENT)
                if before is ABSENT:
                    before = fetch(key)
                if before is ABSENT:
                    combined = row
                else:
                    combined = fn(before, row)
                    if combined.__class__ is not record_type:
                        given, combined = combined, self._fitting(combined)
                        if combined is ABSENT:
                            break
                values[key] = combined
                add(combined)
            else:
                return
        except UserRaised as error:
            at = len(self._made)
            raise user_error(self.ctx, error, record=rows[at], key=keys[at]) from error
        raise wrong_type(self.ctx, self._made.mismatch(0, given), record=row, key=key)

    def _fitting(self, combined: Any) -> Any:
        """Return the result as a record of the stream; ABSENT if it is not one."""
        record = self._record
        if record is not None:
            return combined if isinstance(combined, record) else ABSENT
        try:
            return self._row._make(self._made.values(combined))
        except (AttributeError, KeyError, TypeError):
            return ABSENT
