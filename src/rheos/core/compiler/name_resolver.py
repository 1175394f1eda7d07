"""Resolves the names that a method uses from outside."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from rheos.core.compiler.constants import MISSING, SurroundingNames, attribute_of
from rheos.core.compiler.scope import MethodScope


class NameResolver:
    """Resolves names of a method, and of the function that is being written in place of its call."""

    def __init__(self, scope: MethodScope, around: SurroundingNames) -> None:
        self._scope = scope
        self._around = around

    def object(self, node: ast.expr) -> Any:
        """Return the object to which a name, or an attribute of a module or class, refers; MISSING if
        it does not exist. What the object is now becomes part of the loop."""
        root = _root(node)
        if root is None:
            return MISSING
        # Decided now, because other names are local when the object is read again.
        bound, around = self._scope.is_instance(root), self._around
        if self._scope.has(root.id) and not bound:
            return MISSING
        return around.noted(ast.unparse(node), partial(self._find, node, around, bound))

    def method(self, node: ast.expr) -> FunctionType | None:
        """Return the method of the function's object to which `self.name` or `super().name` refers;
        None for other nodes. What it is now becomes part of the loop."""
        around = self._around
        read: Callable[[], FunctionType | None]
        match node:
            case ast.Attribute(value=ast.Name() as of, attr=name) if self._scope.is_instance(of):
                read = partial(self._scope.method, name)
            case ast.Attribute(value=ast.Call(func=called, args=[], keywords=[]), attr=name) if (
                self._scope.has_instance() and self.object(called) is super
            ):
                read = partial(self._scope.inherited_method, around.find("__class__"), name)
            case _:
                return None
        found: FunctionType | None = around.noted(f"method {ast.unparse(node)}", read)
        return found

    @contextmanager
    def of_called(self, called: FunctionType) -> Iterator[None]:
        """Resolve names as those of a called function."""
        around = self._around
        # The body of the function becomes part of the loop.
        for part in ("__code__", "__defaults__"):
            around.noted(
                f"{part} of {called.__qualname__} {id(called)}", partial(getattr, called, part)
            )
        self._around = around.of_called(called)
        try:
            yield
        finally:
            self._around = around

    def _find(self, node: ast.expr, around: SurroundingNames, bound: bool) -> Any:
        """Return the object of a name or attribute. `bound` is whether the name is that of the
        function's object."""
        match node:
            case ast.Name(id=name):
                return MISSING if bound else around.find(name)
            case ast.Attribute(value=ast.Name(), attr=name) if bound:
                return self._scope.of_instance(name)
            case ast.Attribute(value=of, attr=name):
                owner = self._find(of, around, bound)
                return MISSING if owner is MISSING else attribute_of(owner, name)
            case _:
                return MISSING


def _root(node: ast.expr) -> ast.Name | None:
    """Return the name with which a chain of attributes begins; None if it begins otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None
