"""Creates instances of the user's dataclasses from the values of their fields, and reads the fields.

A frozen dataclass sets each field through `object.__setattr__`, because its own `__setattr__` refuses.
Creating one therefore takes three times as long as creating one that is not frozen. If its `__init__`
only sets the fields, Rheos sets them directly; the resulting instance is the same.
"""

from __future__ import annotations

import dataclasses
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any

Maker = Callable[..., Any]


@lru_cache(maxsize=256)
def maker_of(record: type) -> Maker:
    """Return a function that creates an instance from the values of the fields of its `__init__`, in
    order."""
    fields = [field for field in dataclasses.fields(record) if field.init]
    names = [field.name for field in fields]
    if _only_sets(record, names):
        places = [inspect.getattr_static(record, name, None) for name in names]
        if all(isinstance(place, MemberDescriptorType) for place in places):
            setters = {f"set{n}": place.__set__ for n, place in enumerate(places)}
            lines = [f"set{n}(made, v{n})" for n in range(len(names))]
            return _function(["made = new(record)", *lines, "return made"], names, record, setters)
        if record.__dictoffset__ and not any(inspect.isdatadescriptor(place) for place in places):
            lines = [f"values[{name!r}] = v{n}" for n, name in enumerate(names)]
            head = ["made = new(record)", "values = made.__dict__"]
            return _function([*head, *lines, "return made"], names, record)
    if not any(field.kw_only for field in fields):
        return record
    given = ", ".join(f"{name}=v{n}" for n, name in enumerate(names))
    return _function([f"return record({given})"], names, record)


@lru_cache(maxsize=256)
def attribute_lists(names: tuple[str, ...]) -> Callable[[Sequence[Any]], list[list[Any]]]:
    """Return a function that lists the values of each of these attributes, of many objects.

    Python reads an attribute in half the time if the code names it, instead of an `attrgetter`.
    """
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        return lambda objects: [list(map(attrgetter(name), objects)) for name in names]
    lists = ", ".join(f"[each.{name} for each in objects]" for name in names)
    known: dict[str, Any] = {}
    exec(f"def read(objects):\n    return [{lists}]", known)
    read: Callable[[Sequence[Any]], list[list[Any]]] = known["read"]
    return read


def _only_sets(record: type, names: Sequence[str]) -> bool:
    """Return whether this is a frozen dataclass whose `__init__` only sets these fields, and whose
    creation nothing else affects."""
    params: Any = record.__dict__.get("__dataclass_params__")
    if params is None or not params.frozen or not params.init:
        return False
    init: Any = record.__dict__["__init__"]
    code = init.__code__
    return (
        code.co_filename == "<string>"  # The `__init__` is generated, not written by the user.
        and code.co_argcount + code.co_kwonlyargcount == len(names) + 1  # It has no InitVar.
        and len(names) == len(dataclasses.fields(record))
        and not hasattr(record, "__post_init__")
        and inspect.getattr_static(record, "__new__") is object.__dict__["__new__"]
        and inspect.getattr_static(type(record), "__call__") is type.__dict__["__call__"]
    )


def _function(
    lines: Sequence[str], names: Sequence[str], record: type, scope: Mapping[str, Any] | None = None
) -> Maker:
    """Return a function with this body, whose parameters are `v0`, `v1` and so on."""
    known = {"new": object.__new__, "record": record, **(scope or {})}
    values = ", ".join(f"v{n}" for n in range(len(names)))
    exec("\n    ".join([f"def make({values}):", *lines]), known)
    make: Maker = known["make"]
    return make
