"""Functions and methods of the user that a compiled method calls.

The compiler writes their bodies in place of the calls. Where the value of a call is needed, the body
must consist of assignments to local names, `if` and `return`, which become an expression.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from rheos.core.compiler.source_checks import is_source_of
from rheos.core.compiler.values import CannotCompile
from rheos.core.errors import ProgramError
from rheos.core.graph.compilation import MethodText, function_text

_MOST_STATEMENTS = 200
"""Maximum number of statements of an expression. What follows an `if` is repeated in both branches."""


class LocalValue(ast.expr):
    """An expression that is computed after a local variable was assigned."""

    _fields = ("value", "body")

    def __init__(self, name: str, value: ast.expr, body: ast.expr) -> None:
        super().__init__()
        self.name = name
        self.value = value
        self.body = body
        ast.copy_location(self, value)


@dataclass(frozen=True)
class CalledFunction:
    """A call of a function: its parameters and its statements."""

    file: str
    itself: str
    """Parameter that receives the object of a method; empty for other functions."""
    names: Sequence[str]
    """Names of the parameters, first those of `arguments`, then those of `defaults`."""
    arguments: Sequence[ast.expr]
    defaults: Sequence[Any]
    tree: ast.FunctionDef


def called_function(
    called: FunctionType, sources: dict[str, MethodText], node: ast.Call, *, is_method: bool
) -> CalledFunction:
    """Return the function that a call would execute. Add its source to `sources`.

    Raise CannotCompile, with the file if the reason is in the function.
    """
    name = called.__name__
    text = _source_of(called, sources, node)
    try:
        tree = text.tree()
    except ProgramError as error:
        raise CannotCompile(error.what, node.lineno) from None
    given = tree.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or tree.decorator_list:
        raise CannotCompile(f"{name}() has a signature that cannot be compiled", node.lineno)
    if called.__code__.co_flags & _ASYNCHRONOUS:
        raise CannotCompile(f"{name}() is asynchronous, which cannot be compiled", node.lineno)
    parameters = [each.arg for each in given.args]
    itself = parameters.pop(0) if is_method and parameters else ""
    arguments = dict(zip(parameters, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments or keyword.arg not in parameters:
            raise CannotCompile(f"the arguments of {name}() cannot be compiled", node.lineno)
        arguments[keyword.arg] = keyword.value
    values = called.__defaults__ or ()
    defaults = dict(zip(parameters[len(parameters) - len(values) :], values, strict=True))
    missing = [each for each in parameters if each not in arguments]
    starred = any(isinstance(each, ast.Starred) for each in node.args)
    if starred or len(node.args) > len(parameters) or any(each not in defaults for each in missing):
        raise CannotCompile(f"the arguments of {name}() cannot be compiled", node.lineno)
    names = [*arguments, *missing]
    return CalledFunction(
        text.file, itself, names, list(arguments.values()), [defaults[each] for each in missing], tree
    )


def is_generator(called: FunctionType) -> bool:
    return bool(called.__code__.co_flags & inspect.CO_GENERATOR)


def body_expression(called: FunctionType, function: CalledFunction, line: int) -> ast.expr:
    """Return the body of a called function as an expression. `line` is that of the call.

    Raise CannotCompile, with the file if the reason is in the function.
    """
    if is_generator(called):
        raise CannotCompile(f"{called.__name__}() returns an iterator, which cannot be compiled", line)
    return _Body(function.file).expression(function.tree.body, function.tree.lineno)


_ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _source_of(called: FunctionType, sources: dict[str, MethodText], node: ast.Call) -> MethodText:
    key = f"{called.__module__}.{called.__qualname__}:{called.__code__.co_firstlineno}"
    if key not in sources:
        try:
            text = function_text(called)
            same = not hasattr(called, "__wrapped__") and is_source_of(text, called)
        except ProgramError as error:
            raise CannotCompile(error.what, node.lineno) from None
        if not same:
            raise CannotCompile(
                f"the source of {called.__name__} differs from the code that runs", node.lineno
            )
        sources[key] = text
    return sources[key]


class _Body:
    """Turns the statements of a function into an expression."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def expression(self, statements: Sequence[ast.stmt], line: int) -> ast.expr:
        if not statements:
            return ast.copy_location(ast.Constant(None), _Line(line))
        self._count += 1
        first, rest = statements[0], statements[1:]
        line = first.lineno
        match first:
            case ast.Return(value=value) if self._count <= _MOST_STATEMENTS:
                return self.expression([], line) if value is None else value
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return self.expression(rest, line)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                return LocalValue(name, value, self.expression(rest, line))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                before = ast.copy_location(ast.Name(name, ast.Load()), first)
                value = ast.copy_location(ast.BinOp(before, op, value), first)
                return LocalValue(name, value, self.expression(rest, line))
            case ast.If(test=test, body=body, orelse=orelse):
                branches = [self.expression([*part, *rest], line) for part in (body, orelse)]
                return ast.copy_location(ast.IfExp(test, *branches), first)
        refused = CannotCompile(
            f"{ast.unparse(first).splitlines()[0][:60]!r} in a called function cannot be compiled",
            line,
            "use assignments, if and return there",
        )
        refused.file = self._file
        raise refused


class _Line(ast.expr):
    """A place in a file."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.lineno = self.end_lineno = line
        self.col_offset = self.end_col_offset = 0
