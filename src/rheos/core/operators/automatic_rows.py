"""Calls the compiled form of an unmarked function without state, such as that of `map` or `filter`.

A call of the compiled form has no effect except its results. If it fails, Python makes the calls of the
whole batch, so Python decides whether it is an error. From then on the function remains interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.core.compiler.eligibility import Automatic
from rheos.core.compiler.forms import OF_COLUMNS, PREDICATE, RESULT, FunctionForm
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.errors import RheosError, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.graph.nodes import MAIN
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
from rheos.core.operators.records import Stamps
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.types import rows_of


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


def column_typing(
    schema: pa.Schema, arguments: Sequence[str], takes_null: Sequence[str], result: pa.Field
) -> Typing:
    """Return the typing of a function that takes values of columns, and returns one value.

    Args:
        schema: Columns of the input.
        arguments: Column of each parameter.
        takes_null: Columns that may be null in rows for which the function is called.
        result: Field of the values that the function returns.
    """
    fields = [schema.field(name) for name in dict.fromkeys(arguments)]
    fields = [each if each.name in takes_null else each.with_nullable(False) for each in fields]
    return Typing(
        pa.schema(fields),
        (),
        None,
        event_time=False,
        outputs={MAIN: value_type(result.type, nullable=result.nullable)},
        form=OF_COLUMNS,
        arguments=tuple(arguments),
    )


class AutomaticRows:
    """The compiled form of one function of one subtask, once it is chosen."""

    def __init__(
        self, ctx: OperatorContext, function: Any, methods: Mapping[str, MethodText], typing: Typing
    ) -> None:
        self._ctx = ctx
        self._typing = typing
        self._function, self._methods = function, dict(methods)
        output = typing.outputs[MAIN]
        self._schemas = {} if output is None else {MAIN: output.schema}
        self._choice = FormChoice(ctx, self._write)
        self._code: CompiledCode | None = None

    def _write(self) -> CompiledCode:
        return code_of(self._function, self._methods, self._typing)

    def results(self, batch: Batch) -> tuple[Batch, Stamps] | None:
        """Call the compiled form for each row. Return the results, and for each the row that it results
        from. Return None if Python must call the function for this batch."""
        code = self._choice.code(batch.num_rows)
        if code is None:
            self._code = None
            return None
        if code is not self._code:
            self._take_over(code)
        running, texts, rows = self._running, code.texts, batch.num_rows
        nothing = np.zeros(rows, np.int64)
        calls = LoopCalls(0, rows, np.zeros(rows, np.int32), nothing, nothing)
        made = running.run(LoopInputs(texts, batch), calls)
        if running.failed:
            [record] = rows_of(batch.slice(running.next, 1), self._typing.record)
            self.leave(running.failure(self._ctx, record))
            return None
        try:
            outputs = list(self._outputs.made(running, made, batch))
        except UserFunctionError as error:
            self.leave(error)
            return None
        if texts.too_many():
            texts.keep([])
        self._ctx.count("compiled_rows", rows)
        for _, results, origins in outputs:
            return results, origins
        schema = self._schemas.get(MAIN, pa.schema([]))
        return pa.RecordBatch.from_pylist([], schema=schema), np.empty(0, np.int64)

    def _take_over(self, code: CompiledCode) -> None:
        code.texts.fix()
        [loop] = code.loops.values()
        self._running = RunningLoop(loop, self._ctx.program.code_folder, code.texts)
        self._outputs = CompiledOutputs(self._ctx, self._schemas, self._typing.record, code.texts)
        self._code = code

    def leave(self, error: RheosError | None = None) -> None:
        """Interpret the function from now on. `error` is that of the compiled call that failed."""
        self._choice.leave(error)
        self._code = None


def automatic_rows(
    ctx: OperatorContext, function: Any, automatic: Automatic, typing: Typing
) -> AutomaticRows | None:
    """Return the compiled form of a function; None if it cannot be compiled, or if this process has no
    compiler."""
    if not isinstance(automatic, Mapping) or find_spec("numba") is None:
        return None
    return AutomaticRows(ctx, function, automatic, typing)
