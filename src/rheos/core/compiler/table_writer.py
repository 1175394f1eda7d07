"""Writes accesses to collections of constants and to broadcast state, which become arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Literal

from rheos.core.compiler.constants import (
    MISSING,
    Table,
    broadcast_table,
    places_of,
    table_of,
    unchanged,
)
from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import NONE, PYTHON_NAMES, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import BroadcastState


class ConstantTables:
    """A writer of accesses to collections of constants and to broadcast state. `value` writes the
    keys."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        names: NameResolver,
        value: Callable[[ast.expr], Value],
    ) -> None:
        self.out = out
        self.scope = scope
        self._names = names
        self._value = value

    def has(self, node: ast.expr) -> bool:
        """Return whether the node refers to broadcast state, or to an object from outside other than a
        string."""
        given = self.collection(node)
        return given is not MISSING and not isinstance(given, str)

    def collection(self, node: ast.expr) -> Any:
        """Return the collection of constants to which the node refers; another object, or MISSING, if
        it refers to something else."""
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self._literal(each) for each in elements]
            case ast.Set(elts=elements):
                return {self._literal(each) for each in elements}
        declared = self.scope.broadcast_state(node)
        return declared if declared is not None else self._names.object(node)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise CannotCompile(f"{ast.unparse(node)} is not a constant", node.lineno) from None

    def find(
        self,
        key: Value | list[Value],
        of: ast.expr,
        line: int,
        as_dict: Callable[[Any], Any] = unchanged,
    ) -> tuple[Table, str]:
        """Return the table of a dict, and the name of the variable with the key's position in it.
        `as_dict` makes a dict of other collections."""
        given, name = self.collection(of), ast.unparse(of)
        if not self.has(of):
            raise CannotCompile(
                f"{name} cannot be compiled", line, "look up values in dicts and sets of constants"
            )
        if isinstance(given, BroadcastState):
            table = self.scope.table(given, "entries", lambda: broadcast_table(given, line))
        else:
            table = self.scope.table(
                given, as_dict, lambda: table_of(as_dict(given), name, self.out.texts, line)
            )
        parts = key if isinstance(key, list) else [key]
        if len(parts) != len(table.kinds):
            raise CannotCompile(f"the keys of {name} have a different number of parts", line)
        place, steps = "0", []
        for at, (part, kind, known) in enumerate(zip(parts, table.kinds, table.parts, strict=True)):
            numbers = {part.kind, kind} <= {"int", "bool"}
            if part.kind != kind and not numbers:
                raise CannotCompile(
                    f"{name} is looked up by {part.shown}, but its keys are {PYTHON_NAMES[kind]}", line
                )
            column = self._array(table, f"p{at}", "int", f"parts {at}")
            code = part.code if part.kind in ("int", "str") else f"int64({part.code})"
            step = self.out.held(f"place({column}, {code})")
            if part.null:
                self.out.write(f"{step} = -1 if {part.null} else {step}")
            steps.append(step)
            place = step if place == "0" else f"({place} * {len(known)} + {step})"
        places = self._array(table, "places", "int")
        there = " and ".join(f"{step} >= 0" for step in steps)
        return table, self.out.held(f"{places}[{place}] if {there} else -1")

    def value_at(self, table: Table, found: str) -> Value:
        """Return the value at the position; an arbitrary value if the position is missing."""
        values = self._array(table, "values", table.kind)
        name = self.out.held(f"{values}[max({found}, 0)]")
        null = ""
        if table.nulls is not None:
            nulls = self._array(table, "nulls", "bool")
            null = self.out.held(f"{nulls}[max({found}, 0)]")
        return Value(table.kind, name, null)

    def _array(self, table: Table, name: str, kind: Kind, part: str = "") -> str:
        """Return the name of an array of the table. `part` is its attribute, if that differs."""
        number = self.scope.number_of(table)
        source: Literal["table", "broadcast"] = "broadcast" if table.state else "table"
        given = Parameter(source, table.state or f"{number}", kind, table, part or name)
        return self.out.parameter(f"d{number}_{name}", given)

    def item(self, node: ast.Subscript) -> Value:
        """Write the access to an element of a collection of constants."""
        table, found = self.find(self._key(node.slice), node.value, node.lineno, places_of)
        missing = f"KeyError: {ast.unparse(node.value)} has no such key"
        if isinstance(self.collection(node.value), list | tuple):
            missing = f"IndexError: index out of range of {ast.unparse(node.value)}"
        number = self.out.failure(node.lineno, missing, None)
        with self.out.block(f"if {found} < 0:"):
            self.out.write(f"fail(failed, {number})")
        return self.value_at(table, found)

    def items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """Return the number of elements of a list or tuple of constants, and a function that writes one
        by its position."""
        given = self.collection(node)
        if type(given) not in (list, tuple):
            raise CannotCompile(
                f"a loop over {ast.unparse(node)} cannot be compiled",
                node.lineno,
                "loop over range(), a list or tuple of constants, or a string",
            )
        if not given:
            return "0", lambda at: Value("int", "0")
        made = table_of(dict(enumerate(given)), ast.unparse(node), self.out.texts, node.lineno)
        table = self.scope.table(given, "items", lambda: made)
        return f"{len(given)}", lambda at: self.value_at(table, at)

    def get(self, of: ast.expr, arguments: list[ast.expr], node: ast.Call) -> Value:
        """Write the code for dict.get."""
        table, found = self.find(self._key(arguments[0]), of, node.lineno)
        value = self.value_at(table, found)
        default = self._value(arguments[1]) if len(arguments) > 1 else NONE
        if default.kind not in ("none", value.kind):
            raise CannotCompile(
                f"{ast.unparse(node)} is {value.shown} or {default.shown}, but a compiled value "
                "has only one type",
                node.lineno,
            )
        name = value.code
        if default.kind != "none":
            name = self.out.held(f"{value.code} if {found} >= 0 else {default.code}")
        if not (value.null or default.null):
            return Value(value.kind, name)
        null = self.out.held(f"{value.null or 'False'} if {found} >= 0 else {default.null or 'False'}")
        return Value(value.kind, name, null)

    def _key(self, node: ast.expr) -> Value | list[Value]:
        return (
            [self._value(each) for each in node.elts]
            if isinstance(node, ast.Tuple)
            else self._value(node)
        )
