"""The check whether creating a record of a dataclass only sets its fields. Then the compiler may read
and emit columns instead."""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any


def only_sets_fields(record: type) -> bool:
    """Return whether records of the dataclass have exactly the values that they are created with."""
    if not dataclasses.is_dataclass(record):
        return False

    def defined(name: str) -> Any:
        return inspect.getattr_static(record, name, None)

    fields = dataclasses.fields(record)
    taken = [field for field in fields if field.init]
    init = defined("__init__")
    return (
        _is_generated(init)
        and init.__code__.co_argcount + init.__code__.co_kwonlyargcount == len(taken) + 1
        and defined("__post_init__") is None
        and defined("__new__") is object.__dict__["__new__"]
        and defined("__getattribute__") is object.__getattribute__
        and (defined("__setattr__") is object.__setattr__ or _is_generated(defined("__setattr__")))
        and inspect.getattr_static(type(record), "__call__") is type.__dict__["__call__"]
        and all(_is_plain(defined(field.name)) for field in fields)
    )


def _is_generated(method: Any) -> bool:
    """Return whether `dataclasses` has generated the method. It compiles from strings."""
    return isinstance(method, types.FunctionType) and method.__code__.co_filename == "<string>"


def _is_plain(attribute: Any) -> bool:
    """Return whether an attribute of the class with the name of a field leaves the field as it is: it
    is missing, a slot, or a default."""
    return isinstance(attribute, types.MemberDescriptorType) or not hasattr(attribute, "__get__")
