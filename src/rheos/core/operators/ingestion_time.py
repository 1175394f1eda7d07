"""Ingestion time: the event time of a row is the time at which its source read it.

Requirement: all splits of a subtask use one clock, and it never goes back. A row gets its time when it
is read, so no later row has an earlier time. So the watermark is the time of the clock minus 1 ms,
independent of the splits' rows. No split holds it back, and no row is late.

The latest clock reading is state. A restored job may run on another machine, whose clock is slower. It
continues from the stored reading, because downstream operators have seen that time. Rows after the
checkpoint are read again, with new times. Each row still counts once, in the window of its newest time.

```python
def build(env):
    clicks = env.from_source(
        rh.collection([{"page": "home", "at": at} for at in (20, 10, 30)]),
        watermark=rh.Watermark.ingestion_time(),
    )
    counts = clicks.key_by("page").window(rh.Tumbling("1s")).aggregate(n=rh.agg.count())
    return {"counts": counts, "late": counts.side_output("late")}

done = simulate(build)
assert sum(done.rows["counts"]["n"].to_pylist()) == 3
assert done.rows["late"].num_rows == 0
```
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import Restored
from rheos.core.operators.split_event_time import SplitEventTime
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ports import Clock
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.times import Times

INGESTED = "ingestion time"
"""Name of the state."""

_STATE = pa.schema([pa.field("reached_ms", pa.int64(), nullable=False)])
_PERIOD_MS = 200
"""Interval at which an idle source reports that time has passed."""


class IngestionTime(SplitEventTime):
    """Ingestion time of the rows of one subtask."""

    period_ms = _PERIOD_MS
    clock_ms: int

    def __init__(self, clock: Clock, watermark: Watermark) -> None:
        super().__init__(watermark)
        self._clock = clock
        self.clock_ms = MIN_TIMESTAMP_MS

    def look(self) -> None:
        self.clock_ms = max(self.clock_ms, self._clock.now_ms())

    def times(self, batch: Batch, *, first: bool) -> Times:
        self.look()
        return np.full(batch.num_rows, self.clock_ms, np.int64)

    def of_rows(self, split: str, batch: Batch, times: Times) -> Times:
        return times

    def periodic(self, split: str, now_ms: int) -> int:
        return self.clock_ms

    def restore(self, restored: Restored) -> None:
        reached = (ms for table in restored.get(INGESTED, ()) for ms in table.column(0).to_pylist())
        self.clock_ms = max(reached, default=MIN_TIMESTAMP_MS)

    def parts(self, splits: Iterable[str]) -> list[SnapshotPart]:
        reached_ms = self.clock_ms
        write = lambda: pa.table({"reached_ms": [reached_ms]}, schema=_STATE)  # noqa: E731
        return [SnapshotPart(INGESTED, StateKind.UNION, write)]
