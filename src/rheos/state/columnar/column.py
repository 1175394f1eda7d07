"""One declared value of all keys: an array by slot, and which of them are set and have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import ProgramError, UnrestorableError
from rheos.graph.state import StateDeclaration, ValueState
from rheos.state.codec import ValueCodec, shown
from rheos.state.columnar.texts import Texts
from rheos.state.key_index import Slots

Flags = npt.NDArray[np.bool_]

DTYPES: dict[Any, type[np.generic]] = {
    int: np.int64,
    float: np.float64,
    bool: np.bool_,
    str: np.int32,
}
"""Of the types that can be columns; texts are kept as their codes."""

_SMALLEST = 64


def check_column(declared: StateDeclaration, what: str, *, needs_default: bool) -> None:
    """Raises ProgramError where a declaration is none that `what` can keep as a column."""
    if not isinstance(declared, ValueState):
        raise ProgramError(
            f"state {declared.name!r} is a {type(declared).__name__}, and {what} keeps values alone",
            site=declared.site,
            hint="declare it as rh.ValueState, or write the function as a plain KeyedProcessFunction",
        )
    if declared.type not in DTYPES:
        raise ProgramError(
            f"state {declared.name!r} is {shown(declared.type)}, and {what} keeps int, float, bool and "
            "str",
            site=declared.site,
            hint="declare one of these, or several states in the place of one",
        )
    if declared.ttl is not None:
        raise ProgramError(
            f"state {declared.name!r} has a time to live, and {what} keeps values for ever",
            site=declared.site,
            hint="clear it by a timer, or write the function as a plain KeyedProcessFunction",
        )
    if declared.default is None and not needs_default:
        return
    if type(declared.default) is not declared.type:
        given = "no default" if declared.default is None else f"the default {declared.default!r}"
        raise ProgramError(
            f"state {declared.name!r} has {given}, and {what} needs one of {declared.type.__name__}",
            site=declared.site,
            hint=f"write {declared.name} = rh.ValueState({declared.type.__name__}, "
            f"default={declared.type()!r})",
        )
    if isinstance(declared.default, int) and not -(1 << 63) <= declared.default < 1 << 63:
        raise ProgramError(
            f"the default of state {declared.name!r} is beyond 64 bits, and {what} keeps these",
            site=declared.site,
        )


class StateColumn:
    """The values of a declaration. Where none is set, the default stands in the array."""

    def __init__(self, declared: ValueState[Any], texts: Texts) -> None:
        self.name = declared.name
        self.type = declared.type
        self.codec = ValueCodec(declared.name, declared.type)
        self.texts = texts
        default = declared.default
        if default is None:
            default = declared.type()
        self.default = texts.code(default) if declared.type is str else default
        """As it is in the array."""
        self.values: npt.NDArray[Any] = np.full(_SMALLEST, self.default, DTYPES[declared.type])
        self.present: Flags = np.zeros(_SMALLEST, np.bool_)
        self.changed: Flags = np.zeros(_SMALLEST, np.bool_)

    def grow(self, size: int) -> None:
        """There are so many slots."""
        more = size - len(self.values)
        if more <= 0:
            return
        more = max(more, len(self.values))
        self.values = np.append(self.values, np.full(more, self.default, self.values.dtype))
        self.present = np.append(self.present, np.zeros(more, np.bool_))
        self.changed = np.append(self.changed, np.zeros(more, np.bool_))

    def put(self, slots: Slots, values: Any) -> None:
        """Sets values, as they are in the array."""
        self.values[slots] = values
        self.present[slots] = True
        self.changed[slots] = True

    def clear(self, slots: Slots) -> None:
        self.changed[slots] |= self.present[slots]
        self.values[slots] = self.default
        self.present[slots] = False

    def reset(self) -> None:
        """As if no value had ever been set."""
        self.values[:] = self.default
        self.present[:] = False
        self.changed[:] = False

    # --- between arrays and Python --------------------------------------------------------------------

    def later(self, values: npt.NDArray[Any]) -> Callable[[], list[Any]]:
        """What gives these as Python's values, in any thread, whatever comes meanwhile."""
        if self.type is not str:
            return values.tolist
        text = self.texts.frozen()
        return lambda: [text[code] for code in values.tolist()]

    def array(self, values: Sequence[Any]) -> npt.NDArray[Any]:
        """Python's values of the declared type, as they are in the array. Raises UnrestorableError."""
        if self.type is str:
            return self.texts.codes(values)
        try:
            return np.array(values, self.values.dtype)
        except OverflowError:
            raise UnrestorableError(
                f"a stored value of state {self.name!r} is an integer beyond 64 bits",
                hint="restore it with a plain KeyedProcessFunction, whose integers have no bounds",
            ) from None
