"""Writes calls of functions: of numbers, of strings, and of the user's own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FunctionType
from typing import Any

from rheos.core.compiler.called_functions import CalledFunction, body_expression, called_function
from rheos.core.compiler.comprehension_writer import REDUCTIONS, ComprehensionWriter
from rheos.core.compiler.condition_writer import Conditions
from rheos.core.compiler.constants import MISSING, constant_of
from rheos.core.compiler.list_writer import ListWriter
from rheos.core.compiler.map_writer import MapWriter
from rheos.core.compiler.moment_writer import MomentWriter
from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.operator_writer import NATIVE, Operators
from rheos.core.compiler.python_expressions import PythonExpressions
from rheos.core.compiler.record_values import field_kinds
from rheos.core.compiler.record_writer import RecordWriter
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.table_writer import ConstantTables
from rheos.core.compiler.values import CannotCompile, Value
from rheos.core.compiler.writer import Writer
from rheos.core.errors import ProgramError
from rheos.core.graph.compilation import MethodText
from rheos.core.protocol.durations import duration_ms


class CallWriter:
    """A writer of calls."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        names: NameResolver,
        operators: Operators,
        python: PythonExpressions,
        tables: ConstantTables,
        conditions: Conditions,
        records: RecordWriter,
        moments: MomentWriter,
        comprehensions: ComprehensionWriter,
        lists: ListWriter,
        maps: MapWriter,
        value: Callable[[ast.expr], Value],
        sources: dict[str, MethodText],
    ) -> None:
        """Create the writer. `value` writes arguments. `sources` has the source of functions; that of
        called ones is added."""
        self.out = out
        self.scope = scope
        self.names = names
        self.operators = operators
        self.python = python
        self.tables = tables
        self.conditions = conditions
        self.records = records
        self.moments = moments
        self.comprehensions = comprehensions
        self.lists = lists
        self.maps = maps
        self.value = value
        self._sources = sources
        self._active: list[FunctionType] = []
        """Functions that are being written in place of their calls, outermost first."""

    def user_function(self, node: ast.expr) -> tuple[FunctionType, bool] | None:
        """Return the user's function that an expression calls, and whether it is a method; None for
        other expressions."""
        if not isinstance(node, ast.Call):
            return None
        method = self.names.method(node.func)
        if method is not None:
            return method, True
        called = self.names.object(node.func)
        plain = isinstance(called, FunctionType) and not _is_duration(called)
        return (called, False) if plain else None

    def call(self, node: ast.Call) -> Value:
        """Write a call."""
        moment = self.moments.call(node)
        if moment is not None:
            return moment
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[_] | [_, _], keywords=[]):
                mapped = self.scope.map_state(of)
                if mapped is not None:
                    return self.maps.get(mapped, node.args, node)
                return self.tables.get(of, node.args, node)
        called = self.names.object(node.func)
        match node:
            case ast.Call(args=[of], keywords=[]) if called is len:
                declared = self.scope.list_state(of)
                if declared is not None:
                    return self.lists.length(declared)
                mapped = self.scope.map_state(of)
                if mapped is not None:
                    return self.maps.length(mapped, node.lineno)
        own = self.user_function(node)
        if own is not None:
            return self._inlined(own[0], node, is_method=own[1])
        if called is MISSING and isinstance(node.func, ast.Attribute):
            made = self.python.method(node)
            if made is not None:
                return made
        if field_kinds(called) is not None:
            return self.records.create(called, node)
        if called is timedelta:
            return self.operators.times.create(node)
        if node.keywords or called is MISSING:
            raise self._uncalled(node)
        if _is_duration(called) and len(node.args) == 1:
            return constant_of(self._duration(node.args[0]), self.out.texts, node.lineno)
        match node.args:
            case [ast.GeneratorExp() | ast.ListComp() as of] if called in REDUCTIONS:
                return self.comprehensions.reduce(called, of)
        if called in (min, max) and len(node.args) > 1:
            return self._least(node, "<" if called is min else ">")
        if called is bool and len(node.args) == 1:
            return Value("bool", self.out.held(self.conditions.truth(node.args[0])))
        if len(node.args) != 1 or called not in NATIVE:
            made = self.python.function(called, node.args, node.lineno)
            if made is None:
                raise self._uncalled(node)
            return made
        value = self.value(node.args[0])
        if called is abs and value.kind == "duration":
            return self.operators.times.absolute(value, node.lineno)
        if value.kind not in ("int", "float", "bool"):
            made = self.python.called(called, [value], node.lineno)
            if made is None:
                raise self._uncalled(node)
            return made
        return self.operators.call(called, value, node)

    def _inlined(self, called: FunctionType, node: ast.Call, *, is_method: bool = False) -> Value:
        """Write the body of a function of the user in place of its call."""
        with self.within(called, node, is_method=is_method) as function:
            body = body_expression(called, function, node.lineno)
            return self.out.held_value(self.value(body))

    @contextmanager
    def within(
        self, called: FunctionType, node: ast.Call, *, is_method: bool
    ) -> Iterator[CalledFunction]:
        """Write the arguments of a call. The block writes the body of the function, whose names are
        resolved there."""
        if called in self._active:
            raise CannotCompile(
                f"{called.__name__} calls itself, which cannot be compiled", node.lineno
            )
        function = called_function(called, self._sources, node, is_method=is_method)
        given = context = ""
        values: dict[str, Value] = {}
        for name, argument in zip(function.names, function.arguments, strict=False):
            if self.scope.is_record(argument) and not given:
                given = name
            elif self.scope.is_context(argument) and not context:
                context = name
            else:
                values[name] = self.out.held_value(self.value(argument))
        defaults = function.names[len(function.arguments) :]
        for name, default in zip(defaults, function.defaults, strict=True):
            values[name] = constant_of(default, self.out.texts, node.lineno)
        before = self.out.file
        self._active.append(called)
        prefix = f"h{node.lineno}_{node.col_offset}_"
        try:
            with (
                self.names.of_called(called),
                self.scope.within(prefix, function.itself, given, context),
            ):
                self.out.file = function.file
                for name, value in values.items():
                    self.scope.assign(self.out, name, value, node.lineno)
                yield function
        except CannotCompile as refused:
            refused.file = refused.file or function.file
            raise
        finally:
            self._active.pop()
            self.out.file = before

    def _duration(self, node: ast.expr) -> int:
        """Return the milliseconds of a constant duration."""
        given = node.value if isinstance(node, ast.Constant) else self.names.object(node)
        if not isinstance(given, str | timedelta):
            raise CannotCompile(f"the duration {ast.unparse(node)} is not a constant", node.lineno)
        try:
            return duration_ms(given)
        except ProgramError as error:
            raise CannotCompile(error.what, node.lineno, error.hint) from None

    def _least(self, node: ast.Call, symbol: str) -> Value:
        """Write the code for min or max. Of equal values, the first is the result."""
        values = [self.value(each) for each in node.args]
        kinds = {value.kind for value in values}
        if kinds == {"str"}:
            called: Any = min if symbol == "<" else max
            made = self.python.called(called, values, node.lineno)
            if made is not None:
                return made
        if len(kinds) > 1 or not kinds <= {"int", "float", "bool", "moment", "duration"}:
            shown = ", ".join(value.shown for value in values)
            raise CannotCompile(f"{ast.unparse(node.func)} of {shown} cannot be compiled", node.lineno)
        for value in values:
            self.out.require_value(
                value, node.lineno, f"TypeError: {ast.unparse(node)} of a None value"
            )
        name = self.out.held(values[0].code)
        for value in values[1:]:
            with self.out.block(f"if {value.code} {symbol} {name}:"):
                self.out.write(f"{name} = {value.code}")
        return Value(values[0].kind, name)

    def _uncalled(self, node: ast.Call) -> CannotCompile:
        return CannotCompile(
            f"{ast.unparse(node.func)}() cannot be compiled",
            node.lineno,
            "compiled functions can call methods of strings, rh.duration, get of a dict of constants, "
            "functions of math, and abs, bool, float, int, len, max, min, ord, repr, round and str",
        )


def _is_duration(called: Any) -> bool:
    """Return whether this is `rh.duration`, which is a copy of the function in this package."""
    name = getattr(called, "__module__", None), getattr(called, "__qualname__", None)
    return isinstance(called, FunctionType) and name == (
        duration_ms.__module__,
        duration_ms.__qualname__,
    )
