"""Writes loops as statements, and the `return` that leaves them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import CannotCompile, Value
from rheos.core.compiler.writer import Writer


class LoopStatements:
    """A writer of loops. `body` writes statements, and `put` assigns a value to a target."""

    def __init__(
        self,
        writer: Writer,
        scope: MethodScope,
        expressions: Expressions,
        body: Callable[[Sequence[ast.stmt]], bool],
        put: Callable[[ast.expr, Value], None],
    ) -> None:
        self.out = writer
        self.scope = scope
        self.expressions = expressions
        self._body = body
        self._put = put
        self._flag = "returned"
        """Variable that tells whether the body has executed a return statement within a loop."""
        self._outer = 0
        """Number of loops that contain the body whose statements are being written."""
        self._has_return = False
        """Whether the body has a return statement within a loop."""

    def leave(self) -> None:
        """Write the end of the body at a return statement."""
        if self.out.loops > self._outer:
            self._has_return = True
            self.out.write(f"{self._flag} = True")
        self.out.write("break")

    @contextmanager
    def inner_body(self) -> Iterator[None]:
        """Write the body of a called method, which the block writes. Its return statements end only
        itself."""
        before = self._flag, self._outer, self._has_return
        self._flag, self._outer, self._has_return = self.out.name(), self.out.loops, False
        self.out.write(f"{self._flag} = False")
        with self.scope.perhaps(), self.out.block(f"for {self.out.name()} in range(1):"):
            yield
        self._flag, self._outer, self._has_return = before
        with self.out.block("if failed[0] != 0:"):
            self.out.write("break")

    def write_while(self, node: ast.While) -> None:
        self.out.loops += 1
        with self.scope.perhaps(), self.out.block("while failed[0] == 0:"):
            test = self.expressions.conditions.truth(node.test)
            with self.out.block(f"if not {test}:"):
                self.out.write("break")
            self._body(node.body)
        self._behind_loop()

    def write_for(self, node: ast.For) -> None:
        match node.iter:
            case ast.Call(func=called, args=args, keywords=[]) if (
                1 <= len(args) <= 3 and self.expressions.names.object(called) is range
            ):
                pass
            case _:
                self._loop_over_items(node)
                return
        if not isinstance(node.target, ast.Name):
            raise CannotCompile("a loop over range() must have one variable", node.lineno)
        values = [self.expressions.value(each) for each in args]
        if any(value.kind not in ("int", "bool") for value in values):
            raise CannotCompile(f"{ast.unparse(node.iter)} is not a range of int", node.lineno)
        for value in values:
            self.out.require_value(value, node.lineno, "TypeError: range() of None")
        numbers = [self.out.held(self.expressions.operators.as_int(value)) for value in values]
        if len(numbers) == 3:
            number = self.out.failure(node.lineno, "ValueError: range() arg 3 must not be zero")
            with self.out.block(f"if {numbers[2]} == 0:"):
                self.out.write(f"fail(failed, {number})")
                self.out.write(f"{numbers[2]} = 1")
        target = node.target
        self._loop(node, ", ".join(numbers), lambda each: self._put(target, Value("int", each)))

    def _loop(self, node: ast.For, numbers: str, assign: Callable[[str], None]) -> None:
        """Write a loop over a range. `assign` assigns the variables of the user, from the number."""
        each = self.out.name()
        self.out.loops += 1
        with self.scope.perhaps(), self.out.block(f"for {each} in range({numbers}):"):
            with self.out.block("if failed[0] != 0:"):
                self.out.write("break")
            assign(each)
            self._body(node.body)
        self._behind_loop()

    def _loop_over_items(self, node: ast.For) -> None:
        """Write a loop over constants, over the characters of a string, or over parts of a string."""
        iterated, target, counter = node.iter, node.target, None
        match iterated, target:
            case ast.Call(func=called, args=[inner], keywords=[]), ast.Tuple(elts=[number, item]) if (
                self.expressions.names.object(called) is enumerate
            ):
                iterated, target, counter = inner, item, number
        if not isinstance(target, ast.Name) or not isinstance(counter, ast.Name | None):
            raise CannotCompile(
                f"a loop over {ast.unparse(node.iter)} must have one variable", node.lineno
            )
        count, item_at = self.expressions.items(iterated)

        def assign(each: str) -> None:
            if counter is not None:
                self._put(counter, Value("int", each))
            self._put(target, item_at(each))

        self._loop(node, count, assign)

    def _behind_loop(self) -> None:
        self.out.loops -= 1
        if self._has_return:
            with self.out.block(f"if {self._flag}:"):
                self.out.write("break")
