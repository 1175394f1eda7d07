"""`process`: a keyed function with state and timers, called for each row in the order of arrival.

```python
class Visits(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, click, ctx: rh.KeyedContext):
        self.n.value += 1
        if self.n.value == 1:
            ctx.timers.register(ctx.timestamp + 10)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext):
        yield {"user": ctx.key, "ended": timestamp, "clicks": self.n.value}
        self.n.clear()


check_example(
    OperatorExample(
        lambda clicks: clicks.key_by("user").process(
            Visits(), returns={"user": str, "ended": int, "clicks": int}
        ),
        pa.schema([("user", pa.string()), ("at", pa.int64())]),
        [
            {"user": "a", "at": 1},
            {"user": "b", "at": 2},
            {"user": "a", "at": 7},
            WatermarkMark(20),
            {"user": "a", "at": 30},
        ],
        on="at",
    ),
    {
        "out": [
            {"user": "a", "ended": 11, "clicks": 2},
            {"user": "b", "ended": 12, "clicks": 1},
            {"user": "a", "ended": 40, "clicks": 1},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator

from rheos.graph.nodes import ProcessSpec
from rheos.operators.contract import OperatorContext, Out, Restored
from rheos.operators.keyed import KeyedCore
from rheos.operators.keyed_state import KeyedStateOperator
from rheos.operators.records import hidden_column
from rheos.protocol.elements import SWM, TS, WM, Batch
from rheos.protocol.types import rows_of


class ProcessOperator(KeyedStateOperator):
    """Timers fire when the watermark, or the clock, has passed them. Those of event time fire among the
    rows of a batch, too: a row finds those fired that the stream's watermark had passed before it.

    What a row's call emits has the row's timestamp and watermark; what a timer's call emits has the
    timer's time.
    """

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._core = KeyedCore(ctx, spec)
        self.backend = self._core.backend

    def open(self, restored: Restored) -> None:
        self._core.open(restored)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys = self._core.codec.of(batch)
        rows = rows_of(batch, self._spec.record)
        hidden = (hidden_column(batch, name) for name in (TS, WM, SWM))
        yield from self._core.deliver(keys, rows, *hidden)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        # Rows may have brought a later watermark than the marks of all channels.
        self._core.watermark_ms = max(self._core.watermark_ms, timestamp_ms)
        yield from self._core.fire_event_timers(timestamp_ms)

    def next_processing_time_ms(self) -> int | None:
        return self._core.timers.processing.next_ms()

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        yield from self._core.fire_processing_timers(now_ms)

    def next_keys(self) -> None:
        self._drop_pending()
        self._core.next_keys()

    def on_end(self) -> Iterator[Out]:
        self._drop_pending()
        return iter(())

    def _drop_pending(self) -> None:
        pending = self._core.timers.processing
        if len(pending):
            self.ctx.count("dropped_processing_timers", len(pending))
            pending.clear()

    def close(self) -> None:
        self._core.close()
