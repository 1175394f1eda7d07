"""Finds the expressions that Python itself evaluates in a compiled function: strings that are built,
searched or parsed, and mathematics. See `operations`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.compiler.operation_writer import write_operation
from rheos.core.compiler.operations import (
    FUNCTIONS,
    LISTS,
    METHODS,
    OPERATORS,
    SAMPLES,
    OperandKinds,
    is_error_class,
)
from rheos.core.compiler.values import CannotCompile, Kind, Value
from rheos.core.compiler.writer import Writer


@dataclass(frozen=True)
class StringList:
    """A list of strings, such as that of `split`, which is used in the expression that makes it."""

    code: str
    operands: list[Value]


class PythonExpressions:
    """A writer of such expressions."""

    def __init__(
        self,
        out: Writer,
        value: Callable[[ast.expr], Value],
        format_time: Callable[[Value, str, int], Value],
    ) -> None:
        """Create the writer. `value` writes operands. `format_time` writes the string of a datetime in
        a format, at a line."""
        self._out = out
        self._value = value
        self._format_time = format_time

    def binary(self, left: Value, symbol: str, right: Value, line: int) -> Value | None:
        """Write an operator. Return None if Python need not evaluate it for these operands."""
        for signature in OPERATORS.get(symbol, []):
            if signature.accepts((left.kind, right.kind)):
                return self._write(f"a0 {symbol} a1", [left, right], signature.result, line)
        return None

    def power(self, left: Value, right: Value, exponent: ast.expr, line: int) -> Value | None:
        """Write `**`. Two integers have an integer result only if the exponent is not negative."""
        found = self.binary(left, "**", right, line)
        if found is None and {left.kind, right.kind} <= {"int", "bool"}:
            match exponent:
                case ast.Constant(value=int()):
                    return self._write("a0 ** a1", [left, right], "int", line)
                case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as most)) if most:
                    return self._write("a0 ** a1", [left, right], "float", line)
        return found

    def format(self, node: ast.JoinedStr) -> Value:
        """Write an f-string. Raise CannotCompile if a format does not fit its value."""
        operands: list[Value] = []
        parts: list[ast.expr] = []
        for part in node.values:
            match part:
                case ast.FormattedValue(value=given, conversion=conversion, format_spec=spec):
                    value = self._value(given)
                    text = self._check_format(value, conversion, spec, node.lineno)
                    if value.kind == "moment" and conversion == -1:
                        value, text = self._format_time(value, text, node.lineno), ""
                    name = ast.Name(f"a{len(operands)}", ast.Load())
                    operands.append(value)
                    spelt = ast.JoinedStr([ast.Constant(text)]) if text else None
                    parts.append(ast.FormattedValue(name, conversion, spelt))
                case _:
                    parts.append(part)
        return self._write(ast.unparse(ast.JoinedStr(parts)), operands, "str", node.lineno)

    def _check_format(self, value: Value, conversion: int, spec: ast.expr | None, line: int) -> str:
        """Return the format, after checking that it fits each value of this kind."""
        match spec:
            case None | ast.JoinedStr(values=[]):
                text = ""
            case ast.JoinedStr(values=[ast.Constant(value=str() as text)]):
                pass
            case _:
                raise CannotCompile("a format that is computed cannot be compiled", line)
        if value.kind == "other":
            raise CannotCompile(
                "values of this column's type can only be passed on in a compiled function", line
            )
        if text and (value.null or value.kind == "none") and conversion == -1:
            raise CannotCompile(f"the format {text!r} of {value.shown} cannot be compiled", line)
        if value.kind == "moment":
            return text
        sample = SAMPLES.get(value.kind, None)
        try:
            format(sample if conversion == -1 else "a", text)
        except (TypeError, ValueError) as error:
            raise CannotCompile(f"the format {text!r} raises a ValueError: {error}", line) from None
        if text.endswith("c"):
            raise CannotCompile(f"the format {text!r} cannot be compiled", line)
        return text

    def method(self, node: ast.Call) -> Value | None:
        """Write the call of a string's method. Return None if the method is not known."""
        assert isinstance(node.func, ast.Attribute)
        of, name = node.func.value, node.func.attr
        if name == "join" and len(node.args) == 1 and not node.keywords:
            return self._join(of, node.args[0], node.lineno)
        if name not in METHODS or node.keywords:
            return None
        line = node.func.end_lineno or node.lineno
        prefixes = _prefixes(node) if name in ("startswith", "endswith") else None
        operands = [self._value(of)]
        if prefixes is not None:
            return self._write(
                f"a0.{name}({prefixes})", self._strings(operands, name, line), "bool", line
            )
        operands += [self._value(each) for each in node.args]
        signature = METHODS[name]
        kinds = [each.kind for each in operands]
        if kinds[0] != "str" or not signature.accepts(kinds[1:]):
            return None
        given = ", ".join(f"a{at}" for at in range(1, len(operands)))
        return self._write(f"a0.{name}({given})", operands, signature.result, line)

    def _strings(self, operands: list[Value], name: str, line: int) -> list[Value]:
        for each in operands:
            if each.kind != "str":
                raise CannotCompile(f"{name}() of {each.shown} cannot be compiled", line)
        return operands

    def _join(self, separator: ast.expr, given: ast.expr, line: int) -> Value | None:
        operands = self._strings([self._value(separator)], "join", line)
        parts = self.string_list(given, operands)
        if parts is not None:
            return self._write(f"a0.join({parts.code})", parts.operands, "str", line)
        if not isinstance(given, ast.List | ast.Tuple):
            return None
        operands += self._strings([self._value(each) for each in given.elts], "join", line)
        names = "".join(f"a{at}, " for at in range(1, len(operands)))
        return self._write(f"a0.join(({names}))", operands, "str", line)

    def function(self, called: Any, arguments: Sequence[ast.expr], line: int) -> Value | None:
        """Write the call of a function that is no method. Return None if Python cannot evaluate it."""
        signatures = _signatures(called)
        if not signatures:
            return None
        if called is len and len(arguments) == 1:
            parts = self.string_list(arguments[0], [])
            if parts is not None:
                return self._write(f"len({parts.code})", parts.operands, "int", line)
        return self.called(called, [self._value(each) for each in arguments], line)

    def called(self, called: Any, operands: list[Value], line: int) -> Value | None:
        """Write the call of a function with these arguments."""
        kinds = [each.kind for each in operands]
        for signature in _signatures(called):
            if signature.accepts(kinds):
                module = "math." if called.__module__ == "math" else ""
                given = ", ".join(f"a{at}" for at in range(len(operands)))
                code = f"{module}{called.__name__}({given})"
                return self._write(code, operands, signature.result, line)
        return None

    def string_list(self, node: ast.expr, operands: list[Value]) -> StringList | None:
        """Write the operands of an expression whose value is a list of strings, after other operands.
        Return None for other expressions."""
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=args, keywords=[]) if (
                name in LISTS
            ):
                first = len(operands)
                found = [*operands, self._value(of), *(self._value(each) for each in args)]
                kinds = [each.kind for each in found[first:]]
                if kinds[0] != "str" or not LISTS[name].accepts(kinds[1:]):
                    raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
                given = ", ".join(f"a{at}" for at in range(first + 1, len(found)))
                return StringList(f"a{first}.{name}({given})", found)
        return None

    def member(self, left: Value, of: ast.expr, line: int) -> Value | None:
        """Write `in` a string or a list of strings. Return None for other collections."""
        parts = self.string_list(of, [left])
        if parts is not None:
            if left.kind != "str":
                raise CannotCompile(f"{left.shown} in a list of str cannot be compiled", line)
            return self._write(f"a0 in {parts.code}", parts.operands, "bool", line)
        return self.binary(left, "in", self._value(of), line)

    def item(self, node: ast.Subscript) -> Value:
        """Write an element, or a slice, of a string, or of a list of strings."""
        line = node.lineno
        parts = self.string_list(node.value, [])
        if parts is None:
            of = self._value(node.value)
            if of.kind != "str":
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", line)
            parts = StringList("a0", [of])
        elif isinstance(node.slice, ast.Slice):
            raise CannotCompile(f"{ast.unparse(node)} as a list cannot be compiled", line)
        operands = list(parts.operands)

        def operand(part: ast.expr | None) -> str:
            if part is None:
                return ""
            value = self._value(part)
            if value.kind not in ("int", "bool") and not (
                value.kind == "none" and isinstance(node.slice, ast.Slice)
            ):
                raise CannotCompile(f"{ast.unparse(node)} has an index of {value.shown}", line)
            operands.append(value)
            return f"a{len(operands) - 1}"

        match node.slice:
            case ast.Slice(lower=lower, upper=upper, step=step):
                index = ":".join(operand(each) for each in (lower, upper, step))
            case _:
                index = operand(node.slice)
        return self._write(f"{parts.code}[{index}]", operands, "str", line)

    def items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """Return the number of characters of a string, or of elements of a list of strings, and a
        function that writes one by its position."""
        parts = self.string_list(node, [])
        if parts is None:
            value = self._value(node)
            if value.kind != "str":
                raise CannotCompile(f"a loop over {ast.unparse(node)} cannot be compiled", node.lineno)
            parts = StringList("a0", [value])
        code, line = parts.code, node.lineno
        # The loop may assign to the variables that the operands are.
        operands = [self._out.held_value(each) for each in parts.operands]
        count = self._write(f"len({code})", operands, "int", line).code

        def item_at(at: str) -> Value:
            given = [*operands, Value("int", at)]
            return self._write(f"{code}[a{len(operands)}]", given, "str", line)

        return count, item_at

    def unpack(self, node: ast.expr, count: int) -> list[Value] | None:
        """Write the elements of a list of strings that is unpacked into `count` names."""
        parts = self.string_list(node, [])
        if parts is None:
            return None
        return [
            self._write(f"unpack({parts.code}, {count}, {at})", parts.operands, "str", node.lineno)
            for at in range(count)
        ]

    def raise_error(self, cls: Any, arguments: Sequence[ast.expr], line: int) -> bool:
        """Write the raising of an exception. Return False unless it is one of Python's own."""
        if not is_error_class(cls):
            return False
        operands = [self._value(each) for each in arguments]
        if any(each.kind == "other" for each in operands):
            return False
        given = ", ".join(f"a{at}" for at in range(len(operands)))
        self._write(f"raise_error({cls.__name__}({given}))", operands, "int", line)
        return True

    def _write(self, code: str, operands: Sequence[Value], result: Kind, line: int) -> Value:
        return write_operation(self._out, code, operands, result, line)


def _signatures(called: Any) -> list[OperandKinds]:
    try:
        return FUNCTIONS.get(called, [])
    except TypeError:  # It has no hash.
        return []


def _prefixes(node: ast.Call) -> str | None:
    """Return the only argument, if it is a tuple of literal strings, as source code."""
    match node.args:
        case [ast.Tuple(elts=elements)] if all(
            isinstance(each, ast.Constant) and isinstance(each.value, str) for each in elements
        ):
            return ast.unparse(node.args[0])
    return None
