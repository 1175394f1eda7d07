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

from rheos.core.graph.nodes import Order
from rheos.core.operators.broadcast_process import METHODS
from rheos.core.operators.calls import ContextWithoutKey
from rheos.core.operators.co_process import Records, spelled
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.keyed_core import KeyedCore, function_shapes
from rheos.core.operators.keyed_function import KeyedFunctionOperator, KeyedFunctionSpec
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.records import HiddenColumns
from rheos.core.operators.rows_by_time import rows_by_time
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.protocol.types import rows_of
from rheos.core.state.unkeyed_state import UnkeyedStates, unkeyed_shapes


@dataclass(frozen=True)
class KeyedBroadcastProcessSpec(KeyedFunctionSpec):
    """A KeyedBroadcastProcessFunction, called for the rows of a keyed port and of a broadcast port."""

    fn: Any
    records: Records
    side_outputs: tuple[str, ...]
    order: Order = "arrival"

    kind: ClassVar[str] = "keyed_broadcast_process"

    def operator(self, ctx: OperatorContext) -> Operator:
        return KeyedBroadcastProcessOperator(ctx, self)

    def in_batch(self, ctx: OperatorContext) -> Operator:
        return KeyedBroadcastProcessOperator(ctx, self, in_batch=True)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return function_shapes(ports[0], self.fn) | unkeyed_shapes(self.fn)

    def summary(self) -> str:
        return f"takes {spelled(self.records)}"

    def origin(self) -> Origin:
        return CallOfFunction({"process_element": 0, "process_broadcast_element": 1})


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Calls the function. Broadcast rows are processed on arrival; timers fire only among keyed
    rows."""

    _core: KeyedCore

    def __init__(
        self, ctx: OperatorContext, spec: KeyedBroadcastProcessSpec, *, in_batch: bool = False
    ) -> None:
        of_rows, of_broadcast = zip(METHODS, spec.records, strict=True)
        core = KeyedCore(ctx, spec.fn, spec.side_outputs, [of_rows])
        super().__init__(ctx, core, rows_by_time(ctx, "arrival", in_batch=in_batch))
        name, self._record = of_broadcast
        self._process = getattr(core.function, name)
        self._context = ContextWithoutKey(core)
        self._states = UnkeyedStates(core.function)
        self._unkeyed = unkeyed_shapes(spec.fn).keys()

    def open(self, restored: Restored) -> None:
        self._states.restore(restored)
        super().open({name: of for name, of in restored.items() if name not in self._unkeyed})

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if not self.ctx.ports[port].broadcast:
            yield from super().on_rows(port, batch)
            return
        rows = rows_of(batch, self._record)
        self._states.set_writable(True)
        yield from self._core.deliver_without_key(
            self._process, self._context, rows, HiddenColumns.of(batch)
        )
        self._states.set_writable(False)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        snapshot.parts += self._states.parts()
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*super().savepoint(snapshot), *self._states.parts()]
