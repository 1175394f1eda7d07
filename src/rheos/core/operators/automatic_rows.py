"""Calls the compiled form of an unmarked function without keyed state, such as that of `map` or
`filter`, or of a method that only reads broadcast state.

A call of the compiled form has no effect except its results. If it fails, Python makes the calls of the
whole batch, so Python decides whether it is an error. From then on the function remains interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.compiler.eligibility import Automatic
from rheos.core.compiler.forms import (
    ELEMENT,
    OF_COLUMNS,
    PREDICATE,
    RECORDS_OF_COLUMNS,
    RESULT,
    VALUES_OF_COLUMNS,
    FunctionForm,
)
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import CannotCompile, EmittedType
from rheos.core.compiler.writer import Parameter
from rheos.core.errors import RheosError, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.broadcast_arrays import BroadcastArrays
from rheos.core.operators.compiled_loops import (
    CompiledCode,
    LoopCalls,
    LoopInputs,
    RunningLoop,
    code_of,
)
from rheos.core.operators.compiled_outputs import CompiledOutputs
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.form_choice import FormChoice
from rheos.core.operators.records import HiddenColumns, Stamps
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.types import rows_of
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.slots import Slots
from rheos.core.state.unkeyed_state import BroadcastHandle

if TYPE_CHECKING:
    from rheos.core.compiler.python_calls import PythonCalls


def value_type(type: pa.DataType, *, nullable: bool = False) -> EmittedType:
    """Return the type of the output of a function that returns one value of this type."""
    return EmittedType(pa.schema([pa.field(RESULT, type, nullable)]), None)


def row_typing(
    schema: pa.Schema, record: type | None, output: EmittedType | None, form: FunctionForm
) -> Typing:
    """Return the typing of a function that takes one record. `schema` has the columns of the input."""
    return Typing(visible(schema), (), record, event_time=False, outputs={MAIN: output}, form=form)


def predicate_typing(schema: pa.Schema, record: type | None) -> Typing:
    """Return the typing of a function that takes one record, and returns a bool."""
    return row_typing(schema, record, value_type(pa.bool_()), PREDICATE)


def element_typing(
    schema: pa.Schema,
    record: type | None,
    outputs: Mapping[str, EmittedType | None],
    *,
    event_time: bool,
) -> Typing:
    """Return the typing of `process_element` of a function without a key. `schema` has the columns of
    the input. `outputs` has the types by tag; None if no operator reads an output."""
    return Typing(visible(schema), (), record, event_time, outputs, ELEMENT)


def column_typing(
    schema: pa.Schema,
    arguments: Sequence[str],
    takes_null: Sequence[str],
    result: pa.Field,
    *,
    many: bool = False,
) -> Typing:
    """Return the typing of a function that takes values of columns, and returns one value or `many`.

    Args:
        schema: Columns of the input.
        arguments: Column of each parameter.
        takes_null: Columns that may be null in rows for which the function is called.
        result: Field of the value that the function returns, or of the list of its values.
    """
    fields = [schema.field(name) for name in dict.fromkeys(arguments)]
    fields = [each if each.name in takes_null else each.with_nullable(False) for each in fields]
    form, output = OF_COLUMNS, value_type(result.type, nullable=result.nullable)
    if many:
        form, element = VALUES_OF_COLUMNS, result.type.value_field
        output = value_type(element.type, nullable=element.nullable)
        if pa.types.is_struct(element.type):
            form = RECORDS_OF_COLUMNS
            output = EmittedType(pa.schema(list(element.type)), None, takes_tuples=False)
    return Typing(
        pa.schema(fields),
        (),
        None,
        event_time=False,
        outputs={MAIN: output},
        form=form,
        arguments=tuple(arguments),
    )


class AutomaticRows:
    """The compiled form of one function of one subtask, once it is chosen."""

    def __init__(
        self,
        ctx: OperatorContext,
        function: Any,
        methods: Mapping[str, MethodText],
        typing: Typing,
        states: Mapping[str, BroadcastHandle],
    ) -> None:
        """Create the form. `states` has the broadcast state of the function, by name."""
        self._ctx = ctx
        self._typing = typing
        self._function, self._methods = function, dict(methods)
        self._states = states
        outputs = typing.outputs.items()
        self._schemas = {tag: output.schema for tag, output in outputs if output is not None}
        self._choice = FormChoice(ctx, self._write)
        self._code: CompiledCode | None = None

    def _write(self) -> CompiledCode:
        return code_of(self._function, self._methods, self._typing)

    def results(self, batch: Batch) -> tuple[Batch, Stamps] | None:
        """Call the compiled form for each row. Return the results, and for each the row that it results
        from. Return None if Python must call the function for this batch."""
        nothing = np.zeros(batch.num_rows, np.int64)
        outputs = self.outputs(batch, LoopCalls(0, batch.num_rows, _no_slots(batch), nothing, nothing))
        if outputs is None:
            return None
        for _, results, origins in outputs:
            return results, origins
        schema = self._schemas.get(MAIN, pa.schema([]))
        return pa.RecordBatch.from_pylist([], schema=schema), np.empty(0, np.int64)

    def results_at(
        self, batch: Batch, hidden: HiddenColumns, watermark_ms: int
    ) -> list[tuple[str, Batch, Stamps]] | None:
        """Call the compiled form for each row, at the row's timestamp and watermark. Return the results
        of each output that has any: its tag, the results, and for each the row that it results from.
        Return None if Python must call the function for this batch.

        Args:
            batch: The rows.
            hidden: Their hidden columns.
            watermark_ms: Watermark at the time of the calls.
        """
        rows = batch.num_rows
        stamps = np.zeros(rows, np.int64) if hidden.stamps is None else hidden.stamps
        reached = np.full(rows, watermark_ms, np.int64) if hidden.reached is None else hidden.reached
        now_ms = self._ctx.clock.now_ms()
        return self.outputs(
            batch, LoopCalls(0, rows, _no_slots(batch), stamps, reached, watermark_ms, now_ms)
        )

    def outputs(self, batch: Batch, calls: LoopCalls) -> list[tuple[str, Batch, Stamps]] | None:
        """Make calls of the compiled form, like `results_at`."""
        code = self.code(batch.num_rows)
        return None if code is None else self._run(code, batch, calls, {})

    def code(self, rows: int) -> CompiledCode | None:
        """Return the code that makes the next calls; None if Python makes them. `rows` is the number of
        rows that have arrived for them."""
        code = self._choice.code(rows)
        if code is None:
            self._code = None
        return code

    def chosen(
        self,
        code: CompiledCode,
        batch: Batch,
        first: int,
        slots: Slots,
        kept: npt.NDArray[np.int64],
    ) -> Stamps | None:
        """Call the compiled form of a function that returns one of two records.

        Args:
            code: The code.
            batch: Stored records, and from the row `first` on those of the calls.
            first: The first row for which the function is called.
            slots: Slot of the key of each row.
            kept: Row of the kept record by slot, or -1. It is updated.

        Returns:
            The row of the record that each call returned; None if Python must call the function.
        """
        rows = batch.num_rows
        nothing, chosen = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        calls = LoopCalls(first, rows, slots, nothing, nothing)
        made = self._run(code, batch, calls, {"kept": kept, "chosen": chosen})
        return None if made is None else chosen[first:]

    def _run(
        self,
        code: CompiledCode,
        batch: Batch,
        calls: LoopCalls,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> list[tuple[str, Batch, Stamps]] | None:
        if code is not self._code:
            self._take_over(code)
        if self._arrays.cost() > batch.num_rows:
            return None  # Making the arrays would cost more than the calls.
        running = self._running
        try:
            made = running.run(_Inputs(code.texts, batch, self._arrays, arrays), calls)
            if running.failed:
                [record] = rows_of(batch.slice(running.next, 1), self._typing.record)
                self.leave(running.failure(self._ctx, record))
                return None
            outputs = list(self._outputs.made(running, made, batch))
        except UserFunctionError as error:
            self.leave(error)
            return None
        except CannotCompile:  # An integer of broadcast state exceeds 64 bits.
            self.leave()
            return None
        self._arrays.sweep_texts()
        self._ctx.count("compiled_rows", calls.stop - calls.start)
        return outputs

    def _take_over(self, code: CompiledCode) -> None:
        code.texts.fix()
        [loop] = code.loops.values()
        self._arrays = BroadcastArrays(self._states, code.texts)
        self._running = RunningLoop(loop, self._ctx.program.code_folder, code.texts)
        self._outputs = CompiledOutputs(self._ctx, self._schemas, self._typing.record, code.texts)
        self._code = code

    def leave(self, error: RheosError | None = None) -> None:
        """Interpret the function from now on. `error` is that of the compiled call that failed."""
        self._choice.leave(error)
        self._code = None


class _Inputs(LoopInputs):
    """The columns of a batch, broadcast state, and further arrays by source."""

    def __init__(
        self,
        texts: StringCodes,
        batch: Batch,
        arrays: BroadcastArrays,
        others: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        super().__init__(texts, batch)
        self._arrays = arrays
        self._others = others

    def of(self, parameter: Parameter, python: PythonCalls | None) -> npt.NDArray[Any]:
        if parameter.source == "broadcast":
            return self._arrays.array(parameter)
        if parameter.source in self._others:
            return self._others[parameter.source]
        return super().of(parameter, python)


def _no_slots(batch: Batch) -> Slots:
    return np.zeros(batch.num_rows, np.int32)


def automatic_rows(
    ctx: OperatorContext,
    function: Any,
    automatic: Automatic,
    typing: Typing,
    states: Mapping[str, BroadcastHandle] = MappingProxyType({}),
) -> AutomaticRows | None:
    """Return the compiled form of a function; None if it cannot be compiled, or if this process has no
    compiler. `states` has the broadcast state of the function, by name."""
    if not isinstance(automatic, Mapping) or find_spec("numba") is None:
        return None
    return AutomaticRows(ctx, function, automatic, typing, states)
