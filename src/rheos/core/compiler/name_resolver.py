"""Resolves the names that a method uses from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
        if isinstance(node, ast.Name | ast.Attribute):
            around = self._around
            return around.noted(ast.unparse(node), lambda: self._find(node, around))
        return MISSING

    @contextmanager
    def of_called(self, called: FunctionType, node: ast.expr) -> Iterator[None]:
        """Resolve names as those of a called function, to which `node` refers."""
        around = self._around
        # The body of the function becomes part of the loop.
        for part in ("__code__", "__defaults__"):
            around.noted(f"{ast.unparse(node)}.{part}", partial(self._part_of, node, part, around))
        self._around = around.of_called(called)
        try:
            yield
        finally:
            self._around = around

    def _part_of(self, node: ast.expr, name: str, around: SurroundingNames) -> Any:
        return getattr(self._find(node, around), name, MISSING)

    def _find(self, node: ast.expr, around: SurroundingNames) -> Any:
        match node:
            case ast.Name(id=name):
                return MISSING if self._scope.has(name) else around.find(name)
            case ast.Attribute(value=ast.Name() as of, attr=name) if self._scope.is_instance(of):
                return self._scope.of_instance(name)
            case ast.Attribute(value=of, attr=name):
                owner = self._find(of, around)
                return MISSING if owner is MISSING else attribute_of(owner, name)
            case _:
                return MISSING
