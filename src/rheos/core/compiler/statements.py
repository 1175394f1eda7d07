"""Writes statements of a method as plain typed Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

from rheos.core.compiler.call_statements import CallStatements
from rheos.core.compiler.choice_writer import Choices
from rheos.core.compiler.comprehension_names import with_own_names
from rheos.core.compiler.emission_writer import EmittedRecords
from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.forms import Returns, is_one
from rheos.core.compiler.keyed_states import reducer_name
from rheos.core.compiler.loop_statements import LoopStatements
from rheos.core.compiler.match_statements import if_statements, subjects_of
from rheos.core.compiler.method_statements import MethodStatements
from rheos.core.compiler.record_values import is_frozen
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.state_values import read_state, write_state
from rheos.core.compiler.values import CannotCompile, EmittedType, Value
from rheos.core.compiler.writer import Writer


class Statements:
    """A writer for the body of a method. `outputs` are the types of the outputs, by tag."""

    def __init__(
        self,
        writer: Writer,
        scope: MethodScope,
        expressions: Expressions,
        outputs: Mapping[str, EmittedType | None],
        *,
        yields: bool,
        returns: Returns,
        copies: bool,
    ) -> None:
        self.out = writer
        self.scope = scope
        self.expressions = expressions
        self.emitted = EmittedRecords(
            writer,
            scope,
            expressions,
            outputs,
            are_values=returns in ("value", "values"),
            copies=copies,
        )
        self._calls = CallStatements(writer, scope, expressions, self.emitted)
        self.yields = yields
        """Whether the method is a generator."""
        self.returns: Returns = returns
        self._loops = LoopStatements(writer, scope, expressions, self.body, self._put)
        self.choices = Choices(writer, scope)
        self._methods = MethodStatements(expressions, self._loops, self)

    def method(self, tree: ast.FunctionDef) -> None:
        """Write the body of the method. Raise CannotCompile."""
        if self.yields and is_one(self.returns):
            raise CannotCompile(f"{tree.name} is a generator, but must return its result", tree.lineno)
        self.write_whole(tree)

    @contextmanager
    def of_called(self, *, yields: bool, returns: Returns) -> Iterator[None]:
        """Write the body of a called function, which has another form."""
        before = self.yields, self.returns
        self.yields, self.returns = yields, returns
        yield
        self.yields, self.returns = before

    def write_whole(self, tree: ast.FunctionDef) -> None:
        """Write the body of a function. If it ends without the result that it must return, the row
        fails."""
        if not self.body(tree.body):
            self._return_nothing(tree.body[-1].end_lineno or tree.lineno)

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
                if not self._methods.emit_result(given):
                    self.emitted.write("", given)
            case ast.Expr(value=ast.YieldFrom(value=ast.Call() as call)) if self._methods.run(
                call, yields=True
            ):
                pass
            case ast.Expr(value=ast.Call() as call) if self._methods.run(call, yields=False):
                pass
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=of, attr="replace"),
                    args=[ast.ListComp() | ast.List() as elements],
                    keywords=[],
                )
            ) if self.scope.list_state(of) is not None:
                self._replace_list(of, elements)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=of, attr="add"), args=[each], keywords=[])
            ) if self.scope.is_reducing(of):
                self._combine(of, each)
            case ast.Expr(value=ast.Call() as call):
                self._calls.write(call)
            case ast.Assign(targets=[target], value=given):
                self._assign(target, given)
            case ast.Assign(targets=targets, value=given):
                value = self._assign_value(self.expressions.value(given), node.lineno)
                for target in targets:
                    self._put(target, value)
            case ast.AnnAssign(target=target, value=given):
                if given is not None:
                    self._assign(target, given)
            case ast.AugAssign(target=target, op=op, value=given):
                before = self.expressions.value(_read(target))
                added = self.expressions.value(given)
                value = self.expressions.operators.binary(before, op, added, node.lineno, given)
                self._put(target, value)
            case ast.If():
                return self._compile_if(node)
            case ast.Match():
                return self._match(node)
            case ast.While(orelse=[]):
                self._loops.write_while(node)
            case ast.For(orelse=[]):
                self._loops.write_for(node)
            case ast.Return(value=given):
                self._return(given, node.lineno)
                return True
            case ast.Raise(exc=given, cause=None | ast.Constant(value=None)) if given is not None:
                self._raise(given)
                return True
            case ast.Assert(test=test, msg=message):
                self._assert(test, message, node.lineno)
            case ast.Delete(targets=[ast.Subscript(value=of) as target]) if (
                mapped := self.scope.map_state(of)
            ) is not None:
                self.expressions.maps.delete(mapped, target)
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
            values = [
                self._assign_value(self.expressions.value(each), each.lineno) for each in given.elts
            ]
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

    def _assign_value(self, value: Value, line: int) -> Value:
        if value.record is not None and not is_frozen(value.record.cls):
            raise CannotCompile(
                f"an object of {value.shown} in an assignment of several values cannot be compiled",
                line,
                "write one assignment for each",
            )
        return self.out.held_value(value)

    def _put(self, target: ast.expr, value: Value) -> None:
        line = target.lineno
        match target:
            case ast.Name(id=name):
                self.scope.assign(self.out, name, value, line)
                return
            case ast.Attribute(value=of, attr="value"):
                declared = self.scope.state(of)
                if self.scope.is_reducing(of):
                    raise CannotCompile(
                        f"{ast.unparse(target)} cannot be assigned", line, "use add(...)"
                    )
                if declared is not None and self.expressions.records.is_stored(declared):
                    self.expressions.records.set_state(declared, value, line)
                    return
                if declared is not None:
                    write_state(self.out, declared, value, line)
                    return
            case ast.Subscript(value=of, slice=item):
                mapped = self.scope.map_state(of)
                if mapped is not None:
                    self.expressions.maps.put(mapped, item, value)
                    return
        if self.expressions.records.set_field(target, value):
            return
        raise CannotCompile(
            f"an assignment to {ast.unparse(target)} cannot be compiled",
            line,
            "assign to local variables, or to state with `self.name.value = ...`",
        )

    def _combine(self, of: ast.expr, given: ast.expr) -> None:
        """Write `add` of a ReducingState."""
        declared, line, out = self.scope.state(of), given.lineno, self.out
        assert declared is not None
        place = f"{given.lineno}_{given.col_offset}"
        names = [f"kept_{place}", f"added_{place}"]
        added = self._assign_value(self.expressions.value(given), line)
        kept = read_state(out, declared)
        for name, value in zip(names, (kept, added), strict=True):
            self.scope.assign(out, name, value, line)
        called = ast.Call(
            ast.Name(reducer_name(declared.name)), [ast.Name(each, lineno=line) for each in names], []
        )
        with out.block(f"if {kept.null}:"):
            write_state(out, declared, added, line)
        with self.scope.perhaps(), out.block("else:"):
            combined = self.expressions.value(ast.copy_location(called, given))
            write_state(out, declared, combined, line)

    def _replace_list(self, of: ast.expr, given: ast.ListComp | ast.List) -> None:
        """Write the replacement of a list of the state."""
        declared = self.scope.list_state(of)
        assert declared is not None

        def appended(element: ast.expr) -> ast.stmt:
            method = ast.copy_location(ast.Attribute(of, "append", ast.Load()), element)
            return ast.copy_location(ast.Expr(_call_of(method, element)), element)

        with self.expressions.lists.replacing(declared):
            if isinstance(given, ast.List):
                self.body([appended(each) for each in given.elts])
            else:
                self.body([_as_loop(with_own_names(given), appended)])

    # --- control --------------------------------------------------------------------------------------

    def _compile_if(self, node: ast.If) -> bool:
        test = self.expressions.conditions.truth(node.test)
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

    def _return(self, given: ast.expr | None, line: int) -> None:
        match given:
            case ast.IfExp(test=test, body=body, orelse=orelse) if self.returns == "choice":
                then, other = (ast.copy_location(ast.Return(each), each) for each in (body, orelse))
                self._compile_if(ast.copy_location(ast.If(test, [then], [other]), given))
                return
            case ast.expr() if self.returns == "choice":
                self.choices.write(given)
            case ast.Call() if not self.yields and self._methods.return_result(given):
                pass
            case ast.expr() if is_one(self.returns):
                self.emitted.write("", given)
            case None | ast.Constant(value=None):
                self._return_nothing(line)
            case ast.ListComp() | ast.GeneratorExp() if not self.yields:
                self.body([_as_loop(given)])
            case _ if self.yields:
                raise CannotCompile(
                    f"{ast.unparse(given)} is returned by a generator, which has no effect",
                    given.lineno,
                    "yield the records",
                )
            case ast.List(elts=records) | ast.Tuple(elts=records):
                for record in records:
                    self.emitted.write("", record)
            case _:
                raise CannotCompile(
                    f"return {ast.unparse(given)} cannot be compiled", given.lineno, "yield the records"
                )
        self._loops.leave()

    def _return_nothing(self, line: int) -> None:
        match self.returns:
            case "records" | "values":
                pass
            case "record" | "choice":
                number = self.out.failure(line, "the function returned None instead of a record")
                self.out.write(f"fail(failed, {number})")
            case "value":
                self.emitted.write("", ast.Constant(None, lineno=line))
            case _:
                assert_never(self.returns)

    def _raise(self, given: ast.expr) -> None:
        match given:
            case ast.Call(func=called, args=arguments, keywords=[]):
                pass
            case _:
                called, arguments = given, []
        cls = self.expressions.names.object(called)
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
        true = self.expressions.conditions.truth(test)
        with self.scope.perhaps(), self.out.block(f"if not {true}:"):
            given = [] if message is None else [message]
            self.expressions.python.raise_error(AssertionError, given, line)
            self.out.write("break")


def _yielded(element: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(ast.copy_location(ast.Yield(element), element)), element)


def _call_of(method: ast.expr, argument: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(method, [argument], []), argument)


def _as_loop(
    node: ast.ListComp | ast.GeneratorExp, then: Callable[[ast.expr], ast.stmt] = _yielded
) -> ast.stmt:
    """Return a comprehension as a loop. `then` returns the statement for an element, by default one
    that yields it."""
    inner = then(node.elt)
    for each in reversed(node.generators):
        if each.is_async:
            raise CannotCompile("an asynchronous comprehension cannot be compiled", node.lineno)
        for test in reversed(each.ifs):
            inner = ast.copy_location(ast.If(test, [inner], []), test)
        inner = ast.copy_location(ast.For(each.target, each.iter, [inner], []), each.iter)
    return inner


def _read(target: ast.expr) -> ast.expr:
    """Return the assignment target as an expression that reads it."""
    read = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(read):
        ast.copy_location(node, target)
    return read
