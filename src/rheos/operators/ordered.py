"""`process(order="event_time")`: rows are held until the watermark passes, then delivered in order.

The order is by event time; rows of one time by the whole row, column by column. Event-time timers
stand in the same order: one at T fires after all rows at or before T and before all later ones. So what
a key's function sees depends on the data alone.

A row is late when its timestamp is at or before the watermark that its own split had reached. Late rows
are not delivered; they are counted, and go to the side output `late`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.graph.nodes import ProcessSpec
from rheos.operators.contract import OperatorContext, Out, Restored
from rheos.operators.process import ProcessOperator
from rheos.operators.sorting import sort_rows
from rheos.protocol.elements import TS, WM, Batch
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.protocol.types import rows_of
from rheos.state.key_groups import NullKeyError, key_groups

LATE = "late"
HELD = "held"


class OrderedProcessOperator(ProcessOperator):
    """Holds rows as Arrow batches; only what the watermark has passed is sorted."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec) -> None:
        super().__init__(ctx, spec)
        self._schema = ctx.ports[0].schema
        self._held: list[Batch] = []

    def open(self, restored: Restored) -> None:
        super().open(restored)
        for table in restored.get(HELD, ()):
            rows = table.drop_columns(["key_group"]).cast(self._schema)
            self._held.extend(rows.to_batches())

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        try:
            self._core.codec.of(batch.slice(0, 0))
            key_groups(batch, self.ctx.ports[0].keys, self.ctx.max_parallelism)
        except NullKeyError as error:
            raise error.located_in(batch, self.ctx.ports[0].keys) from None
        timestamps = batch.column(TS).to_numpy()
        late = timestamps <= batch.column(WM).to_numpy()
        purged = ~late & (timestamps <= self._core.watermark_ms)
        if late.any() or purged.any():
            self.ctx.count("late", int(late.sum()))
            if purged.any():
                self.ctx.count("late_purged", int(purged.sum()))
            yield from self._late(batch, late | purged)
            batch = batch.filter(pa.array(~(late | purged)))
        if batch.num_rows:
            self._held.append(batch)

    def _late(self, batch: Batch, late: npt.NDArray[np.bool_]) -> Iterator[Out]:
        if LATE in self.ctx.outputs:
            schema = self.ctx.outputs[LATE].schema
            rows = batch.filter(pa.array(late)).select(schema.names)
            yield Out(rows.cast(schema), LATE)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        self._core.watermark_ms = timestamp_ms
        due = self._take_due(timestamp_ms)
        if due is not None:
            yield from self._deliver(due)
        yield from self._core.fire_event_timers(timestamp_ms)

    def _take_due(self, timestamp_ms: int) -> Batch | None:
        """The held rows that the watermark has passed, in order."""
        due: list[Batch] = []
        rest: list[Batch] = []
        for batch in self._held:
            passed = batch.column(TS).to_numpy() <= timestamp_ms
            if passed.all():
                due.append(batch)
            elif not passed.any():
                rest.append(batch)
            else:
                due.append(batch.filter(pa.array(passed)))
                rest.append(batch.filter(pa.array(~passed)))
        # Many small remainders would be filtered again at each watermark.
        self._held = rest if len(rest) < 16 else [pa.concat_batches(rest)]
        if not due:
            return None
        return sort_rows(pa.concat_batches(due), TS)

    def _deliver(self, batch: Batch) -> Iterator[Out]:
        """Rows and timers in one order; runs of rows without a timer between them go together."""
        keys = self._core.codec.of(batch)
        rows = rows_of(batch, self._spec.record)
        timestamps: list[Any] = batch.column(TS).to_pylist()
        start = 0
        while start < len(rows):
            yield from self._core.fire_event_timers(timestamps[start] - 1)
            # A row may register a timer before the next row, so rows of one time go at once.
            stop = start + 1
            while stop < len(rows) and timestamps[stop] == timestamps[start]:
                stop += 1
            self._core.process_quietly(keys[start:stop], rows[start:stop], timestamps[start:stop])
            start = stop
            if self._core.has_full_batch:
                yield from self._core.drain()
        yield from self._core.drain()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        held = tuple(self._held)
        keys = self.ctx.ports[0].keys

        def write() -> pa.Table:
            table = pa.Table.from_batches(held, self._schema)
            rows = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], self._schema)]
            groups = [key_groups(batch, keys, self.ctx.max_parallelism) for batch in rows]
            column = pa.array(np.concatenate(groups), pa.uint16())
            table = pa.Table.from_batches(rows).add_column(0, "key_group", column)
            return table.sort_by([("key_group", "ascending"), (TS, "ascending")])

        part = SnapshotPart(HELD, StateKind.KEYED, write)
        return Snapshot([*self._core.parts(), part])
