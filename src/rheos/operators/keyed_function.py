"""What operators with a keyed function share: rows of keyed ports, timers, snapshots, the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rheos.operators.contract import OperatorContext, Out, Restored
from rheos.operators.keyed import KeyedCore
from rheos.operators.keyed_state import KeyedStateOperator
from rheos.operators.process_core import ProcessCore
from rheos.operators.records import hidden_column
from rheos.operators.rows_by_time import RowsByTime
from rheos.protocol.elements import SWM, TS, WM, Batch


class KeyedFunctionOperator(KeyedStateOperator):
    """Timers fire when the watermark, or the clock, has passed them. Those of event time fire among the
    rows of a batch, too: a row finds those fired that the stream's watermark had passed before it.

    What a row's call emits has the row's timestamp and watermark; what a timer's call emits has the
    timer's time.
    """

    def __init__(self, ctx: OperatorContext, core: ProcessCore, *, by_time: bool = False) -> None:
        """`by_time`: rows of event time wait for the watermark, and come by their time, over all keyed
        ports; of one time, by port. So it is in batch, where a key's rows have no order of arrival."""
        super().__init__(ctx)
        self._core = core
        self.backend = core.backend
        timed = all(TS in port.schema.names for port in ctx.ports if port.keys)
        self._waiting = RowsByTime() if by_time and timed else None

    def open(self, restored: Restored) -> None:
        self._core.open(restored)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._waiting is not None:
            self._core.codecs[port].refuse_nulls(batch)
            self._waiting.add(port, batch)
            return
        hidden = (hidden_column(batch, name) for name in (TS, WM, SWM))
        yield from self._core.deliver_batch(port, batch, *hidden)

    def _deliver_waiting(self, waiting: RowsByTime, until_ms: int) -> Iterator[Out]:
        core = self._core
        assert isinstance(core, KeyedCore), "functions of batches come by their time in `ordered`"
        due = waiting.take(until_ms, core.codecs, core.records)
        methods = map(core.methods.__getitem__, due.ports)

        def process(row: Any, ctx: Any) -> Any:
            return next(methods)(row, ctx)

        yield from core.deliver(process, due.keys, due.rows, due.stamps, due.marks, due.stamps - 1)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if self._waiting is not None and self._waiting:
            yield from self._deliver_waiting(self._waiting, timestamp_ms)
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

    def close_function(self) -> None:
        self._core.close_function()

    def close(self) -> None:
        self._core.close()
