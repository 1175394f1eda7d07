"""Checks of the arguments of `keyed.call_once(...)`."""

from __future__ import annotations

from typing import Any, Literal, get_args

from rheos.api.async_functions import is_async, mapped
from rheos.api.transformations import Transformation
from rheos.core.callables import check_arguments
from rheos.core.connectors.retry import Retry
from rheos.core.errors import ProgramError
from rheos.core.operators.once_operator import CallOnceSpec
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.safe_strings import shown

InDoubt = Literal["call", "divert"]


def called_once(
    at: Transformation,
    fn: Any,
    returns: Any,
    confirm: Any,
    in_doubt: Any,
    remember: Duration,
    capacity: int,
    max_waiting: int,
    timeout: Duration,
    retries: Retry | None,
) -> CallOnceSpec:
    """Return the operator for the keyed stream `at`. Raise ProgramError for invalid
    arguments, and SchemaError if the type of the answers is not declared."""
    if at.program.in_loop:
        raise ProgramError(
            "call_once() cannot be in a loop",
            hint="call it downstream of the loop, or use .map_async(...) in the body",
        )
    spec, declared = mapped(
        at.type.schema, fn, returns, capacity, timeout, "unordered", retries, None, method="call_once"
    )
    if in_doubt not in get_args(InDoubt):
        raise ProgramError(
            f"in_doubt={in_doubt!r} is not known", hint='write in_doubt="call" or in_doubt="divert"'
        )
    if in_doubt == "divert" and (confirm is not None or retries is not None):
        useless = "confirm" if retries is None else "retries"
        raise ProgramError(
            f'in_doubt="divert" never repeats a call, so {useless}= has no use',
            hint='leave it out, or write in_doubt="call"',
        )
    if confirm is not None:
        if not is_async(confirm):
            raise ProgramError(
                f"confirm= takes an `async def` function, not {shown(confirm)}",
                hint="write `async def ask(payment) -> Receipt | None: ...`, and confirm=ask",
            )
        check_arguments(confirm, "call_once", ["a record"])
    remember_ms = duration_ms(remember)
    if remember_ms <= 0:
        raise ProgramError(
            f"remember must be greater than 0, not {remember!r}", hint='write remember="7d"'
        )
    if not isinstance(max_waiting, int) or isinstance(max_waiting, bool) or max_waiting < 1:
        raise ProgramError(
            f"max_waiting must be a positive number of rows, not {max_waiting!r}",
            hint="write max_waiting=10_000",
        )
    return CallOnceSpec(
        fn=fn,
        record=spec.record,
        confirm=confirm,
        in_doubt=in_doubt,
        remember_ms=remember_ms,
        capacity=capacity,
        max_waiting=max_waiting,
        timeout_ms=spec.timeout_ms,
        retries=retries,
        answer_schema=declared.schema,
        answer_record=declared.record,
    )
