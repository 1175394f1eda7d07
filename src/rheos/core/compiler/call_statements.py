"""Writes calls that are statements: `clear` of state, side outputs, and changes of timers."""

from __future__ import annotations

import ast

from rheos.core.compiler.emission_writer import EmittedRecords
from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.state_values import clear_state
from rheos.core.compiler.values import CannotCompile
from rheos.core.compiler.writer import Writer
from rheos.core.graph.functions import defines

_TIMERS = {"register": 0, "delete": 1, "register_processing": 2, "delete_processing": 3}
"""Codes of timer changes."""


class CallStatements:
    """A writer of calls for their effects. `emitted` writes emissions to side outputs."""

    def __init__(
        self, writer: Writer, scope: MethodScope, expressions: Expressions, emitted: EmittedRecords
    ) -> None:
        self.out = writer
        self.scope = scope
        self.expressions = expressions
        self.emitted = emitted

    def write(self, node: ast.Call) -> None:
        """Write the call. Raise CannotCompile for any other call."""
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="append"), args=[element], keywords=[]):
                elements = self.scope.list_state(of)
                if elements is not None:
                    self.expressions.lists.append(elements, element)
                    return
            case ast.Call(func=ast.Attribute(value=of, attr="clear"), args=[], keywords=[]):
                elements = self.scope.list_state(of)
                if elements is not None:
                    self.expressions.lists.clear(elements)
                    return
                mapped = self.scope.map_state(of)
                if mapped is not None:
                    self.expressions.maps.clear(mapped)
                    return
                declared = self.scope.state(of)
                if declared is not None and self.expressions.records.is_stored(declared):
                    self.expressions.records.clear_state(declared)
                    return
                if declared is not None:
                    clear_state(self.out, declared)
                    return
            case ast.Call(func=ast.Attribute(value=of, attr="output"), args=[tag, record], keywords=[]):
                if self.scope.is_context(of):
                    if not (isinstance(tag, ast.Constant) and isinstance(tag.value, str)):
                        raise CannotCompile(
                            "the tag of a side output must be a literal string", node.lineno
                        )
                    self.emitted.write(tag.value, record)
                    return
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=of, attr="timers"), attr=what),
                args=[time],
                keywords=[],
            ):
                if self.scope.is_context(of) and what in _TIMERS:
                    self._timer(what, time, node.lineno)
                    return
        raise CannotCompile(f"{ast.unparse(node.func)}() cannot be compiled", node.lineno)

    def _timer(self, what: str, time: ast.expr, line: int) -> None:
        if what == "register" and not self.scope.event_time:
            raise CannotCompile(
                "an event-time timer is registered on a stream without event time",
                line,
                "set watermark= on the source, or use register_processing",
            )
        value = self.expressions.value(time)
        if value.kind != "int":
            raise CannotCompile(
                f"a timer must be set to an int, in milliseconds, not to {value.shown}", line
            )
        if what.startswith("register") and not defines(self.scope.instance, "on_timer"):
            raise CannotCompile(
                "a timer is registered, but the function has no method on_timer",
                line,
                "define on_timer",
            )
        self.out.require_value(
            value, line, "TypeError: a timer must be set to milliseconds, not to None"
        )
        self.out.timer_changes += 1
        at = self.out.held(value.code)
        if self.out.loops:
            self.out.timers_grow = True
            with self.out.block("if timers == len(timer_times):"):
                for column in ("timer_kinds", "timer_times", "timer_slots"):
                    self.out.write(f"{column} = grown({column})")
        self.out.write(f"timer_kinds[timers] = {_TIMERS[what]}")
        self.out.write(f"timer_times[timers] = {at}")
        self.out.write("timer_slots[timers] = slot")
        self.out.write("timers += 1")
        self.out.write(f"next_timer = min(next_timer, {at})" if what == "register" else "changes += 1")
        if what == "register_processing":
            self.out.write(f"next_clock = min(next_clock, {at})")
