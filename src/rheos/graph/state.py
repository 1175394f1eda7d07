"""Keyed state as the user declares it: class attributes of a keyed function.

    class Count(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, default=0)

On the worker the runtime binds each declaration to a handle (`operators`/`state`), as an attribute of
the function's own instance, which hides the declaration. Using the declaration itself is an error:
there is no key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar

from rheos.errors import ProgramError, Site, StateAccessError
from rheos.protocol.durations import Duration, duration_ms
from rheos.site import call_site, located

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Time: TypeAlias = Literal["event_time", "processing_time"]


@dataclass(frozen=True)
class TimeToLive:
    """How long state lives after its last update: `TimeToLive("1h")`. What is older is not seen again.

    `time` is the clock: that of the records, or the wall clock. An update is a write, with
    `renewed_on="read_and_write"` a read, too. Of a list each element, and of a map each entry, has a
    time of its own.
    """

    duration: Duration
    time: Time = "event_time"
    renewed_on: Literal["write", "read_and_write"] = "write"

    def check(self) -> None:
        """Raises ProgramError where there is no such time."""
        if self.ms <= 0:
            raise ProgramError(f"state lives for longer than nothing: {self!r}", hint='write "1h"')
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
        """Raises ProgramError where it is no duration."""
        return duration_ms(self.duration)


class StateDeclaration:
    """A named piece of keyed state. The name is that of the class attribute."""

    kind: ClassVar[str]
    name: str = ""
    site: Site
    """Where it is written."""
    ttl: TimeToLive | None = None
    """How long it lives; None for ever."""

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

    def _no_key(self) -> NoReturn:
        if not self.name:
            raise StateAccessError(
                "state was used that is no attribute of a class",
                site=self.site,
                hint="declare it as an attribute of the keyed function's class, beside the methods",
            )
        raise StateAccessError(
            f"state {self.name!r} was used outside a keyed context",
            hint="use it in process_element, on_timer or a window's process, after key_by",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._no_key()


class ValueState(StateDeclaration, Generic[T]):
    """One value per key. `value` reads (the default where nothing was set) and writes; `clear()`."""

    kind = "value"

    def __init__(
        self, type: type[T], default: T | None = None, *, ttl: TimeToLive | Duration | None = None
    ) -> None:
        self.type = type
        self.default = default
        self._lives(ttl)

    @property
    def value(self) -> T:
        self._no_key()

    @value.setter
    def value(self, value: T) -> None:
        self._no_key()

    def clear(self) -> None:
        self._no_key()


class ListState(StateDeclaration, Generic[T]):
    """A list per key: `append`, `extend`, iteration, `len()`, `replace(values)`, `clear()`."""

    kind = "list"

    def __init__(self, type: type[T], *, ttl: TimeToLive | Duration | None = None) -> None:
        self.type = type
        self._lives(ttl)


class MapState(StateDeclaration, Generic[K, V]):
    """A dict per key: `[k]`, `get`, `in`, `items()`, `del`, `len()`, `clear()`."""

    kind = "map"

    def __init__(
        self, key_type: type[K], value_type: type[V], *, ttl: TimeToLive | Duration | None = None
    ) -> None:
        self.key_type = key_type
        self.value_type = value_type
        self._lives(ttl)


def declarations(function: object) -> dict[str, StateDeclaration]:
    """The state that a function's class declares, by name, bases first."""
    return {
        name: value
        for cls in reversed(type(function).__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, StateDeclaration)
    }
