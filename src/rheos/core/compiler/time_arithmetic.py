"""Writes arithmetic of datetimes and timedeltas, which compiled code stores as microseconds.

A datetime counts from the epoch, and is in UTC. Results beyond 64 bits, or beyond the years that
Python supports, are failures.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rheos.core.compiler.constants import constant_of
from rheos.core.compiler.operation_writer import write_operation
from rheos.core.compiler.values import EPOCH, EXACT_INTEGERS, MICROSECOND, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Writer

_EARLIEST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

_UNITS = {
    "days": timedelta(days=1),
    "seconds": timedelta(seconds=1),
    "microseconds": timedelta(microseconds=1),
    "milliseconds": timedelta(milliseconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "weeks": timedelta(weeks=1),
}
"""The arguments of `timedelta`, in the order of their positions."""

DURATION_ATTRIBUTES = {
    "days": "{} // 86400000000",
    "seconds": "({} // 1000000) % 86400",
    "microseconds": "{} % 1000000",
}
"""Machine code of the attributes of a timedelta."""

_TOO_LARGE = "OverflowError: a timedelta that exceeds the 64 bits of compiled functions"


class TimeArithmetic:
    """A writer of such arithmetic. `value` writes the arguments of calls."""

    def __init__(self, out: Writer, value: Callable[[ast.expr], Value]) -> None:
        self.out = out
        self._value = value

    def binary(self, left: Value, op: ast.operator, right: Value, line: int) -> Value | None:
        """Write an operator. Return None if no operand is a datetime or a timedelta."""
        if not {left.kind, right.kind} & {"moment", "duration"}:
            return None
        for operand in (left, right):
            self.out.require_value(
                operand, line, f"TypeError: {left.shown} and {right.shown} in arithmetic"
            )
        a, b = f"int64({left.code})", f"int64({right.code})"
        match left.kind, op, right.kind:
            case ("moment", ast.Add(), "duration") | ("duration", ast.Add(), "moment"):
                return self._moment("add", a, b, line)
            case ("moment", ast.Sub(), "duration"):
                return self._moment("sub", a, b, line)
            case ("moment", ast.Sub(), "moment"):
                return Value("duration", self.out.held(f"{a} - {b}"))
            case ("duration", ast.Add() | ast.Sub(), "duration"):
                return self._duration("add" if isinstance(op, ast.Add) else "sub", a, b, line)
            case ("duration", ast.Mult(), "int" | "bool") | ("int" | "bool", ast.Mult(), "duration"):
                return self._duration("mul", a, b, line)
            case ("duration", ast.FloorDiv(), "int" | "bool" | "duration"):
                kind: Kind = "int" if right.kind == "duration" else "duration"
                numbers = f"{self._zero(line)}, {self.out.failure(line, _TOO_LARGE)}"
                return Value(kind, self.out.held(f"floordiv({a}, {b}, failed, {numbers})"))
            case ("duration", ast.Mod(), "duration"):
                return Value("duration", self.out.held(f"mod({a}, {b}, failed, {self._zero(line)})"))
            case ("duration", ast.Div(), "duration"):
                unsure = self.out.failure(line, "OverflowError: / of timedeltas beyond 2 ** 53 us")
                numbers = f"{self._zero(line)}, {unsure}"
                return Value("float", self.out.held(f"truediv({a}, {b}, failed, {numbers})"))
        name = type(op).__name__
        raise CannotCompile(f"{name} of {left.shown} and {right.shown} cannot be compiled", line)

    def unary(self, value: Value, node: ast.UnaryOp) -> Value | None:
        """Write `-` or `+` of a timedelta. Return None for other operands."""
        if value.kind != "duration" or isinstance(node.op, ast.Invert | ast.Not):
            return None
        self.out.require_value(value, node.lineno, f"TypeError: {ast.unparse(node)} of None")
        if isinstance(node.op, ast.UAdd):
            return value
        number = self.out.failure(node.lineno, _TOO_LARGE)
        return Value("duration", self.out.held(f"neg({value.code}, failed, {number})"))

    def absolute(self, value: Value, line: int) -> Value:
        """Write `abs` of a timedelta."""
        self.out.require_value(value, line, "TypeError: abs() of None")
        whole = self.out.held(value.code)
        with self.out.block(f"if {whole} < 0:"):
            self.out.write(f"{whole} = neg({whole}, failed, {self.out.failure(line, _TOO_LARGE)})")
        return Value("duration", whole)

    def create(self, node: ast.Call) -> Value:
        """Write a call of `timedelta`. Python itself evaluates arguments that are floats."""
        given = dict(zip(_UNITS, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in _UNITS or keyword.arg in given:
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
            given[keyword.arg] = keyword.value
        if len(node.args) > len(_UNITS):
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        constants = {name: _number(each) for name, each in given.items()}
        if None not in constants.values():
            made = timedelta(**{name: each for name, each in constants.items() if each is not None})
            return constant_of(made, self.out.texts, node.lineno)
        values = {name: self._value(each) for name, each in given.items()}
        for name, value in values.items():
            if value.kind not in ("int", "bool", "float"):
                raise CannotCompile(f"timedelta({name}=) of {value.shown}", node.lineno)
            self.out.require_value(value, node.lineno, f"TypeError: timedelta({name}=None)")
        if any(value.kind == "float" for value in values.values()):
            parts = ", ".join(f"{name}=a{at}" for at, name in enumerate(values))
            operands = [Value(value.kind, value.code) for value in values.values()]
            made_by = write_operation(self.out, f"duration({parts})", operands, "int", node.lineno)
            return Value("duration", made_by.code)
        total = Value("duration", "0")
        for name, value in values.items():
            unit = f"{_UNITS[name] // MICROSECOND}"
            part = self._duration("mul", f"int64({value.code})", unit, node.lineno)
            total = self._duration("add", total.code, part.code, node.lineno)
        return total

    def seconds(self, code: str, of: str, line: int) -> Value:
        """Write the division of microseconds by a million, as Python rounds it. `of` is the expression
        of Python that computes the same from `a0`."""
        found = self.out.held("0.0")
        limit = EXACT_INTEGERS
        with self.out.block(f"if -{limit} <= {code} <= {limit}:"):
            self.out.write(f"{found} = float({code}) / 1000000.0")
        with self.out.block("else:"):
            other = write_operation(self.out, of, [Value("int", code)], "float", line)
            self.out.write(f"{found} = {other.code}")
        return Value("float", found)

    def _moment(self, name: str, a: str, b: str, line: int) -> Value:
        number = self.out.failure(line, "OverflowError: date value out of range")
        found = self.out.held(f"{name}({a}, {b}, failed, {number})")
        with self.out.block(f"if not {_EARLIEST} <= {found} <= {_LATEST}:"):
            self.out.write(f"fail(failed, {number})")
        return Value("moment", found)

    def _duration(self, name: str, a: str, b: str, line: int) -> Value:
        number = self.out.failure(line, _TOO_LARGE)
        return Value("duration", self.out.held(f"{name}({a}, {b}, failed, {number})"))

    def _zero(self, line: int) -> str:
        return self.out.failure(line, "ZeroDivisionError: integer division or modulo by zero")


def _number(node: ast.expr) -> int | float | None:
    """Return the value of a literal number; None for other expressions."""
    match node:
        case ast.Constant(value=int() | float() as given):
            return given
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as given)):
            return -given
    return None
