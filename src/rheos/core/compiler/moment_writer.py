"""Writes the use of datetimes in UTC, which compiled code stores as microseconds since the epoch.

`datetime.fromtimestamp(seconds, UTC)` creates them. Machine code computes the parts of the time of day,
and the day of the week. Python evaluates other attributes and methods. If a result is the same for a
whole day or minute, Python receives the start of it, so that compiled code remembers more results.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import UTC, datetime

from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.operation_writer import write_operation
from rheos.core.compiler.operator_writer import Operators
from rheos.core.compiler.scope import MethodScope
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
        """Write the access to an attribute of a datetime. Return None for other nodes."""
        if node.attr not in _TIMES and node.attr not in _DATES:
            return None
        moment = self._owner(node.value, node)
        if moment is None:
            return None
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
        if name not in _METHODS and name not in _WEEKDAYS:
            return None
        moment = self._owner(node.func.value, node.func)
        if moment is None:
            return None
        kind, most = _METHODS.get(name, ("int", 0))
        if node.keywords or len(node.args) > most or (name == "strftime" and not node.args):
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        if name in _WEEKDAYS:
            return Value("int", self.out.held(_WEEKDAYS[name].format(f"{moment.code} // {_DAY}")))
        operands = [Value("int", self._shared(moment, node))]
        operands += [self._value(each) for each in node.args]
        if any(each.kind != "str" for each in operands[1:]):
            raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)
        given = ", ".join(f"a{at}" for at in range(1, len(operands)))
        code = "format_moment(a0, a1)" if name == "strftime" else f"moment(a0).{name}({given})"
        return write_operation(self.out, code, operands, kind, node.lineno)

    def _shared(self, moment: Value, node: ast.Call) -> str:
        """Return code for a time at which a method has the same result: the start of the minute, if a
        format has no smaller parts."""
        match node:
            case ast.Call(
                func=ast.Attribute(attr="strftime"), args=[ast.Constant(value=str() as form)]
            ) if _OF_MINUTES.fullmatch(form):
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
        """Write the datetime whose attribute is accessed; None if the node has no datetime as its
        value."""
        moment = None
        if isinstance(node, ast.Name):
            moment = self.scope.variable_of("moment", node.id, node.lineno)
        elif isinstance(node, ast.Call) and self._is_creation(node):
            moment = self._value(node)
        if moment is not None:
            what = f"AttributeError: 'NoneType' object has no attribute {access.attr!r}"
            self._operators.require_value(moment, access.lineno, what)
        return moment
