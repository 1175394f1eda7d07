"""Writes the use of datetimes in UTC, and of timedeltas, which compiled code stores as microseconds.

Datetimes come from columns, constants and `datetime.fromtimestamp(seconds, UTC)`. Machine code computes
the parts of the time of day, and the day of the week. Python evaluates other attributes and methods. If
a result is the same for a whole day or minute, Python receives the start of it, so that compiled code
remembers more results.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.operation_writer import write_operation
from rheos.core.compiler.operator_writer import Operators
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.time_arithmetic import DURATION_ATTRIBUTES
from rheos.core.compiler.values import CannotCompile, Kind, Value
from rheos.core.compiler.writer import Writer

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86400 * _SECOND

_TIMES = {
    "hour": f"({{}} // {_HOUR}) % 24",
    "minute": f"({{}} // {_MINUTE}) % 60",
    "second": f"({{}} // {_SECOND}) % 60",
    "microsecond": f"{{}} % {_SECOND}",
}
"""Machine code of the attributes that are parts of the time of day."""

_PARTS = {
    "hour": (_HOUR, range(24)),
    "minute": (_MINUTE, range(60)),
    "second": (_SECOND, range(60)),
    "microsecond": (1, range(1_000_000)),
}
"""The unit and the values of each part of the time of day."""

_KINDS = ("moment", "duration")

_DATES = ("year", "month", "day")
"""Attributes that depend on the day only."""

_WEEKDAYS = {"weekday": "({} + 3) % 7", "isoweekday": "({} + 3) % 7 + 1"}
"""Machine code of the methods of the number of the day. The epoch was a Thursday."""

_OF_MINUTES = re.compile("([^%]|%[YmdHMjaAbByUWVGuwpIZz%])*")
"""Formats whose result is the same for each time within a minute."""

_METHODS: dict[str, tuple[Kind, int]] = {
    "strftime": ("str", 1),
    "isoformat": ("str", 2),
    "timestamp": ("float", 0),
}
"""Kind of the result, and maximum number of arguments, which are strings."""


class MomentWriter:
    """A writer of datetimes. `value` writes the arguments of calls."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        names: NameResolver,
        operators: Operators,
        value: Callable[[ast.expr], Value],
    ) -> None:
        self.out = out
        self.scope = scope
        self._names = names
        self._operators = operators
        self._value = value

    def attribute(self, node: ast.Attribute) -> Value | None:
        """Write the access to an attribute of a datetime or a timedelta. Return None for other
        nodes."""
        if not (node.attr in _TIMES or node.attr in _DATES or node.attr in DURATION_ATTRIBUTES):
            return None
        moment = self._owner(node.value, node)
        if moment is None:
            return None
        if moment.kind == "duration":
            if node.attr not in DURATION_ATTRIBUTES:
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
            return Value("int", self.out.held(DURATION_ATTRIBUTES[node.attr].format(moment.code)))
        if node.attr in DURATION_ATTRIBUTES:
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        if node.attr in _TIMES:
            return Value("int", self.out.held(_TIMES[node.attr].format(moment.code)))
        start = Value("int", self.out.held(f"{moment.code} - {moment.code} % {_DAY}"))
        return write_operation(self.out, f"moment(a0).{node.attr}", [start], "int", node.lineno)

    def call(self, node: ast.Call) -> Value | None:
        """Write the creation of a datetime, or the call of one of its methods. Return None for other
        calls."""
        if self._is_creation(node):
            seconds = self._value(node.args[0])
            if seconds.kind not in ("int", "float", "bool"):
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
            made = write_operation(self.out, "microseconds(a0)", [seconds], "int", node.lineno)
            return Value("moment", made.code)
        if not isinstance(node.func, ast.Attribute):
            return None
        name = node.func.attr
        if name not in (*_METHODS, *_WEEKDAYS, "replace", "total_seconds"):
            return None
        moment = self._owner(node.func.value, node.func)
        if moment is None:
            return None
        if moment.kind == "duration" or name == "total_seconds":
            if (moment.kind, name) != ("duration", "total_seconds") or node.args or node.keywords:
                raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
            return self._operators.times.seconds(moment.code, "span(a0).total_seconds()", node.lineno)
        if name == "replace":
            return self._replaced(moment, node)
        kind, most = _METHODS.get(name, ("int", 0))
        if node.keywords or len(node.args) > most or (name == "strftime" and not node.args):
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        if name in _WEEKDAYS:
            return Value("int", self.out.held(_WEEKDAYS[name].format(f"{moment.code} // {_DAY}")))
        if name == "timestamp":
            return self._operators.times.seconds(moment.code, "moment(a0).timestamp()", node.lineno)
        code = moment.code
        match node.args:
            case [ast.Constant(value=str() as form)] if name == "strftime":
                code = self._shared(moment, form)
        operands = [Value("int", code), *(self._value(each) for each in node.args)]
        if any(each.kind != "str" for each in operands[1:]):
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        given = ", ".join(f"a{at}" for at in range(1, len(operands)))
        operation = "format_moment(a0, a1)" if name == "strftime" else f"moment(a0).{name}({given})"
        return write_operation(self.out, operation, operands, kind, node.lineno)

    def _replaced(self, moment: Value, node: ast.Call) -> Value:
        """Write a call of `replace` whose arguments are constant parts of the time of day."""
        code = moment.code
        for keyword in node.keywords:
            match keyword:
                case ast.keyword(
                    arg="hour" | "minute" | "second" | "microsecond" as part,
                    value=ast.Constant(value=int() as given),
                ) if given in _PARTS[part][1]:
                    unit = _PARTS[part][0]
                    before = f"({_TIMES[part].format(code)})"
                    code = self.out.held(f"{code} + ({given} - {before}) * {unit}")
                case _:
                    raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        if node.args:
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        return Value("moment", code)

    def format(self, moment: Value, spec: str, line: int) -> Value:
        """Write a datetime in an f-string."""
        if moment.null:
            raise CannotCompile(f"the format of {moment.shown} cannot be compiled", line)
        if not spec:
            return self._python("moment(a0).isoformat(' ')", moment.code, line)
        return self._python(f"format_moment(a0, {spec!r})", self._shared(moment, spec), line)

    def _python(self, operation: str, code: str, line: int) -> Value:
        return write_operation(self.out, operation, [Value("int", code)], "str", line)

    def _shared(self, moment: Value, form: str) -> str:
        """Return code for a time that has the same string in a format: the start of the minute, if the
        format has no smaller parts."""
        if _OF_MINUTES.fullmatch(form):
            return self.out.held(f"{moment.code} - {moment.code} % {_MINUTE}")
        return moment.code

    def _is_creation(self, node: ast.Call) -> bool:
        match node:
            case (
                ast.Call(
                    func=ast.Attribute(value=of, attr="fromtimestamp"), args=[_, zone], keywords=[]
                )
                | ast.Call(
                    func=ast.Attribute(value=of, attr="fromtimestamp"),
                    args=[_],
                    keywords=[ast.keyword(arg="tz", value=zone)],
                )
            ):
                return self._names.object(of) is datetime and self._names.object(zone) is UTC
        return False

    def _owner(self, node: ast.expr, access: ast.Attribute) -> Value | None:
        """Write the datetime or timedelta whose attribute is accessed; None if the node has neither as
        its value."""
        moment = self._time(node)
        if moment is not None:
            what = f"AttributeError: 'NoneType' object has no attribute {access.attr!r}"
            self.out.require_value(moment, access.lineno, what)
        return moment

    def _may_be_time(self, node: ast.Call) -> bool:
        is_replace = isinstance(node.func, ast.Attribute) and node.func.attr == "replace"
        called = self._names.object(node.func)
        return self._is_creation(node) or called in (timedelta, abs, min, max) or is_replace

    def _time(self, node: ast.expr) -> Value | None:
        """Write the node if its value is a datetime or a timedelta; return None otherwise."""
        match node:
            case ast.Name(id=name) if self.scope.has(name):
                found = self.scope.variable_of("moment", name, node.lineno)
                return found or self.scope.variable_of("duration", name, node.lineno)
            case ast.BinOp() | ast.Call():
                if isinstance(node, ast.Call) and not self._may_be_time(node):
                    return None
                with self.out.trial(), self.scope.perhaps():
                    kind = self._value(node).kind
                return self._value(node) if kind in _KINDS else None
            case ast.Name() | ast.Attribute():
                field = self.scope.field(node)
                given = self._names.object(node) if field is None else None
                if isinstance(given, datetime | timedelta) or (field and field.kind in _KINDS):
                    return self._value(node)
        return None
