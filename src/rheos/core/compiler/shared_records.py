"""Dataclasses whose objects compiled code shares with others, and constants that are such objects.

Compiled code copies the fields of an object that is a constant, or that it emits. In Python, a change
of the object would be visible to others. So a function may share objects of a class, or change such
objects, but not both.
"""

from __future__ import annotations

import types
from typing import Any

from rheos.core.compiler.constants import constant_of
from rheos.core.compiler.record_values import field_kinds, is_frozen
from rheos.core.compiler.values import CannotCompile, RecordParts, Value
from rheos.core.state.columnar.record_column import field_types, fits
from rheos.core.state.columnar.string_codes import StringCodes


class SharedRecords:
    """The classes whose objects the methods of one function share or change."""

    def __init__(self) -> None:
        self._shared: set[type] = set()
        self._changed: set[type] = set()

    def share(self, cls: type, line: int) -> None:
        """Note that others may refer to an object of a class. Raise CannotCompile if objects of the
        class are changed."""
        if not is_frozen(cls):
            self._shared.add(cls)
            self._check(cls, line)

    def change(self, cls: type, line: int) -> None:
        """Note that an object of a class is changed. Raise CannotCompile if such objects are shared."""
        self._changed.add(cls)
        self._check(cls, line)

    def _check(self, cls: type, line: int) -> None:
        if cls in self._shared & self._changed:
            raise CannotCompile(
                f"a change of {cls.__name__} cannot be compiled, because the function also emits such "
                "objects, or reads constants of this class",
                line,
                "make a new object instead of changing one",
            )


def class_of_records(given: Any) -> type | None:
    """Return the dataclass of the values of a collection of constants; None if they are not objects of
    one class that compiled code supports."""
    match given:
        case dict() | types.MappingProxyType():
            values = list(given.values())
        case list() | tuple():
            values = list(given)
        case _:
            return None
    classes = {type(each) for each in values}
    cls = classes.pop() if len(classes) == 1 else None
    if cls is None or field_kinds(cls) is None:
        return None
    known = field_types(cls)
    assert known is not None
    return cls if all(fits(each, cls, known) for each in values) else None


def record_constant(given: Any, texts: StringCodes, line: int) -> Value | None:
    """Return a constant that is a dataclass; None for other constants."""
    cls = class_of_records([given])
    if cls is None:
        return None
    kinds = field_kinds(cls)
    assert kinds is not None
    fields = {name: constant_of(getattr(given, name), texts, line) for name in kinds}
    return Value("record", "", "", None, RecordParts(cls, fields))
