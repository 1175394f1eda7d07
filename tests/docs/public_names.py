"""Public functions and classes: the exports of `rheos` and `rheos.testing`, with their methods."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import rheos as rh
from rheos import testing

SECTION = re.compile(r"^(Args|Returns|Yields|Raises):$", re.MULTILINE)
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Public:
    """A public function, method, property or class."""

    name: str
    """Name as a program writes it, without `rh.`: "DataStream.map"."""
    value: Any
    """The function itself, or the class."""
    owner: type | None = None
    """Class that the program knows the method by."""
    is_property: bool = False

    @cached_property
    def doc(self) -> str:
        return inspect.cleandoc(self.value.__doc__ or "")

    @cached_property
    def sections(self) -> dict[str, str]:
        """Text of each section, by its title; the text before the first one by ""."""
        before, *rest = SECTION.split(self.doc)
        return {"": before, **dict(zip(rest[::2], rest[1::2], strict=True))}

    @cached_property
    def examples(self) -> list[str]:
        """The blocks of code; for a class, also code in the text that creates it."""
        blocks = EXAMPLE.findall(self.doc)
        if not inspect.isclass(self.value):
            return blocks
        inline = re.findall(rf"`([^`]*\b{self.value.__name__}\([^`]*\))`", self.doc)
        return [*blocks, *(" ".join(code.split()) for code in inline)]

    def entries(self, section: str) -> list[str]:
        """Return the names that the entries of a section begin with."""
        return re.findall(r"^    \*{0,2}(\w+):", self.sections.get(section, ""), re.MULTILINE)

    @property
    def parameters(self) -> list[str]:
        names = list(inspect.signature(self.value, follow_wrapped=True).parameters)
        bound = self.owner is not None and names[:1] in (["self"], ["cls"])
        return [name for name in names[bound:] if not name.startswith("_")]

    @cached_property
    def source(self) -> ast.AST:
        return ast.parse(textwrap.dedent(inspect.getsource(self.value)))

    @property
    def errors(self) -> set[str]:
        """Names of the errors that the function itself raises."""
        raised = (node.exc for node in ast.walk(self.source) if isinstance(node, ast.Raise))
        calls = (each.func if isinstance(each, ast.Call) else each for each in raised if each)
        names = {ast.unparse(each) for each in calls}
        return {name for name in names if name.endswith("Error") and name != "NotImplementedError"}

    @property
    def locates_errors(self) -> bool:
        """Whether the function adds the caller's line to the errors of what it calls."""
        names = (node.id for node in ast.walk(self.source) if isinstance(node, ast.Name))
        return not {"located", "located_at_call"}.isdisjoint(names)


def _methods(owner: type) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Yield the public methods that the class or a base has added: one that overrides another is
    documented there."""
    bases = [base for base in owner.__mro__ if base.__module__.startswith("rheos.")]
    for number, base in enumerate(bases):
        for name, value in vars(base).items():
            function = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
            overrides = any(name in vars(above) for above in bases[number + 1 :])
            if not name.startswith("_") and inspect.isfunction(function) and not overrides:
                yield name, function, isinstance(value, property | cached_property)


def _found(name: str, value: Any) -> Iterator[Public]:
    if inspect.ismodule(value):
        for each in getattr(value, "__all__", vars(value)):
            inner = getattr(value, each)
            if hasattr(value, "__all__") or _is_exported_function(value, each, inner):
                yield from _found(f"{name}.{each}", inner)
    elif not (getattr(value, "__module__", None) or "").startswith("rheos."):
        return
    elif inspect.isclass(value):
        yield Public(name, value)
        for method, function, is_property in _methods(value):
            yield Public(f"{name}.{method}", function, value, is_property)
    elif inspect.isfunction(value):
        yield Public(name, value)


def _is_exported_function(module: Any, name: str, value: Any) -> bool:
    """Return whether a module without `__all__` exports a function. A package exports what it
    imports."""
    is_own = hasattr(module, "__path__") or getattr(value, "__module__", None) == module.__name__
    return inspect.isfunction(value) and not name.startswith("_") and is_own


@cache
def public_names() -> tuple[Public, ...]:
    """Return each public function and class once, by the first name that leads to it."""
    names = [(name, getattr(rh, name)) for name in rh.__all__]
    names += [(f"testing.{name}", getattr(testing, name)) for name in testing.__all__]
    found: dict[Any, Public] = {}
    for name, value in names:
        for each in _found(name, value):
            found.setdefault(each.value, each)
    return tuple(found.values())
