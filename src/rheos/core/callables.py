"""Checks of the functions that users pass to methods, made when the program is built.

A plain function, an object with `__call__`, a `functools.partial`, a method or a class of records can
be called directly. For an instance of a class that users derive from, Rheos calls the methods. The
checks cover only the call: whether the function is asynchronous, whether it yields, and which arguments
it takes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rheos.core.errors import ProgramError
from rheos.core.safe_strings import shown

_ASYNC_HINT = (
    "for asynchronous calls, write .map_async({name}) upstream, and pass a plain function here"
)


def function_name(fn: Any) -> str:
    """Return the name of a function for errors and `explain`."""
    if isinstance(fn, functools.partial):
        return function_name(fn.func)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return str(name).rpartition("<locals>.")[2]


def is_generator(fn: Any) -> bool:
    """Return whether each call of the function returns a generator."""
    return inspect.isgeneratorfunction(_called(fn))


def check_callable(fn: Any, method: str, takes: Sequence[str], *, yields: bool = False) -> None:
    """Check a function that a method takes.

    Args:
        fn: what the user passed.
        method: name of the method, for errors.
        takes: description of each argument that the function is called with.
        yields: whether the function may yield its results.

    Raises:
        ProgramError: the function cannot be called with these arguments, or is of a kind that is not
            allowed.
    """
    if not callable(fn):
        raise ProgramError(
            f"{method}() takes a function, not {shown(fn)}",
            hint=f"pass the function itself, as in .{method}(parse)",
        )
    check_kind(fn, method, yields=yields)
    check_arguments(fn, method, takes)


def check_kind(fn: Any, method: str, *, yields: bool = False) -> None:
    """Check that a function is not asynchronous, and yields only if `yields`. Raise ProgramError."""
    name = function_name(fn)
    if isinstance(fn, type):
        if _has_own_call(fn):
            raise ProgramError(
                f"{method}() takes an instance, not the class {name}", hint=f"write {name}()"
            )
        return
    _check_kind(_called(fn), name, method, yields=yields)
    if not inspect.isroutine(fn):
        for part in ("open", "close"):
            _check_kind(getattr(type(fn), part, None), f"{name}.{part}", method, yields=False)


def check_methods(instance: Any, base: type, method: str) -> None:
    """Check the methods of a function object that override methods of `base`.

    Raises:
        ProgramError: a method cannot be called in the way that `base` declares.
    """
    declarations = {name: one for cls in reversed(base.__mro__) for name, one in vars(cls).items()}
    for name, declared in declarations.items():
        own = getattr(type(instance), name, None)
        if name.startswith("_") or own is declared or not inspect.isfunction(declared):
            continue
        full = f"{type(instance).__name__}.{name}"
        if not callable(own):
            raise ProgramError(
                f"{full} is {shown(own)}, but {method}() needs to call it",
                hint=f"define {name} as a method",
            )
        called = getattr(instance, name)
        _check_kind(_called(called), full, method, yields=_may_yield(declared))
        parameters = list(inspect.signature(declared).parameters.values())[1:]
        if all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
            check_arguments(called, method, [parameter.name for parameter in parameters], full)


def _may_yield(declared: Callable[..., Any]) -> bool:
    annotation = str(declared.__annotations__.get("return", ""))
    return any(word in annotation for word in ("Iter", "Any", "Sequence"))


def _has_own_call(cls: type) -> bool:
    return any("__call__" in vars(base) for base in cls.__mro__ if base is not object)


def _called(fn: Any) -> Any:
    """Return the function that a call finally runs: the one in partials, or the `__call__` of a
    class."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return type(fn).__call__


def _check_kind(called: Any, name: str, method: str, *, yields: bool) -> None:
    if inspect.isasyncgenfunction(called):
        raise ProgramError(
            f"{name} is an asynchronous generator, but {method}() takes a plain function",
            hint="for asynchronous calls use .map_async(ask), with an `async def` that returns one "
            "record",
        )
    if inspect.iscoroutinefunction(called):
        raise ProgramError(
            f"{name} is asynchronous, but {method}() takes a plain function",
            hint=f"write .map_async({name})" if method == "map" else _ASYNC_HINT.format(name=name),
        )
    if not yields and inspect.isgeneratorfunction(called):
        raise ProgramError(
            f"{name} is a generator, but {method}() takes a function that returns one value",
            hint=f"return the value; to yield any number of records use .flat_map({name})",
        )


def check_arguments(fn: Any, method: str, takes: Sequence[str], name: str | None = None) -> None:
    """Check that a function takes these arguments; `takes` describes each. Raise ProgramError."""
    signature = ""
    try:
        found = inspect.signature(fn)
        signature = str(found)
        found.bind(*takes)
    except (TypeError, ValueError) as error:
        if not signature and not inspect.ismethod(fn):
            return  # A builtin without a signature. A method without one lacks its `self` parameter.
        passed = " and ".join(takes) or "no arguments"
        raise ProgramError(
            f"{name or function_name(fn)}{signature} cannot be called by {method}(), which passes "
            f"{passed}: {error}",
            hint="declare exactly these parameters; functools.partial can bind others",
        ) from None
