"""Declaration of a function's learned model as state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from rheos.core.graph.functions import KeyedProcessFunction
from rheos.core.graph.state import ValueState


def with_state(
    function: type[KeyedProcessFunction], name: str, of: Any
) -> Callable[..., KeyedProcessFunction]:
    """Return a subclass of the function with a value state of that name, which holds objects like `of`.

    A dataclass is stored by its fields. Objects of a library's class have no declared type: they are
    pickled, like all state of open types (docs/security.md).
    """
    kind = type(of) if is_dataclass(of) else object

    class Of(function):  # type: ignore[valid-type,misc]
        pass

    setattr(Of, name, ValueState(kind))
    Of.__name__ = Of.__qualname__ = function.__name__.strip("_")
    return Of
