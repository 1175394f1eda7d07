"""The kinds of functions that can be compiled: their methods, the parameters, and the results.

A kind of function is one `FunctionForm`. The operator that calls such functions passes the form to the
compiler in its `Typing`.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rheos.core.compiler.scope import Role
from rheos.core.errors import ProgramError
from rheos.core.graph.compilation import MethodText, function_text, method_texts
from rheos.core.graph.functions import defines

Parameters: TypeAlias = tuple[Literal["kept", "record", "context"], ...] | Literal["columns"]
"""Parameters of a method after `self`. "kept" is a record of the key that an earlier call has returned.
"columns" are the values of columns, one for each parameter."""

Returns: TypeAlias = Literal["records", "record", "values", "value", "choice"]
"""Whether a method emits any number of records, returns one record, emits any number of values that are
no records, returns one such value, or returns one of the records that it receives."""


def is_one(returns: Returns) -> bool:
    """Return whether a method must return its only result."""
    return returns in ("record", "value", "choice")


RESULT = "result"
"""Name of the only column of the output of a method whose results are values."""

CALL = "__call__"


@dataclass(frozen=True)
class MethodForm:
    """A method that is compiled to a loop."""

    role: Role
    name: str
    parameters: Parameters
    returns: Returns
    port: int = 0
    """Port whose rows the method receives."""


@dataclass(frozen=True)
class FunctionForm:
    """A kind of function."""

    methods: tuple[MethodForm, ...]

    def texts(self, function: Any) -> dict[str, MethodText]:
        """Return the source of the methods that the function defines, by name.

        Raises:
            ProgramError: The source is not available, or a method is no function of Python.
        """
        if self is KEYED:
            return method_texts(type(function))
        return {
            each.name: function_text(called_method(function, each.name))
            for each in self.methods
            if each.role == "rows" or defines(function, each.name)
        }


def called_method(function: Any, name: str) -> types.FunctionType:
    """Return the function of Python that a call of the user's function executes.

    Raises:
        ProgramError: The user's function is of another kind, such as a class or a built-in function.
    """
    method = function
    if isinstance(function, types.MethodType) and name == CALL:
        method = function.__func__
    elif not isinstance(function, types.FunctionType):
        method = getattr(type(function), name, None)
    if not isinstance(method, types.FunctionType):
        shown = getattr(function, "__name__", type(function).__name__)
        if name != CALL:
            shown = name
            function = method
        raise ProgramError(f"{shown} is {type(function).__name__}, not a plain function")
    return method


def instance_of(function: Any) -> Any:
    """Return the object that the method receives as `self`; None for a function without `self`."""
    if isinstance(function, types.FunctionType):
        return None
    return function.__self__ if isinstance(function, types.MethodType) else function


def _called(parameters: Parameters, returns: Returns) -> FunctionForm:
    return FunctionForm((MethodForm("rows", CALL, parameters, returns),))


_ON_TIMER = MethodForm("timers", "on_timer", ("record", "context"), "records")
KEYED = FunctionForm(
    (MethodForm("rows", "process_element", ("record", "context"), "records"), _ON_TIMER)
)
KEYED_CO = FunctionForm(
    (
        MethodForm("rows", "process_element1", ("record", "context"), "records"),
        MethodForm("rows", "process_element2", ("record", "context"), "records", port=1),
        _ON_TIMER,
    )
)
ELEMENT = FunctionForm((MethodForm("rows", "process_element", ("record", "context"), "records"),))
MAP = _called(("record",), "record")
FLAT_MAP = _called(("record",), "records")
PREDICATE = _called(("record",), "value")
REDUCE = _called(("kept", "record"), "choice")
OF_COLUMNS = _called("columns", "value")
RECORDS_OF_COLUMNS = _called("columns", "records")
VALUES_OF_COLUMNS = _called("columns", "values")
