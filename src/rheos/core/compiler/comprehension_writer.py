"""Writes `any`, `all` and `sum` of a comprehension as loops. No list is made."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rheos.core.compiler.comprehension_names import with_own_names
from rheos.core.compiler.condition_writer import Conditions
from rheos.core.compiler.operator_writer import Operators
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import TOO_LARGE, TOO_LARGE_HINT, CannotCompile, Value
from rheos.core.compiler.writer import Writer

REDUCTIONS = (any, all, sum)
"""The functions whose argument may be a comprehension."""

Items = Callable[[ast.expr], tuple[str, Callable[[str], Value]]]
"""Function that returns the number of items of an expression, and a writer of one by its position."""


class ComprehensionWriter:
    """A writer of comprehensions. `value` writes elements, and `items` what a loop runs over."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        operators: Operators,
        conditions: Conditions,
        value: Callable[[ast.expr], Value],
        items: Items,
    ) -> None:
        self.out = out
        self.scope = scope
        self.operators = operators
        self.conditions = conditions
        self._value = value
        self._items = items

    def reduce(self, called: Any, node: ast.GeneratorExp | ast.ListComp) -> Value:
        """Write `any`, `all` or `sum` of a comprehension with one loop. Raise CannotCompile."""
        line = node.lineno
        match node.generators:
            case [ast.comprehension(target=ast.Name(), is_async=0)]:
                pass
            case _:
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", line, "use one loop")
        if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            raise CannotCompile("an assignment in a comprehension cannot be compiled", line)
        own = with_own_names(node)
        [loop], element = own.generators, own.elt
        assert isinstance(loop.target, ast.Name)
        count, item_at = self._items(loop.iter)
        found = self.out.held({any: "False", all: "True", sum: "0"}[called])
        # A list has all of its elements before the function sees the first one.
        stops = called is not sum and isinstance(node, ast.GeneratorExp)
        each = self.out.name()
        self.out.loops += 1
        with self.scope.perhaps(), self.out.block(f"for {each} in range({count}):"):
            with self.out.block("if failed[0] != 0:"):
                self.out.write("break")
            self.scope.assign(self.out, loop.target.id, item_at(each), line)
            for test in loop.ifs:
                with self.out.block(f"if not {self.conditions.truth(test)}:"):
                    self.out.write("continue")
            if called is sum:
                self._add(found, self._value(element), line)
            else:
                self._decide(found, called is any, self.conditions.truth(element), stops=stops)
        self.out.loops -= 1
        return Value("int" if called is sum else "bool", found)

    def _decide(self, found: str, result: bool, truth: str, *, stops: bool) -> None:
        with self.out.block(f"if {truth}:" if result else f"if not {truth}:"):
            self.out.write(f"{found} = {result}")
            if stops:
                self.out.write("break")

    def _add(self, found: str, value: Value, line: int) -> None:
        if value.kind not in ("int", "bool"):
            # Versions of Python round sums of floats differently.
            raise CannotCompile(f"sum() of {value.shown} cannot be compiled", line, "add in a loop")
        self.out.require_value(value, line, "TypeError: sum() of None")
        number = self.out.failure(line, f"OverflowError: sum() returned {TOO_LARGE}", TOO_LARGE_HINT)
        whole = self.operators.as_int(value)
        self.out.write(f"{found} = add({found}, {whole}, failed, {number})")
