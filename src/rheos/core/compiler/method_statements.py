"""Writes calls of the user's own methods and functions as statements: their whole bodies.

The body of the called method is written in place of the call, in a loop that runs once. A return
statement ends that loop.
"""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Protocol

from rheos.core.compiler.called_functions import is_generator
from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.forms import Returns
from rheos.core.compiler.loop_statements import LoopStatements
from rheos.core.compiler.values import CannotCompile


class Bodies(Protocol):
    """The writer of statements."""

    returns: Returns

    def of_called(self, *, yields: bool, returns: Returns) -> AbstractContextManager[None]: ...

    def write_whole(self, tree: ast.FunctionDef) -> None: ...


class MethodStatements:
    """A writer of such calls."""

    def __init__(self, expressions: Expressions, loops: LoopStatements, bodies: Bodies) -> None:
        self._expressions = expressions
        self._loops = loops
        self._bodies = bodies

    def run(self, node: ast.Call, *, yields: bool) -> bool:
        """Write a call for its effects: `yield from self.name(...)`, or `self.name(...)` alone. Return
        False if it is not the call of a method. Raise CannotCompile."""
        called = self._expressions.names.method(node.func)
        if called is None:
            return False
        shown = ast.unparse(node.func)
        if is_generator(called) and not yields:
            raise CannotCompile(f"{shown}() has no effect", node.lineno, "write `yield from`")
        if yields and not is_generator(called):
            raise CannotCompile(f"{shown}() is no generator", node.lineno, "yield its records")
        # The value of a return statement has no effect, but its parts may have one.
        self._write(called, node, "records", is_method=True, discards=True)
        return True

    def return_result(self, node: ast.Call) -> bool:
        """Write the return of what a method returns. Return False for other calls."""
        if self._bodies.returns in ("value", "values", "choice"):
            return False
        own = self._expressions.calls.user_function(node)
        if own is None:
            return False
        self._write(own[0], node, self._bodies.returns, is_method=own[1])
        return True

    def emit_result(self, node: ast.expr) -> bool:
        """Write the emission of the record that a function or method returns. Return False for other
        expressions."""
        own = self._expressions.calls.user_function(node)
        if own is None or self._bodies.returns != "records":
            return False
        assert isinstance(node, ast.Call)
        self._write(own[0], node, "record", is_method=own[1])
        return True

    def _write(
        self,
        called: FunctionType,
        node: ast.Call,
        returns: Returns,
        *,
        is_method: bool,
        discards: bool = False,
    ) -> None:
        yields = is_generator(called)
        if yields and returns == "record":
            raise CannotCompile(
                f"{ast.unparse(node.func)}() returns an iterator, not a record", node.lineno
            )
        with (
            self._expressions.calls.within(called, node, is_method=is_method) as function,
            self._loops.inner_body(),
            self._bodies.of_called(yields=yields, returns=returns),
        ):
            if discards and not yields:
                _check_returns_nothing(function.tree)
            self._bodies.write_whole(function.tree)


def _check_returns_nothing(tree: ast.FunctionDef) -> None:
    for each in ast.walk(tree):
        match each:
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                raise CannotCompile(
                    f"{tree.name}() returns a value, which the call ignores", each.lineno, "use it"
                )
