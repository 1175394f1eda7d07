"""Writes the use of states that are lists: `append`, `clear`, `len`, and loops over them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.state_values import element_code
from rheos.core.compiler.values import KINDS, Kind, Value
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import ListState


class ListWriter:
    """A writer of accesses to lists. `value` writes appended elements."""

    def __init__(self, out: Writer, scope: MethodScope, value: Callable[[ast.expr], Value]) -> None:
        self.out = out
        self.scope = scope
        self._value = value
        self._before: dict[str, tuple[str, str]] = {}
        """Start and length of lists that are being replaced, as their elements are still read."""

    def append(self, declared: ListState[Any], node: ast.expr) -> None:
        """Write `append`. Raise CannotCompile if the value has another type than the elements."""
        value, name = self._value(node), declared.name
        code = element_code(
            self.out, KINDS[declared.type], value, f"state {name!r} is a list of", node.lineno
        )
        arrays = [
            self._array(declared, part) for part in ("values", "starts", "lengths", "rooms", "used")
        ]
        arrays.append(self._array(declared, "changed", "bool"))
        self.out.write(f"{arrays[0]} = append_element({', '.join(arrays)}, slot, {code})")
        self.out.replaced.add(arrays[0])

    def clear(self, declared: ListState[Any]) -> None:
        """Write `clear`."""
        for part in ("starts", "lengths", "rooms"):
            self.out.write(f"{self._array(declared, part)}[slot] = 0")
        for part in ("replaced", "changed"):
            self.out.write(f"{self._array(declared, part, 'bool')}[slot] = True")

    def length(self, declared: ListState[Any]) -> Value:
        """Write `len`."""
        return Value("int", self._place(declared)[1])

    def items(self, declared: ListState[Any]) -> tuple[str, Callable[[str], Value]]:
        """Return the number of elements, and a function that writes one by its position."""
        start, length = self._place(declared)
        values = self._array(declared, "values")
        kind = KINDS[declared.type]
        return length, lambda at: Value(kind, self.out.held(f"{values}[{start} + {at}]"))

    @contextmanager
    def replacing(self, declared: ListState[Any]) -> Iterator[None]:
        """Write code that clears the list. In the block, reads see the list as it was before."""
        self._before[declared.name] = self._place(declared)
        self.clear(declared)
        yield
        del self._before[declared.name]

    def _place(self, declared: ListState[Any]) -> tuple[str, str]:
        """Return the variables with the start and the length of the list."""
        before = self._before.get(declared.name)
        if before is not None:
            return before
        self.out.read_lists.add(declared.name)
        start, length = self._array(declared, "starts"), self._array(declared, "lengths")
        return self.out.held(f"{start}[slot]"), self.out.held(f"{length}[slot]")

    def _array(self, declared: ListState[Any], part: str, kind: Kind = "int") -> str:
        kind = KINDS[declared.type] if part == "values" else kind
        given = Parameter("list", declared.name, kind, part=part)
        return self.out.parameter(f"l_{declared.name}_{part}", given)
