"""Names that a method uses from its surroundings: constants, record classes, and dicts of constants."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import inspect
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.compiler.values import (
    BITS_64,
    EPOCH,
    KINDS,
    MICROSECOND,
    NONE,
    TOO_LARGE,
    TOO_LARGE_HINT,
    ZEROS,
    CannotCompile,
    Kind,
    Value,
)
from rheos.core.graph.state import BroadcastState
from rheos.core.state.columnar.string_codes import StringCodes

_MOST_PLACES = 1 << 20
"""Maximum number of places of a table, which has a place for each combination of the parts of its
keys."""

DTYPES: dict[Kind, Any] = {
    "int": np.int64,
    "float": np.float64,
    "bool": np.bool_,
    "str": np.int64,
    "moment": np.int64,
    "duration": np.int64,
}

MISSING = object()
"""Marker for a name that is not defined."""


@dataclass(frozen=True, eq=False)
class Constant:
    """An object from outside a method, whose value is compiled into a loop."""

    read: Callable[[], Any]
    """Returns the current object."""
    value: Any
    members: tuple[Any, ...] | None
    """Keys, values or elements of a collection, and fields of dataclasses; None for other objects."""

    def holds(self) -> bool:
        """Return whether the object is still the same, with the same members."""
        if self.read() is not self.value:
            return False
        now = _members(self.value)
        if self.members is None or now is None:
            return now is self.members
        return len(now) == len(self.members) and all(map(operator.is_, now, self.members))


def _members(value: Any) -> tuple[Any, ...] | None:
    match value:
        case dict() | types.MappingProxyType():
            members = [*value, *value.values()]
        case list() | tuple() | set() | frozenset():
            members = list(value)
        case _:
            return tuple(_fields(value)) or None
    return (*members, *(part for each in members for part in _fields(each)))


def _fields(value: Any) -> list[Any]:
    """Return the attributes of a dataclass; an empty list for other objects."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return []
    return [getattr(value, each.name, MISSING) for each in dataclasses.fields(value)]


class SurroundingNames:
    """The names that a function can access in addition to its own."""

    def __init__(
        self, function: types.FunctionType, given: Mapping[str, Any] = types.MappingProxyType({})
    ) -> None:
        """Create the names. `given` has further ones."""
        self._given = given
        self.constants: dict[str, Constant] = {}
        """Everything that was noted, by its source code."""
        self._called: dict[types.FunctionType, SurroundingNames] = {}
        cells = function.__closure__ or ()
        self._cells = dict(zip(function.__code__.co_freevars, cells, strict=True))
        self._globals = function.__globals__

    def of_called(self, function: types.FunctionType) -> SurroundingNames:
        """Return the names that a called function can access."""
        if function not in self._called:
            self._called[function] = SurroundingNames(function)
        return self._called[function]

    def all_constants(self) -> Iterator[Constant]:
        """Yield everything that was noted here and for called functions."""
        yield from self.constants.values()
        for each in self._called.values():
            yield from each.all_constants()

    def find(self, name: str) -> Any:
        """Return the value of a name; MISSING if it is not defined."""
        if name in self._given:
            return self._given[name]
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:
                return MISSING
        for names in (self._globals, vars(builtins)):
            if name in names:
                return names[name]
        return MISSING

    def noted(self, code: str, read: Callable[[], Any]) -> Any:
        """Return the object that `read` returns for some source code, and note it as a constant."""
        value = read()
        self.constants.setdefault(code, Constant(read, value, _members(value)))
        return value


def attribute_of(owner: Any, name: str) -> Any:
    """Return an attribute that is stored in an object or its class. MISSING if it does not exist, or if
    code computes it at each access."""
    found = inspect.getattr_static(owner, name, MISSING)
    if isinstance(found, types.MemberDescriptorType) or isinstance(
        owner, enum.Enum | type | types.ModuleType
    ):
        return getattr(owner, name, MISSING)
    return MISSING if hasattr(found, "__get__") else found


def constant_of(given: Any, texts: StringCodes, line: int) -> Value:
    """Return a constant as a value. Raise CannotCompile if compiled code does not support it."""
    kind = KINDS.get(type(given))
    match kind:
        case None if (time := _time_constant(given)) is not None:
            return time
        case None:
            raise CannotCompile(
                f"{given!r} cannot be compiled: values are int, float, bool and str", line
            )
        case "none":
            return NONE
        case "str":
            return Value(kind, str(texts.code(given)))
    if kind == "int" and given not in BITS_64:
        raise CannotCompile(f"{given} is {TOO_LARGE}", line, TOO_LARGE_HINT)
    if kind == "float" and not math.isfinite(given):
        return Value(kind, str(given))
    return Value(kind, f"({given!r})")


def _time_constant(given: Any) -> Value | None:
    """Return the value of a datetime in UTC, or of a timedelta; None for other objects."""
    if type(given) is datetime and given.tzinfo is UTC:
        return Value("moment", f"({(given - EPOCH) // MICROSECOND})")
    if type(given) is timedelta and (whole := given // MICROSECOND) in BITS_64:
        return Value("duration", f"({whole})")
    return None


@dataclass(frozen=True, eq=False)
class Table:
    """A dict of constants: the parts of its keys, sorted, and a place for each combination of them."""

    kinds: tuple[Kind, ...]
    """Kinds of the parts of a key."""
    parts: tuple[npt.NDArray[np.int64], ...]
    places: npt.NDArray[np.int64]
    """Index of the value for each combination; -1 if the dict does not contain it."""
    kind: Kind
    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None
    """Mask of the values that are None; None if no value is."""
    state: str = ""
    """Broadcast state whose entries the arrays have while a loop runs; empty for constants."""


def broadcast_table(declared: BroadcastState[Any, Any], line: int) -> Table:
    """Return the table of a broadcast state, without its entries. Raise CannotCompile if their types
    are not supported."""
    kinds = [KINDS.get(each, "none") for each in (declared.key_type, declared.value_type)]
    if kinds[0] not in ("int", "bool", "str") or kinds[1] == "none":
        raise CannotCompile(
            f"broadcast state {declared.name!r} cannot be compiled",
            line,
            "declare keys of int, bool or str, and values of int, float, bool or str",
        )
    return table_of_entries([], [], kinds[0], kinds[1], StringCodes(), declared.name)


def table_of_entries(
    keys: Sequence[Any], values: Sequence[Any], key: Kind, value: Kind, texts: StringCodes, state: str
) -> Table:
    """Return the table of the entries of a broadcast state. Raise CannotCompile if an integer exceeds
    64 bits."""
    what = f"broadcast state {state!r}"
    numbers = _numbers(keys, key, texts, what, 0)
    order = np.argsort(numbers)
    # One value more: code reads a value, which it ignores, if a key is missing.
    found = _numbers([*values, _zero_of(value)], value, texts, what, 0)
    dtype = DTYPES[value]
    return Table(
        (key,),
        (numbers[order].astype(np.int64),),
        order.astype(np.int64),
        value,
        found.astype(dtype),
        None,
        state,
    )


def places_of(given: Any) -> Any:
    """Return a list or a tuple as a dict of its elements by index, negative ones included. Return any
    other object unchanged."""
    if type(given) not in (list, tuple):
        return given
    return {at: given[at] for at in range(-len(given), len(given))}


def by_number(given: Any) -> Any:
    """Return a list or a tuple as a dict of its elements by number."""
    return dict(enumerate(given))


def unchanged(given: Any) -> Any:
    return given


def members_of(given: Any) -> Any:
    """Return a collection as a dict with its members as keys. Return any other object unchanged."""
    return dict.fromkeys(given, True) if type(given) in (set, frozenset, tuple, list) else given


def table_of(given: Any, name: str, texts: StringCodes, line: int) -> Table:
    """Return the table of a dict. Raise CannotCompile if it is not a dict of constants."""
    if type(given) not in (dict, types.MappingProxyType):
        raise CannotCompile(f"{name} is {type(given).__name__}, not a dict of constants", line)
    members = dict(given)
    keys = [key if isinstance(key, tuple) else (key,) for key in members]
    if not keys:
        raise CannotCompile(f"{name} is empty", line)
    whole = [isinstance(key, tuple) for key in members]
    if any(whole) != all(whole) or len({len(key) for key in keys}) != 1:
        raise CannotCompile(f"the keys of {name} differ in form", line)
    columns = list(zip(*keys, strict=True))
    kinds = tuple(_kind_of(column, f"a key of {name}", line) for column in columns)
    if any(kind not in ("int", "bool", "str") for kind in kinds):
        raise CannotCompile(f"keys of {name} must be int, bool or str", line)
    numbers = [
        _numbers(column, kind, texts, f"a key of {name}", line)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    parts = tuple(np.unique(column) for column in numbers)
    sizes = [len(part) for part in parts]
    if int(np.prod(sizes, dtype=np.float64)) > _MOST_PLACES:
        raise CannotCompile(
            f"{name} has keys of too many combinations: {' x '.join(map(str, sizes))}", line
        )
    places = np.full(sizes, -1, np.int64)
    found = tuple(np.searchsorted(part, column) for part, column in zip(parts, numbers, strict=True))
    places[found] = np.arange(len(keys))
    values = tuple(members.values())
    kind = _kind_of(values, f"a value of {name}", line, nullable=True)
    nulls = np.array([value is None for value in values])
    filled = [_zero_of(kind) if value is None else value for value in values]
    made = _numbers(filled, kind, texts, f"a value of {name}", line).astype(DTYPES[kind])
    return Table(kinds, parts, places.reshape(-1), kind, made, nulls if nulls.any() else None)


def _zero_of(kind: Kind) -> Any:
    return "" if kind == "str" else eval(ZEROS[kind])


def _kind_of(values: Any, what: str, line: int, *, nullable: bool = False) -> Kind:
    classes = {type(value) for value in values}
    if nullable and len(classes) > 1:
        classes.discard(type(None))
    kinds = {KINDS.get(cls) for cls in classes}
    if len(kinds) != 1 or kinds & {None, "none"}:
        names = ", ".join(sorted(cls.__name__ for cls in classes))
        raise CannotCompile(f"{what} is {names}, but must be one of int, float, bool and str", line)
    kind = kinds.pop()
    assert kind is not None
    return kind


def _numbers(values: Any, kind: Kind, texts: StringCodes, what: str, line: int) -> npt.NDArray[Any]:
    if kind == "str":
        return texts.codes(values).astype(np.int64)
    if kind == "int" and any(value not in BITS_64 for value in values):
        raise CannotCompile(f"{what} is an integer that exceeds 64 bits", line)
    if kind == "float":
        return np.array(values, np.float64)
    return np.array([int(value) for value in values], np.int64)
