"""`connect` of a keyed stream and a broadcast one: a function with keyed state, timers, and broadcast
state, which every subtask holds.

Rows of the broadcast port have no key and change no keyed state. Otherwise, after a rescale, they would
have changed some keys twice and others not at all (EX17).

```python
class Alarm(rh.KeyedBroadcastProcessFunction):
    most = rh.BroadcastState(str, int)
    n = rh.ValueState(int, default=0)

    def process_element(self, click, ctx: rh.KeyedContext):
        self.n.value += 1
        ctx.timers.register(10)

    def process_broadcast_element(self, limit, ctx: rh.ProcessContext):
        self.most[limit.name] = limit.most

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext):
        if self.n.value > self.most["clicks"]:
            yield {"user": ctx.key, "clicks": self.n.value}

check_example(
    OperatorExample(
        lambda clicks, limits: clicks.key_by("user")
        .connect(limits.broadcast())
        .process(Alarm(), returns={"user": str, "clicks": int}),
        pa.schema([("user", pa.string()), ("at", pa.int64())]),
        [
            {"user": "a", "at": 1},
            Right({"name": "clicks", "most": 5}),
            {"user": "a", "at": 2},
            {"user": "b", "at": 3},
            Right({"name": "clicks", "most": 1}),
            WatermarkMark(12),
        ],
        on="at",
        right=pa.schema([("name", pa.string()), ("most", pa.int64())]),
    ),
    {"out": [{"user": "a", "clicks": 2}]},
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rheos.core.graph.nodes import Order
from rheos.core.operators.broadcast_process import METHODS, discard
from rheos.core.operators.calls import ContextWithoutKey
from rheos.core.operators.co_process import Records, spelled
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.due_rows import Due, part, runs
from rheos.core.operators.keyed_core import KeyedCore, Takes
from rheos.core.operators.keyed_function import KeyedFunctionOperator, KeyedFunctionSpec
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.records import HiddenColumns
from rheos.core.operators.rows_by_time import (
    TO_SIDE_OUTPUT,
    LateByPort,
    RowsByTime,
    rows_by_time,
)
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.protocol.types import rows_of
from rheos.core.state.scope import NO_KEY
from rheos.core.state.unkeyed_state import UnkeyedStates, unkeyed_shapes


@dataclass(frozen=True)
class KeyedBroadcastProcessSpec(KeyedFunctionSpec):
    """A KeyedBroadcastProcessFunction, called for the rows of a keyed port and of a broadcast port."""

    fn: Any
    records: Records
    side_outputs: tuple[str, ...]
    order: Order = "arrival"
    late: LateByPort = TO_SIDE_OUTPUT

    kind: ClassVar[str] = "keyed_broadcast_process"

    @property
    def takes(self) -> Takes:
        return [(METHODS[0], self.records[0])]

    def operator(self, ctx: OperatorContext) -> Operator:
        return KeyedBroadcastProcessOperator(ctx, self, self._waiting(ctx))

    def in_batch(self, ctx: OperatorContext) -> Operator:
        return BatchKeyedBroadcastOperator(ctx, self, self._waiting(ctx, in_batch=True))

    def _waiting(self, ctx: OperatorContext, *, in_batch: bool = False) -> RowsByTime | None:
        if self.order == "event_time":
            return RowsByTime(ctx, self.late, all_ports=True, rewinds=in_batch)
        return rows_by_time(ctx, self.order, in_batch=in_batch)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return super().states(ports) | unkeyed_shapes(self.fn)

    @property
    def aligns(self) -> bool:
        return self.order == "event_time"

    def summary(self) -> str:
        held = ", in event-time order" if self.order == "event_time" else ""
        return f"takes {spelled(self.records)}{held}"

    def origin(self) -> Origin:
        return CallOfFunction({"process_element": 0, "process_broadcast_element": 1})


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Calls the function. In the order of arrival, broadcast rows are processed at once, and timers
    fire only among keyed rows. In the order of event time, timers fire before later rows of either
    port."""

    _core: KeyedCore

    def __init__(
        self, ctx: OperatorContext, spec: KeyedBroadcastProcessSpec, waiting: RowsByTime | None
    ) -> None:
        core = KeyedCore(ctx, spec.fn, spec.side_outputs, spec.takes)
        super().__init__(ctx, core, waiting)
        self._ordered = spec.order == "event_time"
        self._record = spec.records[1]
        self._process = getattr(core.function, METHODS[1])
        self._context = ContextWithoutKey(core)
        self._states = UnkeyedStates(core.function)
        self._unkeyed = unkeyed_shapes(spec.fn).keys()

    def open(self, restored: Restored) -> None:
        self._states.restore(restored)
        super().open({name: of for name, of in restored.items() if name not in self._unkeyed})

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._ordered or not self.ctx.ports[port].broadcast:
            yield from super().on_rows(port, batch)
        else:
            yield from self._deliver_broadcast(Due(port, batch, HiddenColumns.of(batch)))

    def _deliver_broadcast(self, due: Due) -> Iterator[Out]:
        rows = rows_of(due.rows, self._record)
        self.backend.scope.key = NO_KEY
        self._states.set_writable(True)
        yield from self._core.deliver_without_key(self._process, self._context, rows, due.hidden)
        self._states.set_writable(False)

    def _deliver_due(self, due: Sequence[Due]) -> Iterator[Out]:
        for run in runs(due):
            if self.ctx.ports[run.port].broadcast:
                yield from self._deliver_among_timers(run)
            else:
                yield from self._core.deliver_batch(*run)

    def _deliver_among_timers(self, run: Due) -> Iterator[Out]:
        """Call the function for broadcast rows, each after the timers that are due before it."""
        reached = run.hidden.reached
        assert reached is not None
        start = 0
        while start < len(reached):
            yield from self._core.fire_event_timers(int(reached[start]))
            next_ms = self._core.timers.event.next_ms()
            stop = len(reached) if next_ms is None else int(np.searchsorted(reached, next_ms))
            stop = max(stop, start + 1)
            yield from self._deliver_broadcast(part(run, start, stop))
            start = stop

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        snapshot.parts += self._states.parts()
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*super().savepoint(snapshot), *self._states.parts()]


class BatchKeyedBroadcastOperator(KeyedBroadcastProcessOperator):
    """The operator in the batch runtime. In the order of event time, all broadcast rows are delivered
    anew for each set of keys."""

    _first = True
    """Whether the broadcast rows have not been delivered yet."""

    def _deliver_broadcast(self, due: Due) -> Iterator[Out]:
        if self._first:
            yield from super()._deliver_broadcast(due)
        else:
            discard(super()._deliver_broadcast(due))

    def next_keys(self) -> None:
        super().next_keys()
        if self._ordered and self._waiting is not None:
            self._first = False
            self._states.forget_broadcast()
            self._waiting.rewind()

    def on_end(self) -> Iterator[Out]:
        if self._ordered and self._waiting is not None and self._first:
            # The task has had no key.
            yield from self._deliver_due(self._waiting.take_due(MAX_TIMESTAMP_MS))
        yield from super().on_end()
