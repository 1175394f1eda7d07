"""Writes operators and functions of numbers, whose operands were computed before."""

from __future__ import annotations

import ast
import math
from typing import Any

from rheos.core.compiler.python_expressions import PythonExpressions
from rheos.core.compiler.time_arithmetic import TimeArithmetic
from rheos.core.compiler.values import TOO_LARGE, TOO_LARGE_HINT, CannotCompile, Value
from rheos.core.compiler.writer import Writer

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

NATIVE = (
    abs, float, int, math.floor, math.ceil, math.trunc, math.sqrt, math.fabs, math.isnan, math.isinf,
    math.isfinite,
)  # fmt: skip
"""Functions of a number that have machine code."""


class Operators:
    """A writer of operators. Python evaluates those that have no machine code for their operands."""

    def __init__(self, out: Writer, python: PythonExpressions, times: TimeArithmetic) -> None:
        self.out = out
        self.times = times
        self.python = python

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
        found = self.times.binary(left, op, right, line)
        if found is not None:
            return found
        wrong = not {left.kind, right.kind} <= {"int", "float", "bool"}
        if wrong or type(op) in _OTHERS:
            raise CannotCompile(f"{left.shown} {symbol} {right.shown} cannot be compiled", line)
        what = f"TypeError: {symbol} of {left.shown} and {right.shown}, one of which was None"
        self.out.require_value(left, line, what)
        self.out.require_value(right, line, what)
        if type(op) in _BITS:
            return self._bits(left, symbol, right, line)
        name = _ARITHMETIC[type(op)][1]
        large = (line, f"OverflowError: {symbol} returned {TOO_LARGE}", TOO_LARGE_HINT)
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

    def unary(self, value: Value, node: ast.UnaryOp) -> Value:
        """Write `-`, `+` or `~` of a value."""
        found = self.times.unary(value, node)
        if found is not None:
            return found
        if value.kind not in ("int", "float", "bool"):
            raise CannotCompile(f"{ast.unparse(node)} of {value.shown} raises a TypeError", node.lineno)
        self.out.require_value(value, node.lineno, f"TypeError: {ast.unparse(node)} of None")
        if value.kind == "float" and not isinstance(node.op, ast.Invert):
            sign = "-" if isinstance(node.op, ast.USub) else ""
            return Value("float", self.out.held(f"{sign}{value.code}"))
        if value.kind == "float":
            raise CannotCompile("the operator ~ raises a TypeError for a float", node.lineno)
        whole = self.as_int(value)
        if isinstance(node.op, ast.USub):
            number = self.out.failure(
                node.lineno, f"OverflowError: - returned {TOO_LARGE}", TOO_LARGE_HINT
            )
            return Value("int", self.out.held(f"neg({whole}, failed, {number})"))
        return Value("int", self.out.held(f"~{whole}" if isinstance(node.op, ast.Invert) else whole))

    def as_float(self, value: Value) -> str:
        return value.code if value.kind == "float" else f"float({value.code})"

    def as_int(self, value: Value) -> str:
        return value.code if value.kind == "int" else f"int64({value.code})"

    # --- comparisons ----------------------------------------------------------------------------------

    def compare(self, left: Value, op: ast.cmpop, right: Value, node: ast.expr) -> str:
        """Write the comparison of two values, and return the code of its result."""
        if isinstance(op, ast.Is | ast.IsNot):
            if "none" not in (left.kind, right.kind):
                raise CannotCompile(
                    "`is` can be compiled only with None", node.lineno, "compare with =="
                )
            other = left if right.kind == "none" else right
            return f"{'' if isinstance(op, ast.Is) else 'not '}{other.null or 'False'}"
        symbol = _ORDER[type(op)]
        if "record" in (left.kind, right.kind):
            raise CannotCompile("a comparison of dataclasses cannot be compiled", node.lineno)
        equality = symbol in ("==", "!=")
        if "none" in (left.kind, right.kind) and equality:
            other = left if right.kind == "none" else right
            return f"{'' if symbol == '==' else 'not '}{other.null or 'False'}"
        times = left.kind == right.kind and left.kind in ("moment", "duration")
        numbers = times or {left.kind, right.kind} <= {"int", "float", "bool"}
        if not (numbers or equality):
            found = self.python.binary(left, symbol, right, node.lineno)
            if found is not None:
                return found.code
        if not (numbers or (equality and left.kind == right.kind == "str")):
            raise CannotCompile(f"{left.shown} {symbol} {right.shown} cannot be compiled", node.lineno)
        if not equality:
            what = f"TypeError: {symbol} of {left.shown} and {right.shown}, one of which was None"
            self.out.require_value(left, node.lineno, what)
            self.out.require_value(right, node.lineno, what)
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

    # --- functions ------------------------------------------------------------------------------------

    def call(self, called: Any, value: Value, node: ast.Call) -> Value:
        """Write the call of one of the `NATIVE` functions of a number."""
        line = node.lineno
        self.out.require_value(value, line, f"TypeError: {ast.unparse(node)} of None")
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
                    line, f"OverflowError: {ast.unparse(node)} returned {TOO_LARGE}", TOO_LARGE_HINT
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
        assert called is abs
        if value.kind == "float":
            return Value("float", self.out.held(f"abs({value.code})"))
        number = self.out.failure(line, f"OverflowError: abs() returned {TOO_LARGE}", TOO_LARGE_HINT)
        whole = self.out.held(self.as_int(value))
        with self.out.block(f"if {whole} < 0:"):
            self.out.write(f"{whole} = neg({whole}, failed, {number})")
        return Value("int", whole)
