"""Keyed state as the user declares it: class attributes of a keyed function.

    class Count(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, default=0)

On the worker the runtime binds each declaration to a handle (`operators`/`state`), as an attribute of
the function's own instance, which hides the declaration. Using the declaration itself is an error:
there is no key.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

from rheos.errors import Site, StateAccessError
from rheos.site import call_site

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class StateDeclaration:
    """A named piece of keyed state. The name is that of the class attribute."""

    kind: ClassVar[str]
    name: str = ""
    site: Site
    """Where it is written."""

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

    def __init__(self, type: type[T], default: T | None = None) -> None:
        self.type = type
        self.default = default

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

    def __init__(self, type: type[T]) -> None:
        self.type = type


class MapState(StateDeclaration, Generic[K, V]):
    """A dict per key: `[k]`, `get`, `in`, `items()`, `del`, `len()`, `clear()`."""

    kind = "map"

    def __init__(self, key_type: type[K], value_type: type[V]) -> None:
        self.key_type = key_type
        self.value_type = value_type


def declarations(function: object) -> dict[str, StateDeclaration]:
    """The state that a function's class declares, by name, bases first."""
    return {
        name: value
        for cls in reversed(type(function).__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, StateDeclaration)
    }
