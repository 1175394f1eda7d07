"""One declared value of all keys: an array by slot, and masks of set and of changed slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.errors import ProgramError, UnrestorableError
from rheos.core.graph.state import StateDeclaration, ValueState
from rheos.core.state.codec import shown
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.expiry import Expiry
from rheos.core.state.slots import AnySlots, Slots
from rheos.core.state.stamps import value_codec

Flags = npt.NDArray[np.bool_]
EventTimes = npt.NDArray[np.int64] | None
"""Event times of calls, in ms since the epoch; None if no state needs them."""

DTYPES: dict[Any, type[np.generic]] = {
    int: np.int64,
    float: np.float64,
    bool: np.bool_,
    str: np.int32,
}
"""Array types of the types that can be columns. Strings are stored as their codes."""

_SMALLEST = 64


def check_column(
    declared: StateDeclaration, what: str, *, needs_default: bool, may_expire: bool
) -> None:
    """Raise ProgramError if `what` cannot store a declaration as a column."""
    if not isinstance(declared, ValueState):
        raise ProgramError(
            f"state {declared.name!r} is a {type(declared).__name__}, but {what} supports only "
            "single values",
            site=declared.site,
            hint="declare it as rh.ValueState, or write the function as a plain KeyedProcessFunction",
        )
    if declared.type not in DTYPES:
        raise ProgramError(
            f"state {declared.name!r} is {shown(declared.type)}, but {what} supports only int, "
            "float, bool and str",
            site=declared.site,
            hint="declare one of these types, or split it into several states",
        )
    if declared.ttl is not None and not may_expire:
        raise ProgramError(
            f"state {declared.name!r} has a time to live, which {what} does not support",
            site=declared.site,
            hint="clear it with a timer, or write the function as a plain KeyedProcessFunction",
        )
    if declared.default is None and not needs_default:
        return
    if type(declared.default) is not declared.type:
        given = "no default" if declared.default is None else f"the default {declared.default!r}"
        raise ProgramError(
            f"state {declared.name!r} has {given}, but {what} needs one of type "
            f"{declared.type.__name__}",
            site=declared.site,
            hint=f"write {declared.name} = rh.ValueState({declared.type.__name__}, "
            f"default={declared.type()!r})",
        )
    if isinstance(declared.default, int) and not -(1 << 63) <= declared.default < 1 << 63:
        raise ProgramError(
            f"the default of state {declared.name!r} exceeds the 64 bits that {what} supports",
            site=declared.site,
        )


class StateColumn:
    """The values of a declaration. Slots without a value have the default in the array.

    Methods that read or write receive the event time of each slot's call. `ExpiringColumn` uses it.
    """

    def __init__(
        self, declared: ValueState[Any], texts: StringCodes, expiry: Expiry | None = None
    ) -> None:
        self.name = declared.name
        self.type = declared.type
        self.expiry = expiry
        self.codec = value_codec(declared.name, declared.type, expires=expiry is not None)
        """Codec of stored values, which `later` returns and `load` receives."""
        self.texts = texts
        self.default = self.array_default(declared)
        """The default, in the form of the array."""
        kind = DTYPES.get(declared.type, np.bool_)
        self.values: npt.NDArray[Any] = np.full(_SMALLEST, self.default, kind)
        self.present: Flags = np.zeros(_SMALLEST, np.bool_)
        self.changed: Flags = np.zeros(_SMALLEST, np.bool_)

    def array_default(self, declared: ValueState[Any]) -> Any:
        """Return the default, in the form of the array."""
        default = declared.type() if declared.default is None else declared.default
        return self.texts.code(default) if declared.type is str else default

    def text_columns(self) -> list[StateColumn]:
        """Return the columns whose values are codes of strings."""
        return [self] if self.type is str else []

    def grow(self, size: int) -> None:
        """Extend the column to this number of slots."""
        more = size - len(self.values)
        if more <= 0:
            return
        more = max(more, len(self.values))
        self.values = np.append(self.values, np.full(more, self.default, self.values.dtype))
        self.present = np.append(self.present, np.zeros(more, np.bool_))
        self.changed = np.append(self.changed, np.zeros(more, np.bool_))

    def arrays(self) -> list[npt.NDArray[Any]]:
        """Return the arrays that have an element for each slot."""
        return [self.values, self.present, self.changed]

    def read(self, slots: AnySlots, event_times: EventTimes) -> npt.NDArray[Any]:
        """Return a copy of the values, in the form of the array."""
        return self.values[slots]

    def is_set(self, slots: AnySlots, event_times: EventTimes) -> Flags:
        return self.present[slots]

    def put(self, slots: AnySlots, values: Any, event_times: EventTimes) -> None:
        """Set values, in the form of the array."""
        self.values[slots] = values
        self.present[slots] = True
        self.changed[slots] = True

    def clear(self, slots: AnySlots) -> None:
        self.changed[slots] |= self.present[slots]
        self.values[slots] = self.default
        self.present[slots] = False

    def clear_gone(self, part: slice) -> None:
        """Clear the expired slots of a part, which no later call can see."""

    def keep(self, slots: Slots, moved: Slots) -> None:
        """Keep only these slots, and move them to the slots `moved`."""
        before = self.values, self.present, self.changed
        size = max(len(slots), _SMALLEST)
        self.values = np.full(size, self.default, self.values.dtype)
        self.present, self.changed = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        for old, new in zip(before, (self.values, self.present, self.changed), strict=True):
            new[moved] = old[slots]

    def reset(self) -> None:
        """Clear all values and changes."""
        self.values[:] = self.default
        self.present[:] = False
        self.changed[:] = False

    # --- between arrays and Python --------------------------------------------------------------------

    def later(self, slots: Slots) -> Callable[[], list[Any]]:
        """Return a function that returns the stored values of these slots as of now, in any thread."""
        values = self.values[slots]
        if self.type is not str:
            return values.tolist
        text = self.texts.frozen()
        return lambda: [text[code] for code in values.tolist()]

    def load(self, slots: Slots, stored: Sequence[Any]) -> None:
        """Set the stored values of these slots, which does not count as a change. Raise
        UnrestorableError if one does not fit the column."""
        self.values[slots] = array_of_stored(
            stored, self.type, self.texts, f"a stored value of state {self.name!r}"
        )
        self.present[slots] = True


def array_of_stored(
    stored: Sequence[Any], type: type, texts: StringCodes, what: str
) -> npt.NDArray[Any]:
    """Return stored values of a type that can be a column, in the form of the array. Raise
    UnrestorableError if one exceeds 64 bits. `what` names a value in the message."""
    if type is str:
        return texts.codes(stored)
    try:
        return np.array(stored, DTYPES[type])
    except OverflowError:
        raise UnrestorableError(
            f"{what} is an integer that exceeds 64 bits",
            hint="restore it with a plain KeyedProcessFunction, whose integers are unlimited",
        ) from None
