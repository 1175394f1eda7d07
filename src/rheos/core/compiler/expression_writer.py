"""Writes expressions of a method as plain typed Python. The written code evaluates each part in order,
and once."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import FunctionType
from typing import Any

from rheos.core.compiler.called_functions import LocalValue, called_function
from rheos.core.compiler.constants import (
    MISSING,
    SurroundingNames,
    Table,
    attribute_of,
    members_of,
    places_of,
    table_of,
    unchanged,
)
from rheos.core.compiler.python_expressions import PythonExpressions
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import (
    BITS_64,
    KINDS,
    NONE,
    PYTHON_NAMES,
    ZEROS,
    CannotCompile,
    Kind,
    Value,
    constant,
)
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.errors import ProgramError
from rheos.core.graph.compilation import MethodText
from rheos.core.protocol.durations import duration_ms

_TOO_LARGE = "an integer that exceeds the 64 bits of compiled functions"
_TOO_LARGE_HINT = (
    "use smaller numbers, or run the function without rh.compiled: Python's integers have no limit"
)

_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "sub"),
    ast.Mult: ("*", "mul"),
    ast.Div: ("/", "truediv"),
    ast.FloorDiv: ("//", "floordiv"),
    ast.Mod: ("%", "mod"),
}
_BITS: dict[type[ast.operator], str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_OTHERS: dict[type[ast.operator], str] = {ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>"}
"""Operators that Python evaluates for all operands."""
_ORDER: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


_NATIVE = (
    abs, float, int, math.floor, math.ceil, math.trunc, math.sqrt, math.fabs, math.isnan, math.isinf,
    math.isfinite,
)  # fmt: skip
"""Functions of a number that have machine code."""


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
        self.around = around
        self._sources = sources
        self._calls: list[FunctionType] = []
        """Functions that are being written in place of their calls, outermost first."""
        self.python = PythonExpressions(writer, self.value)

    # --- values ---------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Write the code that computes the value. Raise CannotCompile."""
        match node:
            case ast.Constant(value=given):
                return self.constant(given, node.lineno)
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(self.value(left), op, self.value(right), node.lineno, right)
            case LocalValue(name=name, value=given, body=body):
                self.scope.assign(self.out, name, self.value(given), node.lineno)
                return self.value(body)
            case ast.JoinedStr():
                return self.python.format(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BoolOp():
                return self._any_or_all(node)
            case ast.Compare():
                return Value("bool", self._compared(node))
            case ast.IfExp():
                return self._chosen(node)
            case ast.Call():
                return self._called(node)
            case ast.Subscript():
                return self._item(node)
            case ast.NamedExpr(target=target, value=given):
                value = self.value(given)
                self.scope.assign(self.out, target.id, value, node.lineno)
                return self.scope.variable(target.id, node.lineno)
            case _:
                raise self.refused(f"{_named(node)} cannot be compiled", node)

    def refused(self, what: str, node: ast.AST, hint: str | None = None) -> CannotCompile:
        return CannotCompile(what, getattr(node, "lineno", 0), hint)

    def constant(self, given: Any, line: int) -> Value:
        if not constant(given):
            raise CannotCompile(
                f"{given!r} cannot be compiled: values are int, float, bool and str", line
            )
        if given is None:
            return NONE
        kind = KINDS[type(given)]
        if kind == "str":
            return Value(kind, str(self.out.texts.code(given)))
        if kind == "int" and given not in BITS_64:
            raise CannotCompile(f"{given} is {_TOO_LARGE}", line, _TOO_LARGE_HINT)
        if kind == "float" and not math.isfinite(given):
            return Value(kind, str(given))
        return Value(kind, f"({given!r})")

    def _name(self, node: ast.Name) -> Value:
        if self.scope.has(node.id):
            return self.scope.variable(node.id, node.lineno)
        given = self.object(node)
        if given is MISSING:
            raise self.refused(f"the name {node.id!r} is not defined", node)
        return self.constant(given, node.lineno)

    def _attribute(self, node: ast.Attribute) -> Value:
        found = self.scope.attribute(self.out, node)
        if found is not None:
            return found
        given = self.object(node)
        if given is MISSING:
            raise self.refused(f"{ast.unparse(node)} cannot be compiled", node)
        return self.constant(given, node.lineno)

    def object(self, node: ast.expr) -> Any:
        """Return the object to which a name, or an attribute of a module or class, refers; MISSING if
        it does not exist. What the object is now becomes part of the loop."""
        if isinstance(node, ast.Name | ast.Attribute):
            around = self.around
            return around.noted(ast.unparse(node), lambda: self._object(node, around))
        return MISSING

    def _object(self, node: ast.expr, around: SurroundingNames) -> Any:
        match node:
            case ast.Name(id=name):
                return MISSING if self.scope.has(name) else around.find(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.scope.of_instance(name)
            case ast.Attribute(value=of, attr=name):
                owner = self._object(of, around)
                return MISSING if owner is MISSING else attribute_of(owner, name)
            case _:
                return MISSING

    # --- arithmetic -----------------------------------------------------------------------------------

    def binary(
        self, left: Value, op: ast.operator, right: Value, line: int, operand: ast.expr
    ) -> Value:
        """Write an operator. `operand` is the source code of the right operand."""
        symbol = _ARITHMETIC.get(type(op), ("", ""))[0] or _BITS.get(type(op)) or _OTHERS.get(type(op))
        if symbol is None:
            raise CannotCompile(f"{type(op).__name__} cannot be compiled", line)
        if symbol == "**":
            found = self.python.power(left, right, operand, line)
        else:
            found = self.python.binary(left, symbol, right, line)
        if found is not None:
            return found
        wrong = {"none", "str", "other"} & {left.kind, right.kind}
        if wrong or type(op) in _OTHERS:
            raise CannotCompile(f"{left.shown} {symbol} {right.shown} cannot be compiled", line)
        what = f"TypeError: {symbol} of {left.shown} and {right.shown}, one of which was None"
        self.require_value(left, line, what)
        self.require_value(right, line, what)
        if type(op) in _BITS:
            return self._bits(left, symbol, right, line)
        name = _ARITHMETIC[type(op)][1]
        large = (line, f"OverflowError: {symbol} returned {_TOO_LARGE}", _TOO_LARGE_HINT)
        zero = (line, "ZeroDivisionError: division by zero")
        if "float" in (left.kind, right.kind):
            a, b = self.as_float(left), self.as_float(right)
            if name in ("add", "sub", "mul"):
                return Value("float", self.out.held(f"{a} {symbol} {b}"))
            return Value(
                "float", self.out.held(f"{name}_float({a}, {b}, failed, {self.out.failure(*zero)})")
            )
        a, b = self.as_int(left), self.as_int(right)
        if name == "truediv":
            unsure = self.out.failure(
                line,
                "OverflowError: / of integers above 2 ** 53, for which compiled division is not exact",
                "divide floats, or smaller integers",
            )
            failures = f"{self.out.failure(*zero)}, {unsure}"
            return Value("float", self.out.held(f"truediv({a}, {b}, failed, {failures})"))
        numbers = [self.out.failure(*zero)] if name in ("floordiv", "mod") else []
        numbers += [self.out.failure(*large)] if name != "mod" else []
        return Value("int", self.out.held(f"{name}({a}, {b}, failed, {', '.join(numbers)})"))

    def _bits(self, left: Value, symbol: str, right: Value, line: int) -> Value:
        if "float" in (left.kind, right.kind):
            raise CannotCompile(f"{left.shown} {symbol} {right.shown} raises a TypeError", line)
        if left.kind == right.kind == "bool":
            return Value("bool", self.out.held(f"{left.code} {symbol} {right.code}"))
        return Value("int", self.out.held(f"{self.as_int(left)} {symbol} {self.as_int(right)}"))

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value("bool", self.out.held(f"not {self.truth(node.operand)}"))
        value = self.value(node.operand)
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as given)):
                return self.constant(-given, node.lineno)
        if value.kind not in ("int", "float", "bool"):
            raise self.refused(f"{ast.unparse(node)} of {value.shown} raises a TypeError", node)
        self.require_value(value, node.lineno, f"TypeError: {ast.unparse(node)} of None")
        if value.kind == "float" and not isinstance(node.op, ast.Invert):
            sign = "-" if isinstance(node.op, ast.USub) else ""
            return Value("float", self.out.held(f"{sign}{value.code}"))
        if value.kind == "float":
            raise self.refused("the operator ~ raises a TypeError for a float", node)
        whole = self.as_int(value)
        if isinstance(node.op, ast.USub):
            number = self.out.failure(
                node.lineno, f"OverflowError: - returned {_TOO_LARGE}", _TOO_LARGE_HINT
            )
            return Value("int", self.out.held(f"neg({whole}, failed, {number})"))
        return Value("int", self.out.held(f"~{whole}" if isinstance(node.op, ast.Invert) else whole))

    def as_float(self, value: Value) -> str:
        return value.code if value.kind == "float" else f"float({value.code})"

    def as_int(self, value: Value) -> str:
        return value.code if value.kind == "int" else f"int64({value.code})"

    def require_value(self, value: Value, line: int, what: str, hint: str | None = None) -> None:
        """Write code that makes the row fail if the value is None."""
        if value.null:
            with self.out.block(f"if {value.null}:"):
                self.out.write(f"fail(failed, {self.out.failure(line, what, hint)})")

    # --- truth ----------------------------------------------------------------------------------------

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
                return self._compared(node)
            case _:
                return self.is_true(self.value(node), node.lineno)

    def is_true(self, value: Value, line: int) -> str:
        match value.kind:
            case "bool":
                code = value.code
            case "int":
                code = f"{value.code} != 0"
            case "float":
                code = f"{value.code} != 0.0"
            case "str":
                code = f"{value.code} != {self.out.texts.code('')}"
            case "none":
                return "False"
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

    def _tried(self, node: ast.expr) -> Value:
        """Return the value that the node would have, without keeping the written code."""
        with self.out.trial(), self.scope.perhaps():
            return self.value(node)

    def _one_of(self, nodes: list[ast.expr], node: ast.expr) -> tuple[Kind, str, str]:
        """Return the common kind of the alternatives, and new variables for value and null."""
        tried = [self._tried(each) for each in nodes]
        kinds = {value.kind for value in tried} - {"none"}
        if len(kinds) > 1 or "other" in kinds:
            shown = " or ".join(dict.fromkeys(value.shown for value in tried))
            raise self.refused(
                f"{ast.unparse(node)} is {shown}, but a compiled value has only one type", node
            )
        kind = kinds.pop() if kinds else "none"
        nullable = any(value.null for value in tried)
        null = self.out.held("False") if nullable else ""
        return kind, self.out.held(ZEROS.get(kind, "0")), null

    def _put(self, value: Value, name: str, null: str) -> None:
        if value.kind != "none":
            self.out.write(f"{name} = {value.code}")
        if null:
            self.out.write(f"{null} = {value.null or 'False'}")

    def _any_or_all(self, node: ast.BoolOp) -> Value:
        """Write `and` or `or`, whose value is the operand that decides the result, as in Python."""
        kind, name, null = self._one_of(node.values, node)
        first = self.value(node.values[0])
        self._put(first, name, null)
        true = self.out.held(self.is_true(first, node.lineno))

        def then(each: ast.expr) -> None:
            value = self.value(each)
            self._put(value, name, null)
            self.out.write(f"{true} = {self.is_true(value, node.lineno)}")

        self._further(true, node.op, node.values[1:], then)
        return Value(kind, name, null)

    def _chosen(self, node: ast.IfExp) -> Value:
        test = self.truth(node.test)
        kind, name, null = self._one_of([node.body, node.orelse], node)
        for head, branch in ((f"if {test}:", node.body), ("else:", node.orelse)):
            with self.scope.perhaps(), self.out.block(head):
                self._put(self.value(branch), name, null)
        return Value(kind, name, null)

    # --- comparisons ----------------------------------------------------------------------------------

    def _compared(self, node: ast.Compare) -> str:
        """Write the comparison of each pair in turn, as long as the earlier comparisons hold."""
        left = self.value(node.left)
        found = self.out.held("True")

        def pairs(left: Value, ops: list[ast.cmpop], others: list[ast.expr]) -> None:
            if isinstance(ops[0], ast.In | ast.NotIn):
                self.out.write(f"{found} = {self._member(left, ops[0], others[0], node)}")
                if len(ops) > 1:
                    raise self.refused("`in` cannot be compiled as part of a chained comparison", node)
                return
            right = self.value(others[0])
            self.out.write(f"{found} = {self._pair(left, ops[0], right, node)}")
            if len(ops) > 1:
                with self.scope.perhaps(), self.out.block(f"if {found}:"):
                    pairs(right, ops[1:], others[1:])

        pairs(left, node.ops, node.comparators)
        return found

    def _pair(self, left: Value, op: ast.cmpop, right: Value, node: ast.Compare) -> str:
        if isinstance(op, ast.Is | ast.IsNot):
            if "none" not in (left.kind, right.kind):
                raise self.refused("`is` can be compiled only with None", node, "compare with ==")
            other = left if right.kind == "none" else right
            return f"{'' if isinstance(op, ast.Is) else 'not '}{other.null or 'False'}"
        symbol = _ORDER[type(op)]
        equality = symbol in ("==", "!=")
        if "none" in (left.kind, right.kind) and equality:
            other = left if right.kind == "none" else right
            return f"{'' if symbol == '==' else 'not '}{other.null or 'False'}"
        numbers = {left.kind, right.kind} <= {"int", "float", "bool"}
        if not (numbers or equality):
            found = self.python.binary(left, symbol, right, node.lineno)
            if found is not None:
                return found.code
        if not (numbers or (equality and left.kind == right.kind == "str")):
            raise self.refused(f"{left.shown} {symbol} {right.shown} cannot be compiled", node)
        if not equality:
            what = f"TypeError: {symbol} of {left.shown} and {right.shown}, one of which was None"
            self.require_value(left, node.lineno, what)
            self.require_value(right, node.lineno, what)
            return self._of_numbers(left, symbol, right)
        same = self._of_numbers(left, "==", right)
        if left.null and right.null:
            same = (
                f"(({left.null} and {right.null}) or (not {left.null} and not {right.null} and {same}))"
            )
        elif left.null or right.null:
            same = f"(not {left.null or right.null} and {same})"
        return same if symbol == "==" else f"not {same}"

    def _of_numbers(self, left: Value, symbol: str, right: Value) -> str:
        if {left.kind, right.kind} == {"int", "float"}:
            turned = left.kind == "float"
            whole, part = (right, left) if turned else (left, right)
            found = self.out.held(f"compare({whole.code}, {part.code})")
            if turned:
                symbol = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(symbol, symbol)
            return f"({found} {symbol} 0 and {found} != 2)"
        if "float" in (left.kind, right.kind):
            return f"({self.as_float(left)} {symbol} {self.as_float(right)})"
        if left.kind == right.kind == "str":
            return f"({left.code} {symbol} {right.code})"
        return f"({self.as_int(left)} {symbol} {self.as_int(right)})"

    def _member(self, left: Value, op: ast.cmpop, of: ast.expr, node: ast.Compare) -> str:
        given = self._collection(of)
        if given is MISSING or isinstance(given, str):
            made = self.python.member(left, of, node.lineno)
            if made is not None:
                return f"{'' if isinstance(op, ast.In) else 'not '}{made.code}"
        _, found = self._find_table(left, of, node.lineno, members_of)
        return f"{'' if isinstance(op, ast.In) else 'not '}({found} >= 0)"

    # --- dicts of constants ---------------------------------------------------------------------------

    def _find_table(
        self,
        key: Value | list[Value],
        of: ast.expr,
        line: int,
        as_dict: Callable[[Any], Any] = unchanged,
    ) -> tuple[Table, str]:
        """Return the table of a dict, and the name of the variable with the key's position in it.
        `as_dict` makes a dict of other collections."""
        given, name = self._collection(of), ast.unparse(of)
        if given is MISSING or isinstance(given, str):
            raise CannotCompile(
                f"{name} cannot be compiled", line, "look up values in dicts and sets of constants"
            )
        table = self.scope.table(
            given, as_dict, lambda: table_of(as_dict(given), name, self.out.texts, line)
        )
        parts = key if isinstance(key, list) else [key]
        if len(parts) != len(table.kinds):
            raise CannotCompile(f"the keys of {name} have a different number of parts", line)
        number = self.scope.number_of(table)
        place, steps = "0", []
        for at, (part, kind, known) in enumerate(zip(parts, table.kinds, table.parts, strict=True)):
            numbers = {part.kind, kind} <= {"int", "bool"}
            if part.kind != kind and not numbers:
                raise CannotCompile(
                    f"{name} is looked up by {part.shown}, but its keys are {PYTHON_NAMES[kind]}", line
                )
            column = self.out.parameter(
                f"d{number}_p{at}", Parameter("table", f"{number}", "int", table, f"parts {at}")
            )
            code = part.code if part.kind in ("int", "str") else f"int64({part.code})"
            step = self.out.held(f"place({column}, {code})")
            if part.null:
                self.out.write(f"{step} = -1 if {part.null} else {step}")
            steps.append(step)
            place = step if place == "0" else f"({place} * {len(known)} + {step})"
        places = self.out.parameter(
            f"d{number}_places", Parameter("table", f"{number}", "int", table, "places")
        )
        there = " and ".join(f"{step} >= 0" for step in steps)
        return table, self.out.held(f"{places}[{place}] if {there} else -1")

    def _collection(self, node: ast.expr) -> Any:
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self._literal(each) for each in elements]
            case ast.Set(elts=elements):
                return {self._literal(each) for each in elements}
        return self.object(node)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self.refused(f"{ast.unparse(node)} is not a constant", node) from None

    def _key(self, node: ast.expr) -> Value | list[Value]:
        return (
            [self.value(each) for each in node.elts]
            if isinstance(node, ast.Tuple)
            else self.value(node)
        )

    def _of_table(self, table: Table, found: str) -> Value:
        """Return the value at the position; an arbitrary value if the position is missing."""
        number = self.scope.number_of(table)
        values = self.out.parameter(
            f"d{number}_values", Parameter("table", f"{number}", table.kind, table, "values")
        )
        name = self.out.held(f"{values}[max({found}, 0)]")
        null = ""
        if table.nulls is not None:
            nulls = self.out.parameter(
                f"d{number}_nulls", Parameter("table", f"{number}", "bool", table, "nulls")
            )
            null = self.out.held(f"{nulls}[max({found}, 0)]")
        return Value(table.kind, name, null)

    def _item(self, node: ast.Subscript) -> Value:
        of_key = self.scope.key_part(self.out, node)
        if of_key is not None:
            return of_key
        given = self._collection(node.value)
        if given is MISSING or isinstance(given, str):
            return self.python.item(node)
        table, found = self._find_table(self._key(node.slice), node.value, node.lineno, places_of)
        missing = f"KeyError: {ast.unparse(node.value)} has no such key"
        if isinstance(self._collection(node.value), list | tuple):
            missing = f"IndexError: index out of range of {ast.unparse(node.value)}"
        number = self.out.failure(node.lineno, missing, None)
        with self.out.block(f"if {found} < 0:"):
            self.out.write(f"fail(failed, {number})")
        return self._of_table(table, found)

    def items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """Return the number of items over which a loop runs, and a function that writes an item by its
        position. Raise CannotCompile if the items are neither constants nor parts of a string."""
        given, line = self._collection(node), node.lineno
        if given is MISSING or isinstance(given, str):
            return self.python.items(node)
        if type(given) not in (list, tuple):
            raise self.refused(
                f"a loop over {ast.unparse(node)} cannot be compiled",
                node,
                "loop over range(), a list or tuple of constants, or a string",
            )
        if not given:
            return "0", lambda at: self.constant(0, line)
        made = table_of(dict(enumerate(given)), ast.unparse(node), self.out.texts, line)
        table = self.scope.table(given, "items", lambda: made)
        return f"{len(given)}", lambda at: self._of_table(table, at)

    def _get(self, of: ast.expr, arguments: list[ast.expr], node: ast.Call) -> Value:
        """Write the code for dict.get."""
        table, found = self._find_table(self._key(arguments[0]), of, node.lineno)
        value = self._of_table(table, found)
        default = self.value(arguments[1]) if len(arguments) > 1 else NONE
        if default.kind not in ("none", value.kind):
            raise self.refused(
                f"{ast.unparse(node)} is {value.shown} or {default.shown}, but a compiled value "
                "has only one type",
                node,
            )
        name = value.code
        if default.kind != "none":
            name = self.out.held(f"{value.code} if {found} >= 0 else {default.code}")
        if not (value.null or default.null):
            return Value(value.kind, name)
        null = self.out.held(f"{value.null or 'False'} if {found} >= 0 else {default.null or 'False'}")
        return Value(value.kind, name, null)

    # --- calls ----------------------------------------------------------------------------------------

    def _called(self, node: ast.Call) -> Value:
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[_] | [_, _], keywords=[]):
                return self._get(of, node.args, node)
        called = self.object(node.func)
        if called is MISSING and isinstance(node.func, ast.Attribute):
            made = self.python.method(node)
            if made is not None:
                return made
        if isinstance(called, FunctionType) and not _is_duration(called):
            return self._inlined(called, node)
        if node.keywords or called is MISSING:
            raise self._uncalled(node)
        if _is_duration(called) and len(node.args) == 1:
            return self.constant(self._duration(node.args[0]), node.lineno)
        if called in (min, max) and len(node.args) > 1:
            return self._least(node, "<" if called is min else ">")
        if called is bool and len(node.args) == 1:
            return Value("bool", self.out.held(self.truth(node.args[0])))
        if len(node.args) != 1 or called not in _NATIVE:
            made = self.python.function(called, node.args, node.lineno)
            if made is None:
                raise self._uncalled(node)
            return made
        value = self.value(node.args[0])
        if value.kind not in ("int", "float", "bool"):
            made = self.python.called(called, [value], node.lineno)
            if made is None:
                raise self._uncalled(node)
            return made
        line = node.lineno
        self.require_value(value, line, f"TypeError: {ast.unparse(node)} of None")
        if called is float:
            return Value("float", self.out.held(self.as_float(value)))
        if called in (int, math.floor, math.ceil, math.trunc):
            if value.kind != "float":
                return Value("int", self.out.held(self.as_int(value)))
            rounding = {math.floor: "floor", math.ceil: "ceil"}.get(called)
            code = f"{rounding}({value.code})" if rounding else value.code
            numbers = [
                self.out.failure(line, "ValueError: cannot convert float NaN to integer"),
                self.out.failure(line, "OverflowError: cannot convert float infinity to integer"),
                self.out.failure(
                    line, f"OverflowError: {ast.unparse(node)} returned {_TOO_LARGE}", _TOO_LARGE_HINT
                ),
            ]
            return Value("int", self.out.held(f"truncated({code}, failed, {', '.join(numbers)})"))
        if called in (math.sqrt, math.fabs, math.isnan, math.isinf, math.isfinite):
            part = self.as_float(value)
            match called.__name__:
                case "sqrt":
                    number = self.out.failure(line, "ValueError: math domain error", None)
                    return Value("float", self.out.held(f"sqrt({part}, failed, {number})"))
                case "fabs":
                    return Value("float", self.out.held(f"abs({part})"))
                case "isnan":
                    return Value("bool", self.out.held(f"{part} != {part}"))
                case "isinf":
                    return Value("bool", self.out.held(f"abs({part}) == inf"))
                case _:
                    return Value("bool", self.out.held(f"abs({part}) < inf"))
        if called is abs:
            if value.kind == "float":
                return Value("float", self.out.held(f"abs({value.code})"))
            number = self.out.failure(
                line, f"OverflowError: abs() returned {_TOO_LARGE}", _TOO_LARGE_HINT
            )
            whole = self.out.held(self.as_int(value))
            with self.out.block(f"if {whole} < 0:"):
                self.out.write(f"{whole} = neg({whole}, failed, {number})")
            return Value("int", whole)
        raise self._uncalled(node)

    def _inlined(self, called: FunctionType, node: ast.Call) -> Value:
        """Write the body of a function of the user in place of its call."""
        if called in self._calls:
            raise self.refused(f"{called.__name__} calls itself, which cannot be compiled", node)
        # The body of the function becomes part of the loop.
        for part in ("__code__", "__defaults__"):
            read = partial(self._part_of, node.func, part, self.around)
            self.around.noted(f"{ast.unparse(node.func)}.{part}", read)
        function = called_function(called, self._sources, node)
        values = [self._keep(self.value(each)) for each in function.arguments]
        values += [self.constant(each, node.lineno) for each in function.defaults]
        before = self.around, self.out.file
        self.around, self.out.file = self.around.of_called(called), function.file
        self._calls.append(called)
        try:
            with self.scope.within(f"h{node.lineno}_{node.col_offset}_"):
                for name, value in zip(function.names, values, strict=True):
                    self.scope.assign(self.out, name, value, node.lineno)
                return self._keep(self.value(function.body))
        except CannotCompile as refused:
            refused.file = refused.file or function.file
            raise
        finally:
            self._calls.pop()
            self.around, self.out.file = before

    def _part_of(self, node: ast.expr, name: str, around: SurroundingNames) -> Any:
        return getattr(self._object(node, around), name, MISSING)

    def _keep(self, value: Value) -> Value:
        """Return the value in a variable of its own."""
        if value.kind in ("none", "other"):
            return value
        null = self.out.held(value.null) if value.null else ""
        return Value(value.kind, self.out.held(value.code), null)

    def _duration(self, node: ast.expr) -> int:
        """Return the milliseconds of a constant duration."""
        given = node.value if isinstance(node, ast.Constant) else self.object(node)
        if not isinstance(given, str | timedelta):
            raise self.refused(f"the duration {ast.unparse(node)} is not a constant", node)
        try:
            return duration_ms(given)
        except ProgramError as error:
            raise self.refused(error.what, node, error.hint) from None

    def _least(self, node: ast.Call, symbol: str) -> Value:
        """Write the code for min or max. Of equal values, the first is the result."""
        values = [self.value(each) for each in node.args]
        kinds = {value.kind for value in values}
        if kinds == {"str"}:
            called: Any = min if symbol == "<" else max
            made = self.python.called(called, values, node.lineno)
            if made is not None:
                return made
        if len(kinds) > 1 or not kinds <= {"int", "float", "bool"}:
            shown = ", ".join(value.shown for value in values)
            raise self.refused(f"{ast.unparse(node.func)} of {shown} cannot be compiled", node)
        for value in values:
            self.require_value(value, node.lineno, f"TypeError: {ast.unparse(node)} of a None value")
        name = self.out.held(values[0].code)
        for value in values[1:]:
            with self.out.block(f"if {value.code} {symbol} {name}:"):
                self.out.write(f"{name} = {value.code}")
        return Value(values[0].kind, name)

    def _uncalled(self, node: ast.Call) -> CannotCompile:
        return self.refused(
            f"{ast.unparse(node.func)}() cannot be compiled",
            node,
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


def _named(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) < 60 else text[:57] + "..."
