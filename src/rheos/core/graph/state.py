"""Declarations of state: class attributes of the user's functions.

    class Count(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, default=0)

On the worker, the runtime binds each declaration to a handle (`operators`/`state`). The handle is an
attribute of the function's own instance, and hides the declaration. Using the declaration itself is an
error, because there is no key.

Most state is keyed. Operator state and broadcast state belong to a subtask instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar

from rheos.core.annotations import resolved_annotations
from rheos.core.errors import ProgramError, SchemaError, Site, StateAccessError
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import call_site, located
from rheos.core.unknown_names import HintedBase

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

Time: TypeAlias = Literal["event_time", "processing_time"]


@dataclass(frozen=True)
class TimeToLive(HintedBase):
    """Time that state lives after its last update: `TimeToLive("1h")`. Older state is never visible.

    `time` is event time or processing time. A write is an update; with `renewed_on="read_and_write"`,
    so is a read. Each element of a list and each entry of a map has its own time."""

    duration: Duration
    time: Time = "event_time"
    renewed_on: Literal["write", "read_and_write"] = "write"

    def check(self) -> None:
        """Check the time to live.

        Raises:
            ProgramError: The duration is not positive, or another field has an unknown value.
        """
        if self.ms <= 0:
            raise ProgramError(f"a time to live must be greater than 0: {self!r}", hint='write "1h"')
        for name, given, known in (
            ("time", self.time, ("event_time", "processing_time")),
            ("renewed_on", self.renewed_on, ("write", "read_and_write")),
        ):
            if given not in known:
                raise ProgramError(
                    f"{name}={given!r} is not known", hint=f"write {' or '.join(map(repr, known))}"
                )

    @property
    def ms(self) -> int:
        """Return the duration in ms. Raise ProgramError if it is invalid."""
        return duration_ms(self.duration)


class StateDeclaration(HintedBase):
    """A named piece of state, by default one per key. Its name is that of the class attribute that
    declares it."""

    kind: ClassVar[str]
    name: str = ""
    site: Site
    """Place of the declaration in the program."""
    ttl: TimeToLive | None = None
    """Time to live; None for no limit."""

    def _lives(self, ttl: TimeToLive | Duration | None) -> None:
        if ttl is None:
            return
        self.ttl = ttl if isinstance(ttl, TimeToLive) else TimeToLive(ttl)
        with located(self.site):
            self.ttl.check()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        declared = super().__new__(cls)
        declared.site = call_site()
        return declared

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, function: object, value: object) -> None:
        """Refuse an assignment to the attribute, because its value would not be stored. (Without a
        `__get__`, reading the bound handle is as fast as reading any attribute.)"""
        if value is self:
            return  # The default of a dataclass field.
        raise StateAccessError(
            f"{self.name!r} is a declared state, and an assignment to it would not be stored",
            site=call_site(),
            hint=self._written_by.format(name=self.name),
        )

    def _no_key(self) -> NoReturn:
        if not self.name:
            raise StateAccessError(
                "the state is used without being an attribute of a class",
                site=self.site,
                hint="declare it as a class attribute of the keyed function, next to the methods",
            )
        raise StateAccessError(
            f"state {self.name!r} was used outside {self._used_in}",
            hint=self._use_it_in,
        )

    _written_by: ClassVar[str] = "change its content: self.{name}.clear(), ..."
    _used_in: ClassVar[str] = "a context with a key"
    _use_it_in: ClassVar[str] = (
        "use it in process_element, on_timer or a window's process, after key_by"
    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._no_key()


class ValueState(StateDeclaration, Generic[T]):
    """One value per key, declared as `rh.ValueState(int, default=0)`. `value` reads the value (or the
    default if none was set) and writes it; `clear()` removes it.

    It is declared in the class of a function and used in its methods. There it belongs to the key of
    the current row or timer. Anywhere else it raises StateAccessError.

    Args:
        type: type of the values. State is stored as this type, and the types of later versions of the
            program are checked against it.
        default: value to read if none was set; None by default.
        ttl: time after a write for which a value lives, such as "1h", or an rh.TimeToLive. By default
            it lives until it is cleared.
    """

    kind = "value"
    _written_by = "write self.{name}.value = ..."

    def __init__(
        self, type: type[T], default: T | None = None, *, ttl: TimeToLive | Duration | None = None
    ) -> None:
        self.type = type
        self.default = default
        self._lives(ttl)

    @property
    def value(self) -> T:
        """Return the key's value: the default if none was set or the value has expired."""
        self._no_key()

    @value.setter
    def value(self, value: T) -> None:
        self._no_key()

    def clear(self) -> None:
        """Remove the key's value: reads return the default again."""
        self._no_key()


class ListState(StateDeclaration, Generic[T]):
    """A list per key, declared as `rh.ListState(str)`: `append`, `extend`, iteration, `len()`,
    `replace(values)`, `clear()`."""

    kind = "list"
    _written_by = "write self.{name}.append(...), or self.{name}.replace([...])"

    def __init__(self, type: type[T], *, ttl: TimeToLive | Duration | None = None) -> None:
        self.type = type
        self._lives(ttl)


class MapState(StateDeclaration, Generic[K, V]):
    """A dict per key, declared as `rh.MapState(str, int)`: `[k]`, `get`, `in`, `items()`, `del`,
    `len()`, `clear()`."""

    kind = "map"
    _written_by = "write self.{name}[key] = ..."

    def __init__(
        self, key_type: type[K], value_type: type[V], *, ttl: TimeToLive | Duration | None = None
    ) -> None:
        self.key_type = key_type
        self.value_type = value_type
        self._lives(ttl)


class ReducingState(StateDeclaration, Generic[T]):
    """One value per key, declared as `rh.ReducingState(int, max)`. The function combines added values
    two at a time: `add(value)`, `value` (None if nothing was added), `clear()`."""

    kind = "reducing"
    _written_by = "write self.{name}.add(...)"

    def __init__(
        self,
        type: type[T],
        reduce: Callable[[T, T], T],
        *,
        ttl: TimeToLive | Duration | None = None,
    ) -> None:
        given: object = reduce
        if not callable(given):
            with located(self.site):
                raise ProgramError(
                    f"a ReducingState takes a function of two values, not {given!r}",
                    hint="write rh.ReducingState(int, max)",
                )
        self.type = type
        self.reduce = reduce
        self._lives(ttl)


class AggregatingState(StateDeclaration, Generic[A]):
    """One accumulator per key, declared as `rh.AggregatingState(Spread())`: `add(record)`, `value` (the
    result of the accumulator; None if nothing was added), `clear()`."""

    kind = "aggregating"
    _written_by = "write self.{name}.add(...)"

    def __init__(
        self, function: AggregateFunction[A], *, ttl: TimeToLive | Duration | None = None
    ) -> None:
        with located(self.site):
            self.type = _accumulator_type(function)
        self.function = function
        self._lives(ttl)


def _accumulator_type(function: Any) -> Any:
    """Return the annotation of `create_accumulator`."""
    if not isinstance(function, AggregateFunction):
        called = f"{function.__name__}()" if isinstance(function, type) else "MyAggregate()"
        raise ProgramError(
            f"an AggregatingState takes an instance of an AggregateFunction, not {function!r}",
            hint=f"write rh.AggregatingState({called})",
        )
    create = type(function).create_accumulator
    hints = resolved_annotations(create)
    if hints.get("return", Any) in (Any, None, NoneType) or isinstance(hints["return"], TypeVar):
        raise SchemaError(
            f"{type(function).__name__} does not declare the type of its accumulator",
            hint="annotate it: def create_accumulator(self) -> Range",
        )
    return hints["return"]


class UnkeyedStateDeclaration(StateDeclaration):
    """State of a subtask instead of a key."""

    _used_in = "a running function"
    _use_it_in = "use it in open() and in methods that are called for rows; not in __init__"


class OperatorListState(UnkeyedStateDeclaration, Generic[T]):
    """A list per subtask, declared as `rh.OperatorListState(str)`: `append`, `extend`, iteration,
    `len()`, `replace(values)`, `clear()`. When a job is restored at another parallelism, Rheos
    distributes the elements of all subtasks one by one."""

    kind = "operator list"
    _written_by = "write self.{name}.append(...), or self.{name}.replace([...])"

    def __init__(self, type: type[T]) -> None:
        self.type = type


class OperatorUnionState(UnkeyedStateDeclaration, Generic[T]):
    """A list per subtask, like OperatorListState: `rh.OperatorUnionState(str)`. When a job is restored,
    each subtask gets the elements of all subtasks. In `open`, `replace` the list by the elements that
    belong to the subtask; otherwise the list grows with every restore."""

    kind = "operator union"
    _written_by = "write self.{name}.append(...), or self.{name}.replace([...])"

    def __init__(self, type: type[T]) -> None:
        self.type = type


class BroadcastState(UnkeyedStateDeclaration, Generic[K, V]):
    """A dict that is equal in all subtasks, declared as `rh.BroadcastState(str, Rule)`: `[k]`, `get`,
    `in`, `items()`, `len()`. All methods may read it, but only `process_broadcast_element` may write
    it, because its rows reach every subtask."""

    kind = "broadcast"
    _written_by = "write self.{name}[key] = ... in process_broadcast_element"

    def __init__(self, key_type: type[K], value_type: type[V]) -> None:
        self.key_type = key_type
        self.value_type = value_type


def bind(function: object, attribute: str, handle: object) -> None:
    """Set the handle on the function's own instance, where it hides the declaration."""
    vars(function)[attribute] = handle


def declarations(function: object) -> dict[str, StateDeclaration]:
    """Return the state that a function's class declares, by name, bases first."""
    return {
        name: value
        for cls in reversed(type(function).__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, StateDeclaration)
    }


def keyed_declarations(function: object) -> dict[str, StateDeclaration]:
    """Return the declarations of keyed state."""
    found = declarations(function)
    return {
        name: state for name, state in found.items() if not isinstance(state, UnkeyedStateDeclaration)
    }


def unkeyed_declarations(function: object) -> dict[str, UnkeyedStateDeclaration]:
    """Return the declarations of state that is not keyed."""
    found = declarations(function)
    return {name: state for name, state in found.items() if isinstance(state, UnkeyedStateDeclaration)}
