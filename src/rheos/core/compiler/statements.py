"""Writes statements of a method as plain typed Python."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.match_statements import if_statements, subjects_of
from rheos.core.compiler.record_classes import only_sets_fields
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import CannotCompile, EmittedType, Kind, Value, kind_of_column
from rheos.core.compiler.writer import OutputColumn, OutputColumns, Writer
from rheos.core.graph.functions import defines

_TIMERS = {"register": 0, "delete": 1, "register_processing": 2, "delete_processing": 3}
"""Codes of timer changes."""


class Statements:
    """A writer for the body of a method. `outputs` are the columns of each output, by tag."""

    def __init__(
        self,
        writer: Writer,
        scope: MethodScope,
        expressions: Expressions,
        outputs: Mapping[str, EmittedType | None],
        *,
        yields: bool,
    ) -> None:
        self.out = writer
        self.scope = scope
        self.expressions = expressions
        self.outputs = outputs
        self.yields = yields
        """Whether the method is a generator."""
        self._loops = 0
        self._returns = False
        """Whether the method has a return statement within a loop."""

    def body(self, nodes: Sequence[ast.stmt]) -> bool:
        """Write the statements. Return whether the code after them is unreachable."""
        return any(self._statement(node) for node in nodes)

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case (
                ast.Pass()
                | ast.Expr(value=ast.Constant())
                | ast.Expr(value=ast.YieldFrom(value=ast.Tuple(elts=[])))
            ):
                pass
            case ast.Expr(value=ast.Yield(value=given)) if given is not None:
                self._emit("", given)
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.Assign(targets=[target], value=given):
                self._assign(target, given)
            case ast.Assign(targets=targets, value=given):
                value = self._assign_value(self.expressions.value(given))
                for target in targets:
                    self._put(target, value)
            case ast.AnnAssign(target=target, value=given):
                if given is not None:
                    self._assign(target, given)
            case ast.AugAssign(target=target, op=op, value=given):
                before = self.expressions.value(_read(target))
                added = self.expressions.value(given)
                value = self.expressions.binary(before, op, added, node.lineno, given)
                self._put(target, value)
            case ast.If():
                return self._compile_if(node)
            case ast.Match():
                return self._match(node)
            case ast.While(orelse=[]):
                self._while(node)
            case ast.For(orelse=[]):
                self._compile_for(node)
            case ast.Return(value=given):
                self._return(given)
                return True
            case ast.Raise(exc=given, cause=None | ast.Constant(value=None)) if given is not None:
                self._raise(given)
                return True
            case ast.Assert(test=test, msg=message):
                self._assert(test, message, node.lineno)
            case ast.Break() | ast.Continue():
                self.out.write("break" if isinstance(node, ast.Break) else "continue")
                return True
            case _:
                text = ast.unparse(node).splitlines()[0]
                raise CannotCompile(f"{text[:60]!r} cannot be compiled", node.lineno)
        return False

    # --- assignments ----------------------------------------------------------------------------------

    def _assign(self, target: ast.expr, given: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple):
            if len(target.elts) != len(given.elts):
                raise CannotCompile(
                    "the number of values differs from the number of names", target.lineno
                )
            values = [self._assign_value(self.expressions.value(each)) for each in given.elts]
            for name, value in zip(target.elts, values, strict=True):
                self._put(name, value)
            return
        if isinstance(target, ast.Tuple):
            parts = self.expressions.python.unpack(given, len(target.elts))
            if parts is not None:
                for name, value in zip(target.elts, parts, strict=True):
                    self._put(name, value)
                return
        self._put(target, self.expressions.value(given))

    def _assign_value(self, value: Value) -> Value:
        if value.kind in ("none", "other"):
            return value
        null = self.out.held(value.null) if value.null else ""
        return Value(value.kind, self.out.held(value.code), null)

    def _put(self, target: ast.expr, value: Value) -> None:
        line = target.lineno
        match target:
            case ast.Name(id=name):
                self.scope.assign(self.out, name, value, line)
                return
            case ast.Attribute(value=of, attr="value"):
                declared = self.scope.state(of)
                if declared is not None:
                    self.scope.write_state(self.out, declared, value, line)
                    return
        raise CannotCompile(
            f"an assignment to {ast.unparse(target)} cannot be compiled",
            line,
            "assign to local variables, or to state with `self.name.value = ...`",
        )

    # --- control --------------------------------------------------------------------------------------

    def _compile_if(self, node: ast.If) -> bool:
        test = self.expressions.truth(node.test)
        before = set(self.scope.assigned)
        with self.out.block(f"if {test}:"):
            ended = self.body(node.body)
        behind = self.scope.assigned
        self.scope.assigned = before
        if not node.orelse:
            return False
        with self.out.block("else:"):
            other = self.body(node.orelse)
        if ended:
            return other
        self.scope.assigned = behind if other else behind & self.scope.assigned
        return False

    def _match(self, node: ast.Match) -> bool:
        values = [self.expressions.value(each) for each in subjects_of(node)]
        names = [f"match {node.lineno} {at}".replace(" ", "_") for at in range(len(values))]
        for name, value in zip(names, values, strict=True):
            self.scope.assign(self.out, name, value, node.lineno)
        return self.body(if_statements(node, names))

    def _while(self, node: ast.While) -> None:
        self._loops += 1
        with self.scope.perhaps(), self.out.block("while failed[0] == 0:"):
            test = self.expressions.truth(node.test)
            with self.out.block(f"if not {test}:"):
                self.out.write("break")
            self.body(node.body)
        self._behind_loop()

    def _compile_for(self, node: ast.For) -> None:
        match node.iter:
            case ast.Call(func=called, args=args, keywords=[]) if (
                1 <= len(args) <= 3 and self.expressions.object(called) is range
            ):
                pass
            case _:
                self._loop_over_items(node)
                return
        if not isinstance(node.target, ast.Name):
            raise CannotCompile("a loop over range() must have one variable", node.lineno)
        values = [self.expressions.value(each) for each in args]
        if any(value.kind not in ("int", "bool") for value in values):
            raise CannotCompile(f"{ast.unparse(node.iter)} is not a range of int", node.lineno)
        for value in values:
            self.expressions.require_value(value, node.lineno, "TypeError: range() of None")
        numbers = [self.out.held(self.expressions.as_int(value)) for value in values]
        if len(numbers) == 3:
            number = self.out.failure(node.lineno, "ValueError: range() arg 3 must not be zero")
            with self.out.block(f"if {numbers[2]} == 0:"):
                self.out.write(f"fail(failed, {number})")
                self.out.write(f"{numbers[2]} = 1")
        target = node.target
        self._loop(node, ", ".join(numbers), lambda each: self._put(target, Value("int", each)))

    def _loop(self, node: ast.For, numbers: str, assign: Callable[[str], None]) -> None:
        """Write a loop over a range. `assign` assigns the variables of the user, from the number."""
        each = self.out.name()
        self._loops += 1
        with self.scope.perhaps(), self.out.block(f"for {each} in range({numbers}):"):
            with self.out.block("if failed[0] != 0:"):
                self.out.write("break")
            assign(each)
            self.body(node.body)
        self._behind_loop()

    def _loop_over_items(self, node: ast.For) -> None:
        """Write a loop over constants, over the characters of a string, or over parts of a string."""
        iterated, target, counter = node.iter, node.target, None
        match iterated, target:
            case ast.Call(func=called, args=[inner], keywords=[]), ast.Tuple(elts=[number, item]) if (
                self.expressions.object(called) is enumerate
            ):
                iterated, target, counter = inner, item, number
        if not isinstance(target, ast.Name) or not isinstance(counter, ast.Name | None):
            raise CannotCompile(
                f"a loop over {ast.unparse(node.iter)} must have one variable", node.lineno
            )
        count, item_at = self.expressions.items(iterated)

        def assign(each: str) -> None:
            if counter is not None:
                self._put(counter, Value("int", each))
            self._put(target, item_at(each))

        self._loop(node, count, assign)

    def _behind_loop(self) -> None:
        self._loops -= 1
        if self._returns:
            with self.out.block("if returned:"):
                self.out.write("break")

    def _return(self, given: ast.expr | None) -> None:
        match given:
            case None | ast.Constant(value=None):
                pass
            case _ if self.yields:
                raise CannotCompile(
                    f"{ast.unparse(given)} is returned by a generator, which has no effect",
                    given.lineno,
                    "yield the records",
                )
            case ast.List(elts=records) | ast.Tuple(elts=records):
                for record in records:
                    self._emit("", record)
            case _:
                raise CannotCompile(
                    f"return {ast.unparse(given)} cannot be compiled", given.lineno, "yield the records"
                )
        if self._loops:
            self._returns = True
            self.out.write("returned = True")
        self.out.write("break")

    def _raise(self, given: ast.expr) -> None:
        match given:
            case ast.Call(func=called, args=arguments, keywords=[]):
                pass
            case _:
                called, arguments = given, []
        cls = self.expressions.object(called)
        if not self.expressions.python.raise_error(cls, arguments, given.lineno):
            raise CannotCompile(
                f"raising {ast.unparse(given)} cannot be compiled",
                given.lineno,
                "raise an exception of Python itself, such as ValueError",
            )
        self.out.write("break")

    def _assert(self, test: ast.expr, message: ast.expr | None, line: int) -> None:
        if not __debug__:
            return
        true = self.expressions.truth(test)
        with self.scope.perhaps(), self.out.block(f"if not {true}:"):
            given = [] if message is None else [message]
            self.expressions.python.raise_error(AssertionError, given, line)
            self.out.write("break")

    # --- calls ----------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="clear"), args=[], keywords=[]):
                declared = self.scope.state(of)
                if declared is not None:
                    self.scope.clear_state(self.out, declared)
                    return
            case ast.Call(func=ast.Attribute(value=of, attr="output"), args=[tag, record], keywords=[]):
                if self.scope.is_context(of):
                    if not (isinstance(tag, ast.Constant) and isinstance(tag.value, str)):
                        raise CannotCompile(
                            "the tag of a side output must be a literal string", node.lineno
                        )
                    self._emit(tag.value, record)
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
        self.expressions.require_value(
            value, line, "TypeError: a timer must be set to milliseconds, not to None"
        )
        self.out.timer_changes += 1
        at = self.out.held(value.code)
        if self._loops:
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

    # --- outputs --------------------------------------------------------------------------------------

    def _emit(self, tag: str, node: ast.expr) -> None:
        line = node.lineno
        if tag not in self.outputs:
            declared = ", ".join(repr(one) for one in self.outputs if one) or "none"
            raise CannotCompile(
                f"{tag!r} is not a declared side output; declared are: {declared}", line
            )
        emitted = self.outputs[tag]
        if emitted is None:
            for part in self._record(node, EmittedType(pa.schema([]), None)).values():
                if self._unread_column(part, pa.field("", pa.null())) is None:
                    self._part(part)
            return
        schema = emitted.schema
        given = self._record(node, emitted)
        columns: list[OutputColumn] = []
        taken: dict[str, str] = {}
        writes: list[tuple[str, str]] = []
        number = len(self.out.outputs)
        for at, field in enumerate(schema):
            part = given[field.name]
            column = self._unread_column(part, field)
            if column is not None:
                taken[field.name] = column
                columns.append(OutputColumn(field.name, field.type, "other", field.nullable))
                continue
            value = self._part(part)
            kind = self._fitting(value, field, line)
            columns.append(OutputColumn(field.name, field.type, kind, bool(value.null)))
            code = f"float({value.code})" if kind == "float" and value.kind == "int" else value.code
            writes.append((f"o{number}_{at}", code))
            if value.null:
                if not field.nullable:
                    what = f"TypeMismatch: field {field.name!r} should be {field.type}, but is None"
                    self.expressions.require_value(value, line, what)
                writes.append((f"z{number}_{at}", value.null))
        self._append(tag, number, columns, taken, writes)

    def _append(
        self,
        tag: str,
        number: int,
        columns: list[OutputColumn],
        taken: dict[str, str],
        writes: list[tuple[str, str]],
    ) -> None:
        """Write the code that emits a record. Each emitting place in the method has its own columns;
        they are merged later in the order of emission."""
        self.out.outputs[f"{number}"] = OutputColumns(tag, number, columns, taken, self._loops > 0)
        if self._loops:
            with self.out.block(f"if o{number} == len(o{number}_calls):"):
                for name in [f"o{number}_calls", f"o{number}_order", *(name for name, _ in writes)]:
                    self.out.write(f"{name} = grown({name})")
        self.out.write(f"o{number}_calls[o{number}] = i")
        self.out.write(f"o{number}_order[o{number}] = emitted")
        for name, code in writes:
            self.out.write(f"{name}[o{number}] = {code}")
        self.out.write(f"o{number} += 1")
        self.out.write("emitted += 1")

    def _part(self, part: ast.expr | Value) -> Value:
        return part if isinstance(part, Value) else self.expressions.value(part)

    def _unread_column(self, part: ast.expr | Value, field: pa.Field) -> str | None:
        """Return the column of the record that the part only passes on unread; None for other parts."""
        if isinstance(part, Value):
            return part.column if part.kind == "other" else None
        found = self.scope.field(part)
        if found is None:
            if isinstance(part, ast.Name) and self.scope.types.get(part.id) is not None:
                variable = self.scope.types[part.id]
                return variable.column if variable.kind == "other" else None
            return None
        plain = found.kind == "other" or found.kind == kind_of_column(field.type) == "str"
        return found.column if plain else None

    def _fitting(self, value: Value, field: pa.Field, line: int) -> Kind:
        kind = kind_of_column(field.type)
        if pa.types.is_uint64(field.type):
            kind = "int"
        if value.kind == "none":
            if not field.nullable:
                raise CannotCompile(f"field {field.name!r} should be {field.type}, but is None", line)
            if kind == "other":
                raise CannotCompile(f"None for a column of {field.type} cannot be compiled", line)
            return kind
        if value.kind == kind or (value.kind, kind) == ("int", "float"):
            return kind
        raise CannotCompile(f"field {field.name!r} should be {field.type}, but is {value.shown}", line)

    def _record(self, node: ast.expr, emitted: EmittedType) -> dict[str, ast.expr | Value]:
        """Return the value that the code emits for each column of an output."""
        given: dict[str, ast.expr | Value] = {}
        schema, record = emitted.schema, emitted.record
        made = self.expressions.object(node.func) if isinstance(node, ast.Call) else None
        if self.scope.is_record(node):
            made = self.scope.record
        if record is not None and not (isinstance(made, type) and issubclass(made, record)):
            raise CannotCompile(f"a record should be {record.__name__}", node.lineno)
        match node:
            case ast.Name() if self.scope.is_record(node):
                given = {
                    name: ast.Attribute(node, name, ast.Load(), lineno=node.lineno)
                    for name in self.scope.fields
                }
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                        raise CannotCompile("the keys of a record must be literal strings", node.lineno)
                    given[key.value] = value
            case ast.Tuple(elts=parts) if len(parts) == len(schema):
                given = dict(zip(schema.names, parts, strict=True))
            case ast.Call():
                given = self._fields_of_call(node)
            case _:
                raise CannotCompile(
                    f"{ast.unparse(node)} as a record cannot be compiled",
                    node.lineno,
                    "emit a dataclass or a dict where it is created: yield Alert(...)",
                )
        for name, part in given.items():
            if name not in schema.names:
                self._part(part)  # It is evaluated, although no column takes its value.
        missing = [name for name in schema.names if name not in given]
        if missing:
            raise CannotCompile(f"the record lacks {', '.join(missing)}", node.lineno)
        return given

    def _fields_of_call(self, node: ast.Call) -> dict[str, ast.expr | Value]:
        """Return the arguments of a dataclass, by field."""
        cls: Any = self.expressions.object(node.func)
        name = ast.unparse(node.func)
        if not (isinstance(cls, type) and only_sets_fields(cls)):
            raise CannotCompile(
                f"{name}() cannot be compiled", node.lineno, "emit plain dataclasses or dicts"
            )
        fields = [field for field in dataclasses.fields(cls) if field.init]
        positional = [field for field in fields if not field.kw_only]
        if len(node.args) > len(positional) or any(isinstance(each, ast.Starred) for each in node.args):
            raise CannotCompile(f"{name}() has arguments that are not fields", node.lineno)
        given: dict[str, ast.expr | Value] = {
            field.name: part for field, part in zip(positional, node.args, strict=False)
        }
        for keyword in node.keywords:
            known = any(field.name == keyword.arg for field in fields)
            if keyword.arg is None or keyword.arg in given or not known:
                raise CannotCompile(f"the arguments of {name}() cannot be compiled", node.lineno)
            given[keyword.arg] = keyword.value
        for field in dataclasses.fields(cls):
            if field.name not in given:
                if field.default is dataclasses.MISSING:
                    raise CannotCompile(f"{name}() lacks {field.name}", node.lineno)
                given[field.name] = self.expressions.constant(field.default, node.lineno)
        return given


def _read(target: ast.expr) -> ast.expr:
    """Return the assignment target as an expression that reads it."""
    read = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(read):
        ast.copy_location(node, target)
    return read
