"""Resolves the annotations of users' functions and classes, or raises an error that names the cause."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from typing import Any

from rheos.core.callables import function_name
from rheos.core.errors import SchemaError
from rheos.core.protocol.annotations import hints_of
from rheos.core.safe_strings import message_of, named_error
from rheos.core.site import names_in_sight


def resolved_annotations(fn: Any) -> dict[str, Any]:
    """Return the resolved annotations of a function's parameters and of its result ("return").

    Raises:
        SchemaError: an annotation cannot be resolved.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = type(fn).__call__
    if not getattr(fn, "__annotations__", None):
        return {}
    try:
        return hints_of(fn, names_in_sight())
    except Exception as error:
        raise _unresolved(fn, error) from None


def _unresolved(fn: Any, error: Exception) -> SchemaError:
    """Find the parameter whose annotation cannot be resolved, and return the error that names it."""
    name = function_name(fn)
    place = "an annotation"
    for parameter, annotation in fn.__annotations__.items():
        alone = type("Alone", (), {"__annotations__": {parameter: annotation}})
        # Annotations refer to names of the module that defines the function.
        alone.__module__ = getattr(fn, "__module__", "")
        names = vars(sys.modules.get(alone.__module__, typing))
        try:
            typing.get_type_hints(alone, names, names_in_sight())
        except Exception:
            of = "the result" if parameter == "return" else f"parameter {parameter!r}"
            place = f"the annotation {annotation!r} of {of}"
            break
    missing = re.match(r"name '([^']+)' is not defined", message_of(error))
    what = f"{place} of {name} cannot be resolved: {named_error(error)}"
    if missing:
        hint = (
            f"import {missing[1]} in the module that defines {name}, at run time and not only "
            "under TYPE_CHECKING; or pass the type of the result as returns="
        )
    else:
        hint = "correct the annotation, or leave it out and pass returns="
    return SchemaError(what, hint=hint)
