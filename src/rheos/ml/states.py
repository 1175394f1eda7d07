"""How what a function has learned is declared as state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from rheos.core.graph.functions import KeyedProcessFunction
from rheos.core.graph.state import ValueState


def with_state(
    function: type[KeyedProcessFunction], name: str, of: Any
) -> Callable[..., KeyedProcessFunction]:
    """The class with a value of that name for each key, which is to hold objects like `of`.

    A dataclass says what is in it, and is stored by its fields. Of a class of a library no type says
    that: it is pickled, as all state of open types is (docs/security.md).
    """
    kind = type(of) if is_dataclass(of) else object

    class Of(function):  # type: ignore[valid-type,misc]
        pass

    setattr(Of, name, ValueState(kind))
    Of.__name__ = Of.__qualname__ = function.__name__.strip("_")
    return Of
