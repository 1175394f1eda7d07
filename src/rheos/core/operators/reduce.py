"""`reduce`: combines the records of a key, one by one; each input gives the combined record so far.

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

from collections.abc import Iterator, Sequence
from typing import Any

from rheos.core.graph.nodes import MAIN, ReduceSpec
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.keyed_state import KeyedStateOperator, make_backend
from rheos.core.operators.records import UserRaised, hidden_column, user_error, with_hidden, wrong_type
from rheos.core.protocol.elements import SWM, TS, WM, Batch
from rheos.core.protocol.types import RecordCollector, TypeMismatch, row_type, rows_of
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.stores import ABSENT

REDUCED = "reduced"


class ReduceOperator(KeyedStateOperator):
    """State is the combined record of each key. The first record of a key is given as it is.

    The function may change its first argument and give it back.
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

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, rows = self._codec.of(batch), rows_of(batch, self._record)
        made, stride = self._made, self.backend.stride
        for first in range(0, len(keys), stride):
            self._combine(keys[first : first + stride], rows[first : first + stride])
        if MAIN in self.ctx.outputs and rows:
            try:
                shown = made.batch()
            except TypeMismatch as error:
                at = error.index
                raise wrong_type(self.ctx, error, record=rows[at], key=keys[at]) from None
            schema = self.ctx.outputs[MAIN].schema
            hidden = (hidden_column(batch, name) for name in (TS, WM, SWM))
            yield Out(with_hidden(shown, schema, *hidden))
        made.clear()

    def _combine(self, keys: Sequence[Key], rows: Sequence[Any]) -> None:
        self.backend.prepare(keys)
        values, fetch, add = self._state.values, self._state.fetch, self._made.add
        fn, record_type = self._fn, self._record or self._row
        # What was begun is kept also where the function fails: the attempt ends there.
        self._state.dirty.update(keys)
        for key, row in zip(keys, rows, strict=True):
            before = values.get(key, ABSENT)
            if before is ABSENT:
                before = fetch(key)
            if before is ABSENT:
                combined = row
            else:
                try:
                    combined = fn(before, row)
                except UserRaised as error:
                    raise user_error(self.ctx, error, record=row, key=key) from error
                if combined.__class__ is not record_type:
                    combined = self._fitting(combined, row, key)
            values[key] = combined
            add(combined)

    def _fitting(self, combined: Any, row: Any, key: Any) -> Any:
        """What the function gave, as a record of the stream. Raises UserFunctionError."""
        record = self._record
        if record is not None and isinstance(combined, record):
            return combined
        try:
            if record is None:
                return self._row._make(self._made.values(combined))
        except (AttributeError, KeyError, TypeError):
            pass
        mismatch = self._made.mismatch(0, combined)
        raise wrong_type(self.ctx, mismatch, record=row, key=key)
