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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.compiler.constants import DTYPES
from rheos.core.compiler.kernel import TIMERS, Loop, Typing, compiled_loop, loops_of
from rheos.core.compiler.scope import Role
from rheos.core.compiler.values import EmittedType, Kind
from rheos.core.compiler.writer import OutputColumns, Parameter
from rheos.core.errors import RheosError, Site, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.calls import Timer as FiredTimer
from rheos.core.operators.columnar_core import ColumnarCore, Delivery, DueTimers
from rheos.core.operators.contract import OperatorContext, Out, OutputType, PortType, Restored
from rheos.core.operators.records import HiddenColumns, Stamps
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch, visible
from rheos.core.protocol.types import TypeMismatch, rows_of
from rheos.core.safe_strings import named_error, shown
from rheos.core.state.columnar.expiring import ExpiringColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.slots import Slots

if TYPE_CHECKING:
    from rheos.core.compiler.python_calls import PythonCalls
    from rheos.core.operators.keyed_core import KeyedCore
    from rheos.core.operators.process import ProcessSpec

Filled = dict[str, npt.NDArray[Any]]

_SMALLEST = 256
_RESULTS = 2
"""Position of the first output among a loop's results. The next row and the number of timer changes
come before it."""


@dataclass(frozen=True)
class CompiledCode:
    """The loops of a function, and the strings whose codes they contain."""

    texts: StringCodes
    loops: Mapping[Role, Loop]

    def holds(self) -> bool:
        """Return whether everything that the function reads from outside still has the values that were
        compiled into the loops."""
        return all(constant.holds() for loop in self.loops.values() for constant in loop.constants)


def code_of(function: Any, methods: dict[str, MethodText], typing: Typing) -> CompiledCode:
    """Write the loops of a function. Raise CannotCompile, with the file."""
    texts = StringCodes()
    return CompiledCode(texts, loops_of(function, methods, typing, texts))


class CompiledCore(ColumnarCore):
    """Passes columns to compiled loops, without creating records."""

    def __init__(
        self,
        ctx: OperatorContext,
        spec: ProcessSpec,
        code: CompiledCode,
        python: KeyedCore | None = None,
    ) -> None:
        super().__init__(ctx, spec, code.texts, python)
        self._record = spec.record
        self._loops = {
            role: _Running(loop, ctx.program.code_folder, code.texts)
            for role, loop in code.loops.items()
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
        running = self._loops["rows"]
        inputs = _Inputs(self, batch, delivery.slots, delivery.event_times)
        if stamps is None:
            stamps = np.zeros(batch.num_rows, np.int64)
        if reached is None:
            reached = np.full(batch.num_rows, MIN_TIMESTAMP_MS, np.int64)
        made = running.run(inputs, start, stop, self, MIN_TIMESTAMP_MS, stamps, reached)
        if running.failed:
            row = rows_of(batch.slice(running.next, 1), self._record)[0]
            raise self._failure(running, row, delivery.slots[running.next])
        outs = list(self._emitted(running, made, batch, delivery.hidden))
        self._change_timers(running, made)
        return running.next, outs

    def _call_timers(self, due: DueTimers) -> tuple[int, list[Out]]:
        """Return the number of called timers, and their output."""
        running = self._loops.get("timers")
        if running is None:
            return len(due.timers), []
        inputs = _Inputs(self, None, due.slots, due.event_times)
        hidden = due.hidden()
        assert hidden.reached is not None
        made = running.run(inputs, 0, len(due.timers), self, due.until_ms, due.times, hidden.reached)
        if running.failed:
            fired = FiredTimer(due.timers[running.next][0])
            raise self._failure(running, fired, due.slots[running.next])
        outs = list(self._emitted(running, made, None, hidden))
        self._change_timers(running, made)
        return running.next, outs

    def _change_timers(self, running: _Running, made: Filled) -> None:
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

    def _failure(self, running: _Running, record: Any, slot: Any) -> RheosError:
        failure = running.loop.failures[running.failed - 1]
        what = failure.what
        if not what:
            assert running.python is not None
            what = named_error(running.python.raised())
        return UserFunctionError(
            what,
            site=Site(failure.file or running.loop.file, failure.line),
            operator=self.ctx.name,
            record=shown(record),
            key=shown(self.state.keys.listed()[int(slot)]),
            hint=failure.hint or "correct the function, or filter out such records upstream",
        )

    # --- outputs --------------------------------------------------------------------------------------

    def _emitted(
        self, running: _Running, made: Filled, batch: Batch | None, hidden: HiddenColumns
    ) -> Iterator[Out]:
        by_tag: dict[str, list[tuple[Stamps, Stamps, Batch]]] = {}
        for output, count in zip(running.loop.outputs, running.counts, strict=True):
            if count and output.tag in self.ctx.outputs:
                calls = made[f"o{output.number}_calls"][:count]
                order = made[f"o{output.number}_order"][:count]
                columns = self._columns(output, made, count, calls, batch)
                by_tag.setdefault(output.tag, []).append((order, calls, columns))
        for tag, parts in by_tag.items():
            order, calls, columns = parts[0]
            if len(parts) > 1:
                # Several places in the function emit to this output: sort by the order of emission.
                orders = np.concatenate([part[0] for part in parts])
                place = np.argsort(orders)
                calls = np.concatenate([part[1] for part in parts])[place]
                columns = pa.concat_batches([part[2] for part in parts]).take(pa.array(place))
            yield from self._batches(tag, columns, hidden.at(calls))

    def _columns(
        self,
        output: OutputColumns,
        made: Filled,
        count: int,
        calls: Stamps,
        batch: Batch | None,
    ) -> Batch:
        schema = visible(self.ctx.outputs[output.tag].schema)
        arrays = []
        for at, column in enumerate(output.columns):
            field = schema.field(column.name)
            taken = output.taken.get(column.name)
            if taken is not None:
                assert batch is not None
                array = batch.column(taken).take(pa.array(calls))
            else:
                values = made[f"o{output.number}_{at}"][:count]
                nulls = made[f"z{output.number}_{at}"][:count] if column.nullable else None
                array = self._array(values, nulls, column.kind)
            if array.type != field.type:
                try:
                    array = array.cast(field.type)
                except pa.ArrowException as error:
                    raise UserFunctionError(
                        f"the function returned an invalid output: field {field.name!r} should "
                        f"be {field.type}: {error}",
                        site=self.ctx.site,
                        operator=self.ctx.name,
                        hint="return the declared output type, or declare the type that is returned "
                        "(returns=)",
                    ) from None
            if array.null_count and not field.nullable:
                row = 0 if batch is None else int(calls[array.is_null().index(True).as_py()])
                record = None if batch is None else shown(rows_of(batch.slice(row, 1), self._record)[0])
                mismatch = TypeMismatch(0, field.name, str(field.type), None)
                raise UserFunctionError(
                    f"the function returned an invalid output: {mismatch}",
                    site=self.ctx.site,
                    operator=self.ctx.name,
                    record=record,
                    hint="return the declared output type, or declare the type that is returned "
                    "(returns=)",
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, values: npt.NDArray[Any], nulls: Any, kind: Kind) -> pa.Array:
        if kind == "str":
            codes = values if nulls is None else np.where(nulls, -1, values)
            return self.state.texts.array(codes)
        return pa.array(values.copy(), mask=nulls)


def typing_of(port: PortType, spec: ProcessSpec, read: Mapping[str, OutputType]) -> Typing:
    """Return the typing of the outputs. Rows of unread outputs, without known columns, are only
    checked."""
    outputs: dict[str, EmittedType | None] = dict.fromkeys((MAIN, *spec.side_outputs))
    for tag, output in read.items():
        if tag in outputs:
            outputs[tag] = EmittedType(visible(output.schema), output.type.record)
    return Typing(visible(port.schema), port.keys, spec.record, TS in port.schema.names, outputs)


class MarkedCore(CompiledCore):
    """The core of a function that is marked for compilation, which is compiled when it is opened."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, methods: dict[str, MethodText]) -> None:
        self._typing = typing_of(ctx.ports[0], spec, ctx.outputs)
        self._methods = methods
        super().__init__(ctx, spec, CompiledCode(StringCodes(), {}))

    def open(self, restored: Restored) -> None:
        super().open(restored)
        # Written now, because `open` may have set attributes that the function reads.
        texts = self.state.texts
        loops = loops_of(self.function, self._methods, self._typing, texts)
        texts.fix()
        self._loops = {
            role: _Running(loop, self.ctx.program.code_folder, texts) for role, loop in loops.items()
        }


class _Inputs:
    """The columns that a loop reads, as NumPy arrays."""

    def __init__(
        self, core: CompiledCore, batch: Batch | None, slots: Slots, event_times: Stamps | None
    ) -> None:
        self._core = core
        self._batch = batch
        self.slots = slots
        self._event_times = event_times
        self._keys: list[pa.Array] | None = None

    def of(self, parameter: Parameter, python: PythonCalls | None) -> npt.NDArray[Any]:
        match parameter.source:
            case "numbers" | "floats" | "remembered":
                assert python is not None
                return python.array(parameter)
            case "state":
                return self._core.state.columns[parameter.name].values
            case "present":
                return self._core.state.columns[parameter.name].present
            case "changed":
                return self._core.state.columns[parameter.name].changed
            case "stamps":
                column = self._core.state.columns[parameter.name]
                assert isinstance(column, ExpiringColumn)
                return column.stamps
            case "times":
                assert self._event_times is not None
                return np.require(self._event_times, np.int64, ["C", "A"])
            case "table":
                assert parameter.table is not None
                what, _, at = parameter.part.partition(" ")
                part: Any = getattr(parameter.table, what)
                found: npt.NDArray[Any] = part[int(at)] if at else part
                return found
            case "nulls":
                assert self._batch is not None
                column = self._batch.column(parameter.name)
                if not column.null_count:
                    return np.zeros(len(column), np.bool_)
                nulls: npt.NDArray[Any] = column.is_null().to_numpy(zero_copy_only=False)
                return nulls
            case "column":
                assert self._batch is not None
                return self._numpy(self._batch.column(parameter.name), parameter.kind)
            case "key":
                if self._keys is None:
                    self._keys = self._core.state.keys.columns(self.slots)
                return self._numpy(self._keys[int(parameter.name)], parameter.kind)

    def _numpy(self, column: pa.Array, kind: Kind) -> npt.NDArray[Any]:
        if kind == "str":
            return self._core.state.texts.of_column(column)
        if column.null_count:
            column = column.fill_null(False if kind == "bool" else 0)
        values = column.to_numpy(zero_copy_only=False)
        found: npt.NDArray[Any] = np.require(values, DTYPES[kind], ["C", "A"])
        return found


class _Running:
    """A compiled loop, and the arrays that it fills."""

    def __init__(self, loop: Loop, folder: str | None, texts: StringCodes) -> None:
        from rheos.core.compiler.python_calls import PythonCalls  # Imports numba.

        self.loop = loop
        self.python = PythonCalls(loop.operations, texts) if loop.operations else None
        self._call = compiled_loop(loop, folder)
        self._made: Filled = {
            name: np.empty(_SMALLEST, DTYPES[kind]) for name, kind in loop.columns().items()
        }
        self._grown = loop.grown()
        self._failed = np.zeros(1, np.int64)
        self._result = np.zeros(_RESULTS + len(loop.outputs), np.int64)

    @property
    def failed(self) -> int:
        """Number of the failure of the row at `next`; 0 if it has not failed."""
        return int(self._failed[0])

    @property
    def next(self) -> int:
        return int(self._result[0])

    @property
    def timers(self) -> int:
        return int(self._result[1])

    @property
    def counts(self) -> list[int]:
        found: list[int] = self._result[_RESULTS:].tolist()
        return found

    def run(
        self,
        inputs: _Inputs,
        start: int,
        stop: int,
        core: CompiledCore,
        until_ms: int,
        stamps: Stamps,
        reached: Stamps,
    ) -> Filled:
        """Run the loop and return its output: the next call reuses the same columns."""
        given = [inputs.of(parameter, self.python) for parameter in self.loop.parameters.values()]
        times = [np.require(each, np.int64, ["C", "A"]) for each in (stamps, reached)]
        slots = np.require(inputs.slots, np.int32, ["C", "A"])
        fixed = (start, stop, core.watermark_ms, core.scope.processing_time, until_ms)
        self._make_room(stop - start)
        filled = self._call(
            *fixed, self._failed, self._result, slots, *times, *given, *self._made.values()
        )
        if self._grown:
            self._made.update(zip(self._grown, filled, strict=True))
        return self._made

    def _make_room(self, calls: int) -> None:
        for name, column in self._made.items():
            needed = calls * (self.loop.timer_changes if name in TIMERS else 1)
            if needed > len(column):
                self._made[name] = np.empty(needed, column.dtype)
