"""Runs compiled loops: gathers the arrays that a loop reads, and keeps those that it fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.compiler.constants import DTYPES, Table
from rheos.core.compiler.kernel import TIMERS, Loop, Typing, compiled_loop, loops_of
from rheos.core.compiler.values import Kind
from rheos.core.compiler.writer import Parameter
from rheos.core.errors import RheosError, Site, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.records import Stamps
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.safe_strings import named_error, shown
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.slots import Slots

if TYPE_CHECKING:
    from rheos.core.compiler.python_calls import PythonCalls

Filled = dict[str, npt.NDArray[Any]]

_SMALLEST = 256
_RESULTS = 2
"""Position of the first output among a loop's results. The next row and the number of timer changes
come before it."""


@dataclass(frozen=True)
class CompiledCode:
    """The loops of a function, and the strings whose codes they contain."""

    texts: StringCodes
    loops: Mapping[str, Loop]
    """Loops by method."""

    def read_lists(self) -> frozenset[str]:
        """Return the states that are lists which a loop reads."""
        return frozenset().union(*(loop.read_lists for loop in self.loops.values()))

    def holds(self) -> bool:
        """Return whether everything that the function reads from outside still has the values that were
        compiled into the loops."""
        return all(constant.holds() for loop in self.loops.values() for constant in loop.constants)


def code_of(function: Any, methods: dict[str, MethodText], typing: Typing) -> CompiledCode:
    """Write the loops of a function. Raise CannotCompile, with the file."""
    texts = StringCodes()
    return CompiledCode(texts, loops_of(function, methods, typing, texts))


def array_of(table: Table, part: str) -> npt.NDArray[Any]:
    """Return the array of a table that a loop reads: an attribute, or "parts" with a number."""
    what, _, at = part.partition(" ")
    array: Any = getattr(table, what)
    found: npt.NDArray[Any] = array[int(at)] if at else array
    return found


class LoopInputs:
    """The columns of a batch that a loop reads, as NumPy arrays.

    Kinds of functions that read more than a batch, such as state, extend `of`.
    """

    def __init__(self, texts: StringCodes, batch: Batch | None) -> None:
        self._texts = texts
        self._batch = batch

    def of(self, parameter: Parameter, python: PythonCalls | None) -> npt.NDArray[Any]:
        """Return the array for a parameter of a loop. `python` evaluates the loop's operations."""
        match parameter.source:
            case "numbers" | "floats" | "remembered":
                assert python is not None
                return python.array(parameter)
            case "table":
                assert parameter.table is not None
                return array_of(parameter.table, parameter.part)
            case "nulls":
                assert self._batch is not None
                column = self._batch.column(parameter.name)
                if not column.null_count:
                    return np.zeros(len(column), np.bool_)
                nulls: npt.NDArray[Any] = column.is_null().to_numpy(zero_copy_only=False)
                return nulls
            case "column":
                assert self._batch is not None
                return self.numpy(self._batch.column(parameter.name), parameter.kind)
        raise AssertionError(f"a loop of this kind reads no {parameter.source}")

    def replace(self, parameter: Parameter, array: npt.NDArray[Any]) -> None:
        """Take an array of lists or maps, which a loop has replaced by a larger one."""
        raise AssertionError(f"a loop of this kind has no {parameter.source} {parameter.name}")

    def numpy(self, column: pa.Array, kind: Kind) -> npt.NDArray[Any]:
        """Return the values of a column in the representation that loops have for this kind."""
        if kind == "str":
            return self._texts.of_column(column)
        if kind in ("moment", "duration"):
            column = column.cast(pa.int64())
        if column.null_count:
            column = column.fill_null(False if kind == "bool" else 0)
        values = column.to_numpy(zero_copy_only=False)
        found: npt.NDArray[Any] = np.require(values, DTYPES[kind], ["C", "A"])
        return found


@dataclass(frozen=True, slots=True)
class LoopCalls:
    """The calls that a loop makes, and the clocks that they read."""

    start: int
    stop: int
    slots: Slots
    stamps: Stamps
    reached: Stamps
    watermark_ms: int = MIN_TIMESTAMP_MS
    processing_time_ms: int = 0
    until_ms: int = MIN_TIMESTAMP_MS
    """Time up to which timers fire."""


class RunningLoop:
    """A compiled loop, and the arrays that it fills."""

    def __init__(self, loop: Loop, folder: str | None, texts: StringCodes) -> None:
        """Compile the loop, unless this process has done so. `folder` keeps the machine code."""
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

    def run(self, inputs: LoopInputs, calls: LoopCalls) -> Filled:
        """Run the loop and return its output: the next call reuses the same columns."""
        given = [inputs.of(parameter, self.python) for parameter in self.loop.parameters.values()]
        times = [np.require(each, np.int64, ["C", "A"]) for each in (calls.stamps, calls.reached)]
        slots = np.require(calls.slots, np.int32, ["C", "A"])
        clocks = (calls.watermark_ms, calls.processing_time_ms, calls.until_ms)
        self._make_room(calls.stop - calls.start)
        filled = self._call(
            calls.start,
            calls.stop,
            *clocks,
            self._failed,
            self._result,
            slots,
            *times,
            *given,
            *self._made.values(),
        )
        columns = len(self._grown)
        if self._grown:
            self._made.update(zip(self._grown, filled, strict=False))
        for place, name in enumerate(self.loop.replaced):
            inputs.replace(self.loop.parameters[name], filled[columns + place])
        return self._made

    def failure(self, ctx: OperatorContext, record: Any, key: Any = None) -> RheosError:
        """Return the error for the row at `next`, which has failed."""
        failure = self.loop.failures[self.failed - 1]
        what = failure.what
        if not what:
            assert self.python is not None
            what = named_error(self.python.raised())
        return UserFunctionError(
            what,
            site=Site(failure.file or self.loop.file, failure.line),
            operator=ctx.name,
            record=shown(record),
            key=None if key is None else shown(key),
            hint=failure.hint or "correct the function, or filter out such records upstream",
        )

    def _make_room(self, calls: int) -> None:
        for name, column in self._made.items():
            needed = calls * (self.loop.timer_changes if name in TIMERS else 1)
            if needed > len(column):
                self._made[name] = np.empty(needed, column.dtype)
