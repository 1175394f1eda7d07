"""The core of compiled functions: calls the loops for rows and timers, and makes batches of their
output.

```python
@dataclass
class Reading:
    sensor: str
    degrees: float
    at: int

@dataclass
class Warm:
    sensor: str
    since: int
    until: int | None

LIMITS = {"kitchen": 25.0, "cellar": 15.0}

@rh.compiled
class Warmth(rh.KeyedProcessFunction):
    since = rh.ValueState(int)

    def process_element(self, reading: Reading, ctx: rh.KeyedContext) -> Iterator[Warm]:
        limit = LIMITS.get(reading.sensor, 20.0)
        if reading.degrees > limit and self.since.value is None:
            self.since.value = ctx.timestamp
            ctx.timers.register(ctx.timestamp + 10)
        elif reading.degrees <= limit and self.since.value is not None:
            yield Warm(reading.sensor, self.since.value, ctx.timestamp)
            ctx.timers.delete(self.since.value + 10)
            self.since.clear()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Warm]:
        yield Warm(ctx.key, timestamp - 10, None)

check_example(
    OperatorExample(
        lambda readings: readings.key_by("sensor").process(Warmth()),
        pa.schema([("sensor", pa.string()), ("degrees", pa.float64()), ("at", pa.int64())]),
        [
            {"sensor": "cellar", "degrees": 16.0, "at": 1},
            {"sensor": "kitchen", "degrees": 16.0, "at": 2},
            {"sensor": "cellar", "degrees": 14.0, "at": 8},
            WatermarkMark(9),
            {"sensor": "kitchen", "degrees": 25.5, "at": 11},
            WatermarkMark(22),
            {"sensor": "kitchen", "degrees": 20.0, "at": 32},
        ],
        on="at",
    ),
    {
        "out": [
            {"sensor": "cellar", "since": 1, "until": 8},
            {"sensor": "kitchen", "since": 11, "until": None},
            {"sensor": "kitchen", "since": 11, "until": 32},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.compiler.kernel import InputType, Typing, loops_of
from rheos.core.compiler.writer import Parameter
from rheos.core.errors import RheosError
from rheos.core.graph.compilation import MethodText
from rheos.core.operators.calls import Timer as FiredTimer
from rheos.core.operators.columnar_core import ColumnarCore, Delivery, DueTimers
from rheos.core.operators.compiled_loops import CompiledCode, Filled, LoopCalls, LoopInputs, RunningLoop
from rheos.core.operators.compiled_outputs import CompiledOutputs, emitted_types
from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.records import HiddenColumns, Stamps
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch, visible
from rheos.core.protocol.types import rows_of
from rheos.core.state.columnar.expiring import ExpiringColumn
from rheos.core.state.columnar.list_column import ListColumn
from rheos.core.state.columnar.map_column import MapColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.slots import Slots

if TYPE_CHECKING:
    from rheos.core.compiler.python_calls import PythonCalls
    from rheos.core.operators.keyed_core import KeyedCore
    from rheos.core.operators.keyed_function import KeyedFunctionSpec
    from rheos.core.operators.process import ProcessSpec


class CompiledCore(ColumnarCore):
    """Passes columns to compiled loops, without creating records."""

    def __init__(
        self,
        ctx: OperatorContext,
        spec: KeyedFunctionSpec,
        code: CompiledCode,
        python: KeyedCore | None = None,
    ) -> None:
        super().__init__(ctx, spec, code.texts, python, code.read_lists())
        self._takes = spec.takes
        schemas = {tag: visible(output.schema) for tag, output in ctx.outputs.items()}
        self._outputs = [
            CompiledOutputs(ctx, schemas, record, self.state.texts) for _, record in spec.takes
        ]
        self._loops = {
            method: RunningLoop(loop, ctx.program.code_folder, code.texts)
            for method, loop in code.loops.items()
        }

    # --- calls ----------------------------------------------------------------------------------------

    def _rows(self, delivery: Delivery, start: int, stop: int) -> Generator[Out, None, int]:
        following, outs = self._call_rows(delivery, start, stop)
        yield from outs
        return following

    def _timers(self, due: DueTimers) -> Generator[Out, None, int]:
        called, outs = self._call_timers(due)
        yield from outs
        return called

    def _call_rows(self, delivery: Delivery, start: int, stop: int) -> tuple[int, list[Out]]:
        """Return the next row, and the output of the rows before it."""
        batch, (stamps, _, reached) = delivery.batch, delivery.hidden
        method, record = self._takes[delivery.port]
        running = self._loops[method]
        inputs = _KeyedInputs(self, batch, delivery.slots, delivery.event_times)
        if stamps is None:
            stamps = np.zeros(batch.num_rows, np.int64)
        if reached is None:
            reached = np.full(batch.num_rows, MIN_TIMESTAMP_MS, np.int64)
        made = running.run(inputs, self._calls(start, stop, delivery.slots, stamps, reached))
        if running.failed:
            row = rows_of(batch.slice(running.next, 1), record)[0]
            raise self._failure(running, row, delivery.slots[running.next])
        outs = list(self._emitted(running, made, batch, delivery.hidden, delivery.port))
        self._change_timers(running, made)
        return running.next, outs

    def _call_timers(self, due: DueTimers) -> tuple[int, list[Out]]:
        """Return the number of called timers, and their output."""
        running = self._loops.get("on_timer")
        if running is None:
            return len(due.timers), []
        inputs = _KeyedInputs(self, None, due.slots, due.event_times)
        hidden = due.hidden()
        assert hidden.reached is not None
        calls = self._calls(0, len(due.timers), due.slots, due.times, hidden.reached, due.until_ms)
        made = running.run(inputs, calls)
        if running.failed:
            fired = FiredTimer(due.timers[running.next][0])
            raise self._failure(running, fired, due.slots[running.next])
        outs = list(self._emitted(running, made, None, hidden))
        self._change_timers(running, made)
        return running.next, outs

    def _calls(
        self,
        start: int,
        stop: int,
        slots: Slots,
        stamps: Stamps,
        reached: Stamps,
        until_ms: int = MIN_TIMESTAMP_MS,
    ) -> LoopCalls:
        now_ms = self.scope.processing_time
        return LoopCalls(start, stop, slots, stamps, reached, self.watermark_ms, now_ms, until_ms)

    def _change_timers(self, running: RunningLoop, made: Filled) -> None:
        count = running.timers
        if not count:
            return
        event, processing = self.timers.event, self.timers.processing
        change = (event.add, event.delete, processing.add, processing.delete)
        keys = self.state.keys.listed()
        kinds, times, slots = (
            made[name][:count].tolist() for name in ("timer_kinds", "timer_times", "timer_slots")
        )
        for kind, timestamp_ms, slot in zip(kinds, times, slots, strict=True):
            change[kind](timestamp_ms, keys[slot])

    def _failure(self, running: RunningLoop, record: Any, slot: Any) -> RheosError:
        return running.failure(self.ctx, record, self.state.keys.listed()[int(slot)])

    # --- outputs --------------------------------------------------------------------------------------

    def _emitted(
        self,
        running: RunningLoop,
        made: Filled,
        batch: Batch | None,
        hidden: HiddenColumns,
        port: int = 0,
    ) -> Iterator[Out]:
        for tag, columns, calls in self._outputs[port].made(running, made, batch):
            yield from self._batches(tag, columns, hidden.at(calls))


def typing_of(ctx: OperatorContext, spec: KeyedFunctionSpec) -> Typing:
    """Return the typing of a keyed function."""
    first, *others = [
        InputType(visible(port.schema), port.keys, record)
        for port, (_, record) in zip(ctx.ports, spec.takes, strict=False)
    ]
    outputs = emitted_types(ctx, spec.side_outputs)
    return Typing(
        first.schema,
        first.keys,
        first.record,
        TS in ctx.ports[0].schema.names,
        outputs,
        spec.form,
        second=others[0] if others else None,
    )


class MarkedCore(CompiledCore):
    """The core of a function that is marked for compilation, which is compiled when it is opened."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, methods: dict[str, MethodText]) -> None:
        self._typing = typing_of(ctx, spec)
        self._methods = methods
        super().__init__(ctx, spec, CompiledCode(StringCodes(), {}))

    def open(self, restored: Restored) -> None:
        super().open(restored)
        # Written now, because `open` may have set attributes that the function reads.
        texts = self.state.texts
        loops = loops_of(self.function, self._methods, self._typing, texts)
        texts.fix()
        self._loops = {
            method: RunningLoop(loop, self.ctx.program.code_folder, texts)
            for method, loop in loops.items()
        }


class _KeyedInputs(LoopInputs):
    """The columns, the state and the keys that a loop reads."""

    def __init__(
        self, core: CompiledCore, batch: Batch | None, slots: Slots, event_times: Stamps | None
    ) -> None:
        super().__init__(core.state.texts, batch)
        self._core = core
        self._slots = slots
        self._event_times = event_times
        self._keys: list[pa.Array] | None = None

    def of(self, parameter: Parameter, python: PythonCalls | None) -> npt.NDArray[Any]:
        match parameter.source:
            case "state":
                return self._core.state.column(parameter.name).values
            case "present":
                return self._core.state.column(parameter.name).present
            case "changed":
                return self._core.state.column(parameter.name).changed
            case "list" | "map":
                array: npt.NDArray[Any] = getattr(self._collection(parameter), parameter.part)
                return array
            case "stamps":
                column = self._core.state.column(parameter.name)
                assert isinstance(column, ExpiringColumn)
                return column.stamps
            case "times":
                assert self._event_times is not None
                return np.require(self._event_times, np.int64, ["C", "A"])
            case "key":
                if self._keys is None:
                    self._keys = self._core.state.keys.columns(self._slots)
                return self.numpy(self._keys[int(parameter.name)], parameter.kind)
        return super().of(parameter, python)

    def replace(self, parameter: Parameter, array: npt.NDArray[Any]) -> None:
        setattr(self._collection(parameter), parameter.part, array)

    def _collection(self, parameter: Parameter) -> ListColumn | MapColumn:
        state = self._core.state
        of: Mapping[str, ListColumn | MapColumn] = (
            state.lists if parameter.source == "list" else state.maps
        )
        return of[parameter.name]
