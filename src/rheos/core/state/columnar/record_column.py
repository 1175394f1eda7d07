"""One declared dataclass of all keys: a column for each of its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rheos.core.errors import UnrestorableError
from rheos.core.graph.state import ValueState
from rheos.core.protocol.annotations import hints_of, without_none
from rheos.core.safe_strings import shown
from rheos.core.state.columnar.column import DTYPES, EventTimes, StateColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.slots import AnySlots, Slots


class FieldType(NamedTuple):
    """The type of a field of a stored dataclass."""

    type: type
    """int, float, bool or str."""
    nullable: bool


def field_types(record: type) -> dict[str, FieldType] | None:
    """Return the types of the fields of a dataclass; None if it has a field of another type."""
    hints, found = hints_of(record), {}
    for field in dataclasses.fields(record):
        kind, nullable = without_none(hints[field.name])
        if kind not in DTYPES or not field.init:
            return None
        found[field.name] = FieldType(kind, nullable)
    return found


def fits(value: Any, record: type, types: Mapping[str, FieldType]) -> bool:
    """Return whether a value has exactly the fields of a dataclass, of exactly their `types`.

    Python accepts an int in a field of floats, and more attributes. A column would change both.
    """
    own = getattr(value, "__dict__", None)
    if type(value) is not record or (own is not None and own.keys() != types.keys()):
        return False
    parts = [(getattr(value, name), field) for name, field in types.items()]
    return all(type(part) is field.type or (part is None and field.nullable) for part, field in parts)


class RecordColumn(StateColumn):
    """The values of a declaration whose type is a dataclass. `values` of the column has no content."""

    def __init__(self, declared: ValueState[Any], texts: StringCodes) -> None:
        super().__init__(declared, texts)
        types = field_types(self.type)
        assert types is not None
        self._types = types
        self.parts: dict[str, StateColumn] = {}
        """Values of each field. A slot of a part is present if the field is not None."""
        for name, field in types.items():
            part: ValueState[Any] = ValueState(field.type)
            part.name = f"{declared.name}.{name}"
            self.parts[name] = StateColumn(part, texts)

    def array_default(self, declared: ValueState[Any]) -> Any:
        return False

    def grow(self, size: int) -> None:
        super().grow(size)
        for part in self.parts.values():
            part.grow(size)

    def arrays(self) -> list[npt.NDArray[Any]]:
        parts = [array for part in self.parts.values() for array in (part.values, part.present)]
        return [self.present, self.changed, *parts]

    def text_columns(self) -> list[StateColumn]:
        return [part for part in self.parts.values() if part.type is str]

    def read(self, slots: AnySlots, event_times: EventTimes) -> npt.NDArray[Any]:
        raise NotImplementedError("fields are read one by one")

    def put(self, slots: AnySlots, values: Any, event_times: EventTimes) -> None:
        raise NotImplementedError("fields are written one by one")

    def keep(self, slots: Slots, moved: Slots) -> None:
        super().keep(slots, moved)
        for part in self.parts.values():
            part.keep(slots, moved)

    def reset(self) -> None:
        super().reset()
        for part in self.parts.values():
            part.reset()

    def later(self, slots: Slots) -> Callable[[], list[Any]]:
        record, columns = self.type, []
        for name, part in self.parts.items():
            missing = ~part.present[slots] if self._types[name].nullable else None
            columns.append((name, part.later(slots), missing))

        def values() -> list[Any]:
            found = {name: _with_none(part(), missing) for name, part, missing in columns}
            return [
                record(**dict(zip(found, row, strict=True)))
                for row in zip(*found.values(), strict=True)
            ]

        return values

    def load(self, slots: Slots, stored: Sequence[Any]) -> None:
        for value in stored:
            if not fits(value, self.type, self._types):
                raise UnrestorableError(
                    f"a stored value of state {self.name!r} does not fit the fields of "
                    f"{self.type.__name__}: {shown(value)}",
                    hint="restore it with a function that is not compiled: "
                    ".process(function, compiled=False)",
                )
        for name, part in self.parts.items():
            values = [getattr(value, name) for value in stored]
            there = np.array([value is not None for value in values], np.bool_)
            part.present[slots] = False
            part.load(slots[there], [value for value in values if value is not None])
        self.present[slots] = True


def _with_none(values: list[Any], missing: npt.NDArray[np.bool_] | None) -> list[Any]:
    """Return the values, with None where `missing` is set."""
    if missing is None:
        return values
    return [None if absent else value for value, absent in zip(values, missing.tolist(), strict=True)]
