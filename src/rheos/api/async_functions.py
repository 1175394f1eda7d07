"""Checks of the arguments of `stream.map_async(...)`, and of other methods with async functions."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.api.function_typing import DeclaredOutput, input_record, output_type
from rheos.core.callables import check_arguments, check_callable, function_name
from rheos.core.connectors.retry import Retry
from rheos.core.errors import ProgramError
from rheos.core.graph.functions import AsyncFunction
from rheos.core.operators.async_map import AsyncMapSpec
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.safe_strings import shown

Order = Literal["ordered", "unordered"]

_EXAMPLE = "write `async def ask(visit: Visit) -> Enriched: ...`, and .{}(ask)"


def mapped(
    schema: pa.Schema,
    fn: Any,
    returns: Any,
    capacity: int,
    timeout: Duration,
    order: Any,
    retries: Any,
    on_timeout: Any,
    *,
    method: str = "map_async",
) -> tuple[AsyncMapSpec, DeclaredOutput]:
    """Return the operator and the output type for a stream with this schema. Raise ProgramError for
    invalid arguments."""
    called = fn.invoke if isinstance(fn, AsyncFunction) else fn
    if not is_async(called):
        raise ProgramError(
            f"{method}() takes an `async def` function or an rh.AsyncFunction, not {shown(fn)}",
            hint=f"{_EXAMPLE.format(method)}; for a plain function use .map({function_name(fn)})",
        )
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise ProgramError(
            f"capacity must be a positive number of calls, not {capacity!r}", hint="write capacity=1000"
        )
    timeout_ms = duration_ms(timeout)
    if timeout_ms <= 0:
        raise ProgramError(
            f"timeout must be greater than 0, not {timeout!r}", hint='write timeout="5s"'
        )
    if order not in get_args(Order):
        raise ProgramError(
            f"order={order!r} is not known", hint='write order="ordered" or order="unordered"'
        )
    if retries is not None and not isinstance(retries, Retry):
        raise ProgramError(
            f"retries must be a retry strategy, not {retries!r}",
            hint="write retries=rh.retry(3, on=ConnectionError)",
        )
    check_arguments(called, method, ["a record"])
    if on_timeout is not None:
        check_callable(on_timeout, "on_timeout", ["a record"])
    declared = output_type(called, returns, method=method, many=False)
    record = input_record(called, schema)
    spec = AsyncMapSpec(fn, record, capacity, timeout_ms, order, retries, on_timeout)
    return spec, declared


def is_async(fn: Any) -> bool:
    """Return whether calls of the function return coroutines."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not callable(fn):
        return False
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
