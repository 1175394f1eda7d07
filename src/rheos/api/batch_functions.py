"""Checks of a `KeyedBatchFunction` while the program is built."""

from __future__ import annotations

import typing
from typing import Any

from rheos.api.function_checks import check_function
from rheos.api.function_typing import NOTHING, DeclaredOutput, Signature, declared_type, output_type
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.batch_functions import Emit, KeyedBatchFunction
from rheos.core.graph.functions import KeyedProcessFunction, defines
from rheos.core.graph.state import declarations
from rheos.core.operators.batch_state import NAMES
from rheos.core.state.columnar.column import check_column


def check_batch_function(fn: KeyedBatchFunction) -> None:
    """Check that a batch function can run. Raise ProgramError if it cannot."""
    name = type(fn).__name__
    if type(fn).process_batch is KeyedBatchFunction.process_batch:
        raise ProgramError(f"{name} does not define process_batch(self, keys, batch, state)")
    check_function(fn, KeyedBatchFunction, ["process_batch"])
    if fn.form not in ("polars", "arrow"):
        raise ProgramError(f"{name}.form={fn.form!r} is not known", hint='write "polars" or "arrow"')
    for declared in declarations(fn).values():
        check_column(declared, "a function of batches", needs_default=True, may_expire=True)
        if declared.name in NAMES:
            raise ProgramError(
                f"{name} cannot have a state named {declared.name!r}: state.{declared.name} is "
                "reserved",
                site=declared.site,
                hint="rename the attribute",
            )


def has_timers(fn: KeyedProcessFunction | KeyedBatchFunction) -> bool:
    """Return whether the function defines `on_timers`."""
    return defines(fn, "on_timers" if isinstance(fn, KeyedBatchFunction) else "on_timer")


def batch_output(fn: KeyedBatchFunction, returns: Any) -> DeclaredOutput:
    """Return the output type: `returns`, or the type of `Emit` in the annotation of `process_batch`."""
    if returns is not None:
        return output_type(fn.process_batch, returns, method="process", many=True)
    annotation = Signature(fn.process_batch).result
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is Emit:
            return declared_type(typing.get_args(part)[0])
    if fn.side_outputs:
        return NOTHING
    raise SchemaError(
        f"{type(fn).__name__} does not declare the type of its output records",
        hint="annotate process_batch as `-> Iterator[rh.Emit[Alert]]`, where Alert is a dataclass, or "
        f"write .process({type(fn).__name__}(), returns=Alert)",
    )
