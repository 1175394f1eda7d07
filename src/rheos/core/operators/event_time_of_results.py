"""`with_event_time` downstream of an exchange: assigns another event time to the results of operators.

The rows of a split do not arrive in their order, so the new times alone cannot advance event time. But
each row already has an event time: that of the row, timer or window that produced it. The new time may
be up to `bound` earlier. So the new watermark is the old one minus the bound, and a row whose new time
is still earlier is late:

    old time       10    20    30    40        bound 5
    new time        8    20    22    60
                                late           22 < 30 - 5

A row that was late before remains late, unless its new time is later than the watermark of its split
minus the bound.

```python
came = check_example(
    OperatorExample(
        lambda clicks: clicks.rebalance().with_event_time(
            rh.Watermark.bounded_out_of_orderness("5ms", on="sent")
        ),
        pa.schema([("page", pa.string()), ("at", pa.int64()), ("sent", pa.int64())]),
        [{"page": "home", "at": 10, "sent": 8}, {"page": "cart", "at": 20, "sent": 20}],
        on="at",
    )
)
assert sorted((row["__ts"], row["page"]) for row in came["out"]) == [(8, "home"), (20, "cart")]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, Out
from rheos.core.operators.event_time import AssignedTimeSpec
from rheos.core.operators.event_times import event_times
from rheos.core.operators.records import HiddenColumns, Stamps, with_hidden
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch, strip_hidden


@dataclass(frozen=True)
class ResultTimeSpec(AssignedTimeSpec):
    """Assigns a new event time to rows that have one, and delays the watermark by its bound."""

    kind: ClassVar[str] = "event_time_of_results"
    begins_chain: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return ResultTimeOperator(ctx, self)


class ResultTimeOperator(Operator):
    """Replaces the hidden columns of rows. It has no state."""

    def __init__(self, ctx: OperatorContext, spec: ResultTimeSpec) -> None:
        super().__init__(ctx)
        self._watermark = spec.watermark
        self.watermark_delay_ms = spec.watermark.bound_ms
        self._first = True

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        times = event_times(batch, self._watermark, first=self._first)
        self._first = False
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        before = HiddenColumns.of(batch)
        assert before.stamps is not None, "the program was checked when it was built"
        marks = before.stamps - 1
        if before.marks is not None:
            marks = np.maximum(marks, before.marks)
        reached = None if before.reached is None else self._delayed(before.reached)
        hidden = HiddenColumns(times, self._delayed(marks), reached)
        yield Out(with_hidden(strip_hidden(batch), output.schema, hidden))

    def _delayed(self, marks: Stamps) -> Stamps:
        return np.maximum(marks - self.watermark_delay_ms, MIN_TIMESTAMP_MS)
