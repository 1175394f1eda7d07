"""Writes expressions of a method as plain typed Python. The written code evaluates each part in order,
and once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rheos.core.compiler.call_writer import CallWriter
from rheos.core.compiler.called_functions import LocalValue
from rheos.core.compiler.comprehension_writer import ComprehensionWriter
from rheos.core.compiler.condition_writer import Conditions
from rheos.core.compiler.constants import MISSING, SurroundingNames, constant_of
from rheos.core.compiler.list_writer import ListWriter
from rheos.core.compiler.map_writer import MapWriter
from rheos.core.compiler.moment_writer import MomentWriter
from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.operator_writer import Operators
from rheos.core.compiler.python_expressions import PythonExpressions
from rheos.core.compiler.record_writer import RecordWriter
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.table_writer import ConstantTables
from rheos.core.compiler.time_arithmetic import TimeArithmetic
from rheos.core.compiler.values import CannotCompile, Value
from rheos.core.compiler.writer import Writer
from rheos.core.graph.compilation import MethodText


class Expressions:
    """A writer of expressions. The scope resolves the names of the method."""

    def __init__(
        self,
        writer: Writer,
        scope: MethodScope,
        around: SurroundingNames,
        sources: dict[str, MethodText],
    ) -> None:
        """Create the writer. `sources` has the source of functions; that of called ones is added."""
        self.out = writer
        self.scope = scope
        self.names = NameResolver(scope, around)
        self.python = PythonExpressions(writer, self.value, lambda *given: self.moments.format(*given))
        self.times = TimeArithmetic(writer, self.value)
        self.operators = Operators(writer, self.python, self.times)
        self.tables = ConstantTables(writer, scope, self.names, self.value)
        self.records = RecordWriter(writer, scope, self.value)
        self.moments = MomentWriter(writer, scope, self.names, self.operators, self.value)
        self.lists = ListWriter(writer, scope, self.value)
        self.maps = MapWriter(writer, scope, self.value)
        self.conditions = Conditions(
            writer, scope, self.operators, self.python, self.tables, self.maps, self.value
        )
        self.comprehensions = ComprehensionWriter(
            writer, scope, self.operators, self.conditions, self.value, self.items
        )
        self.calls = CallWriter(
            writer,
            scope,
            self.names,
            self.operators,
            self.python,
            self.tables,
            self.conditions,
            self.records,
            self.moments,
            self.comprehensions,
            self.lists,
            self.maps,
            self.value,
            sources,
        )

    def value(self, node: ast.expr) -> Value:
        """Write the code that computes the value. Raise CannotCompile."""
        match node:
            case ast.Constant(value=given):
                return constant_of(given, self.out.texts, node.lineno)
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operators.binary(
                    self.value(left), op, self.value(right), node.lineno, right
                )
            case LocalValue(name=name, value=given, body=body):
                self.scope.assign(self.out, name, self.value(given), node.lineno)
                return self.value(body)
            case ast.JoinedStr():
                return self.python.format(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BoolOp():
                return self.conditions.any_or_all(node)
            case ast.Compare():
                return Value("bool", self.conditions.compared(node))
            case ast.IfExp():
                return self.conditions.choose(node)
            case ast.Call():
                return self.calls.call(node)
            case ast.Subscript():
                return self._item(node)
            case ast.NamedExpr(target=target, value=given):
                value = self.value(given)
                self.scope.assign(self.out, target.id, value, node.lineno)
                return self.scope.variable(target.id, node.lineno)
            case _:
                raise CannotCompile(f"{_named(node)} cannot be compiled", node.lineno)

    def _name(self, node: ast.Name) -> Value:
        if self.scope.has(node.id):
            return self.scope.variable(node.id, node.lineno)
        given = self.names.object(node)
        if given is MISSING:
            raise CannotCompile(f"the name {node.id!r} is not defined", node.lineno)
        return self._constant(given, node.lineno)

    def _attribute(self, node: ast.Attribute) -> Value:
        found = self.records.read(node) or self.moments.attribute(node)
        found = found or self.scope.attribute(self.out, node)
        if found is not None:
            return found
        given = self.names.object(node)
        if given is MISSING:
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        return self._constant(given, node.lineno)

    def _constant(self, given: Any, line: int) -> Value:
        return self.records.constant(given, line) or constant_of(given, self.out.texts, line)

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value("bool", self.out.held(f"not {self.conditions.truth(node.operand)}"))
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as given)):
                return constant_of(-given, self.out.texts, node.lineno)
        return self.operators.unary(self.value(node.operand), node)

    def _item(self, node: ast.Subscript) -> Value:
        of_key = self.scope.key_part(self.out, node)
        if of_key is not None:
            return of_key
        declared = self.scope.map_state(node.value)
        if declared is not None:
            return self.maps.item(declared, node)
        if self.tables.has(node.value):
            return self.tables.item(node)
        return self.python.item(node)

    def items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """Return the number of items over which a loop runs, and a function that writes an item by its
        position. Raise CannotCompile if the items are neither constants, nor a list of the state, nor
        parts of a string."""
        declared = self.scope.list_state(node)
        if declared is not None:
            return self.lists.items(declared)
        return self.tables.items(node) if self.tables.has(node) else self.python.items(node)


def _named(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) < 60 else text[:57] + "..."
