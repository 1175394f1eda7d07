"""Writes conditions, and values that depend on them: `and`, `or`, comparisons, `x if c else y`."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable

from rheos.core.compiler.constants import members_of
from rheos.core.compiler.map_writer import MapWriter
from rheos.core.compiler.operator_writer import Operators
from rheos.core.compiler.python_expressions import PythonExpressions
from rheos.core.compiler.record_values import new_record, write_record
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.table_writer import ConstantTables
from rheos.core.compiler.values import ZEROS, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Writer


class Conditions:
    """A writer of conditions. `value` writes the operands."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        operators: Operators,
        python: PythonExpressions,
        tables: ConstantTables,
        maps: MapWriter,
        value: Callable[[ast.expr], Value],
    ) -> None:
        self.out = out
        self.scope = scope
        self.operators = operators
        self.python = python
        self.tables = tables
        self.maps = maps
        self.value = value

    def truth(self, node: ast.expr) -> str:
        """Write the code that computes whether the value is true, and return the name of the result."""
        match node:
            case ast.BoolOp(op=op, values=values):
                found = self.out.held(self.truth(values[0]))
                self._further(
                    found, op, values[1:], lambda each: self.out.write(f"{found} = {self.truth(each)}")
                )
                return found
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.out.held(f"not {self.truth(operand)}")
            case ast.Compare():
                return self.compared(node)
            case _:
                return self.is_true(self.value(node), node.lineno)

    def is_true(self, value: Value, line: int) -> str:
        match value.kind:
            case "bool":
                code = value.code
            case "int" | "duration":
                code = f"{value.code} != 0"
            case "float":
                code = f"{value.code} != 0.0"
            case "str":
                code = f"{value.code} != {self.out.texts.code('')}"
            case "none":
                return "False"
            case "moment" | "record":
                code = "True"
            case _:
                raise CannotCompile(
                    "values of this column's type can only be passed on in a compiled function", line
                )
        if value.null:
            code = f"(not {value.null}) and {code}"
        return code if code.isidentifier() else self.out.held(code)

    def _further(
        self, found: str, op: ast.boolop, values: list[ast.expr], then: Callable[[ast.expr], None]
    ) -> None:
        """Write the further operands of `and` or `or`, evaluated only if earlier ones do not decide."""
        if values:
            head = f"if {found}:" if isinstance(op, ast.And) else f"if not {found}:"
            with self.scope.perhaps(), self.out.block(head):
                then(values[0])
                self._further(found, op, values[1:], then)

    # --- alternatives ---------------------------------------------------------------------------------

    def any_or_all(self, node: ast.BoolOp) -> Value:
        """Write `and` or `or`, whose value is the operand that decides the result, as in Python."""
        tried = [self._tried(each) for each in node.values]
        chosen = self._one_of(tried, node)
        first = self.value(node.values[0])
        self._put(first, chosen)
        true = self.out.held(self.is_true(first, node.lineno))

        def then(each: ast.expr) -> None:
            value = self.value(each)
            self._put(value, chosen)
            self.out.write(f"{true} = {self.is_true(value, node.lineno)}")

        self._further(true, node.op, node.values[1:], then)
        if isinstance(node.op, ast.Or) and not tried[-1].null:
            return dataclasses.replace(chosen, null="")  # A None is never the result.
        return chosen

    def choose(self, node: ast.IfExp) -> Value:
        """Write `x if c else y`."""
        test = self.truth(node.test)
        chosen = self._one_of([self._tried(each) for each in (node.body, node.orelse)], node)
        for head, branch in ((f"if {test}:", node.body), ("else:", node.orelse)):
            with self.scope.perhaps(), self.out.block(head):
                self._put(self.value(branch), chosen)
        return chosen

    def _tried(self, node: ast.expr) -> Value:
        """Return the value that the node would have, without keeping the written code."""
        with self.out.trial(), self.scope.perhaps():
            return self.value(node)

    def _one_of(self, tried: list[Value], node: ast.expr) -> Value:
        """Return a new variable that can have the value of each alternative."""
        kinds = {value.kind for value in tried} - {"none"}
        if len(kinds) > 1 or "other" in kinds:
            shown = " or ".join(dict.fromkeys(value.shown for value in tried))
            raise CannotCompile(
                f"{ast.unparse(node)} is {shown}, but a compiled value has only one type", node.lineno
            )
        kind: Kind = kinds.pop() if kinds else "none"
        nullable = any(value.null for value in tried)
        null = self.out.held("False") if nullable else ""
        if kind == "record":
            return new_record(self.out, tried, null, node.lineno)
        return Value(kind, self.out.held(ZEROS.get(kind, "0")), null)

    def _put(self, value: Value, chosen: Value) -> None:
        """Write the assignment of a value to a variable of `_one_of`."""
        if chosen.record is not None:
            write_record(self.out, chosen, value)
        elif value.kind != "none":
            self.out.write(f"{chosen.code} = {value.code}")
        if chosen.null:
            self.out.write(f"{chosen.null} = {value.null or 'False'}")

    # --- comparisons ----------------------------------------------------------------------------------

    def compared(self, node: ast.Compare) -> str:
        """Write the comparison of each pair in turn, as long as the earlier comparisons hold."""
        left = self.value(node.left)
        found = self.out.held("True")

        def pairs(left: Value, ops: list[ast.cmpop], others: list[ast.expr]) -> None:
            if isinstance(ops[0], ast.In | ast.NotIn):
                self.out.write(f"{found} = {self._member(left, ops[0], others[0], node)}")
                if len(ops) > 1:
                    raise CannotCompile(
                        "`in` cannot be compiled as part of a chained comparison", node.lineno
                    )
                return
            right = self.value(others[0])
            self.out.write(f"{found} = {self.operators.compare(left, ops[0], right, node)}")
            if len(ops) > 1:
                with self.scope.perhaps(), self.out.block(f"if {found}:"):
                    pairs(right, ops[1:], others[1:])

        pairs(left, node.ops, node.comparators)
        return found

    def _member(self, left: Value, op: ast.cmpop, of: ast.expr, node: ast.Compare) -> str:
        negated = "" if isinstance(op, ast.In) else "not "
        declared = self.scope.map_state(of)
        if declared is not None:
            return negated + self.maps.contains(declared, left, node.lineno)
        if not self.tables.has(of):
            made = self.python.member(left, of, node.lineno)
            if made is not None:
                return f"{negated}{made.code}"
        _, found = self.tables.find(left, of, node.lineno, members_of)
        return f"{negated}({found} >= 0)"
