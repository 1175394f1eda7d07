"""Deep copies of one value, made many times. Most values are copied much faster than by
`copy.deepcopy`."""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable
from functools import partial
from typing import Any

_ATOMS = frozenset({int, float, str, bytes, bool, complex, type(None)})
"""Classes whose values need no copy."""


def copier(value: Any) -> Callable[[], Any]:
    """Return a function that returns a new deep copy of the value. The value must not change.

    Flat lists, sets and dicts, and objects with such attributes, are copied part by part. Any other
    value, and one that contains a part twice, is copied by `copy.deepcopy`.
    """
    return _fast(value, set()) or partial(copy.deepcopy, value)


def _fast(value: Any, seen: set[int]) -> Callable[[], Any] | None:
    """Return a fast copier; None if only `copy.deepcopy` is exact. `seen` has the ids of parts."""
    cls = value.__class__
    if cls in _ATOMS:
        return lambda: value
    if id(value) in seen:
        return None
    seen.add(id(value))
    if cls in (list, set):
        return value.copy if _ATOMS.issuperset(map(type, value)) else None
    if cls is dict:
        flat = _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values()))
        return value.copy if flat else None
    return _of_object(value, cls, seen)


def _of_object(value: Any, cls: type[Any], seen: set[int]) -> Callable[[], Any] | None:
    if hasattr(cls, "__deepcopy__") or hasattr(cls, "__setstate__") or cls in copyreg.dispatch_table:
        return None
    try:
        made_by, given, attributes, *others = value.__reduce_ex__(4)
    except Exception:
        return None  # Copying it will raise the error.
    plain = made_by is copyreg.__newobj__ and given == (cls,) and type(attributes) is dict  # type: ignore[attr-defined]
    if not plain or any(part is not None for part in others):
        return None
    fixed = {name: part for name, part in attributes.items() if part.__class__ in _ATOMS}
    copied = {name: _fast(part, seen) for name, part in attributes.items() if name not in fixed}
    makers = [(name, make) for name, make in copied.items() if make is not None]
    if len(makers) < len(copied):
        return None
    order = dict.fromkeys(attributes) | fixed
    new: Callable[..., Any] = cls.__new__

    def make() -> Any:
        made = new(cls)
        inside = made.__dict__
        inside.update(order)
        for name, part in makers:
            inside[name] = part()
        return made

    return make
