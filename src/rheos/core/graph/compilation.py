"""`rh.compiled`: marks a keyed function for compilation, and stores its source code for the compiler.

The driver reads the source when it defines the class, because a worker may not have the file.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, overload

from rheos.core.errors import ProgramError, Site
from rheos.core.graph.functions import KeyedProcessFunction

F = TypeVar("F", bound=type[KeyedProcessFunction])

Fallback = Literal["refuse", "interpret"]

_MARK = "__rheos_compiled__"


@dataclass(frozen=True)
class MethodText:
    """Source of a method."""

    file: str
    first_line: int
    text: str

    def tree(self) -> ast.FunctionDef:
        """Return the syntax tree, with the line numbers of the file.

        Raises:
            ProgramError: The source is not that of a function defined with `def`.
        """
        try:
            parsed = ast.parse(f"({self.text}\n)" if self.text.startswith("lambda") else self.text)
        except SyntaxError:
            parsed = ast.Module([], [])
        ast.increment_lineno(parsed, self.first_line - 1)
        match parsed.body:
            case [ast.FunctionDef() as found]:
                return found
            case [ast.Expr(value=ast.Lambda(args=args, body=body) as given)]:
                made = ast.parse("def found(): return 0").body[0]
                assert isinstance(made, ast.FunctionDef)
                made.name, made.args = "<lambda>", args
                made.body = [ast.copy_location(ast.Return(body), body)]
                return ast.copy_location(made, given)
        raise ProgramError(
            "only functions defined with `def` or `lambda` can be compiled",
            site=Site(self.file, self.first_line),
        )


@dataclass(frozen=True)
class CompilationMark:
    """Source and options of a class that is marked for compilation."""

    fallback: Fallback
    methods: dict[str, MethodText]
    """Source of `process_element`, of `on_timer` if the class has one, and of functions that they
    call."""


@overload
def compiled(cls: F, /) -> F: ...
@overload
def compiled(*, fallback: Fallback = ...) -> Callable[[F], F]: ...
def compiled(cls: Any = None, /, *, fallback: Fallback = "refuse") -> Any:
    """Compile a keyed function of plain scalar Python to machine code.

    The compiled function emits the same rows as the interpreted one. If it cannot be compiled, passing
    it to `process` raises a ProgramError at the line that prevents it. With `fallback="interpret"` the
    function is interpreted instead. Needs the extra `rheos[compiled]`.

    ```python
    @rh.compiled
    class Count(rh.KeyedProcessFunction):
        n = rh.ValueState(int, default=0)

        def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Counted]:
            self.n.value += 1
            yield Counted(event.user, self.n.value)
    ```

    Args:
        cls: The class, a `KeyedProcessFunction`.
        fallback: What happens if the class cannot be compiled: "refuse" is an error, "interpret" runs
            it as Python.

    Returns:
        The class. With `fallback` alone, a decorator for it.

    Raises:
        ProgramError: `fallback` is unknown.
    """
    if fallback not in ("refuse", "interpret"):
        raise ProgramError(f"fallback={fallback!r} is not known", hint='write "refuse" or "interpret"')
    if cls is None:
        return lambda decorated: compiled_class(decorated, fallback)
    return compiled_class(cls, "refuse")


def compiled_class(cls: Any, fallback: Fallback) -> Any:
    """Mark the class and return it."""
    if not (isinstance(cls, type) and issubclass(cls, KeyedProcessFunction)):
        raise ProgramError(
            f"rh.compiled takes a class derived from rh.KeyedProcessFunction, not {cls!r}",
            hint="write @rh.compiled above the class",
        )
    setattr(cls, _MARK, CompilationMark(fallback, method_texts(cls)))
    return cls


def method_texts(cls: type) -> dict[str, MethodText]:
    """Return the source of the methods that a keyed function defines.

    Raises:
        ProgramError: The source is not available.
    """
    methods = {}
    for name in ("process_element", "on_timer"):
        method = getattr(cls, name)
        if method is not getattr(KeyedProcessFunction, name):
            methods[name] = function_text(method)
    return methods


def compiled_mark(function: object) -> CompilationMark | None:
    """Return the mark of a function that is to be compiled, or None. Subclasses do not inherit the
    mark."""
    mark: CompilationMark | None = vars(type(function)).get(_MARK)
    return mark


def function_text(function: Any) -> MethodText:
    """Return the source of a function.

    Raises:
        ProgramError: The source is not available.
    """
    try:
        file = inspect.getsourcefile(function) or "<unknown>"
        if function.__name__ == "<lambda>":
            return _lambda_text(function, file)
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ProgramError(
            f"the source code of {function.__qualname__}, which is needed to compile it, is "
            f"not available: {error}",
            hint="write the class in a file or a notebook cell",
        ) from None
    return MethodText(file, first, textwrap.dedent("".join(lines)))


def _lambda_text(function: Any, file: str) -> MethodText:
    """Return the source of a lambda: the innermost one that contains all of its instructions.

    Raises:
        OSError: The source does not contain it.
    """
    code = function.__code__
    text = "".join(inspect.findsource(code)[0])
    places = [
        (line, column)
        for line, _, column, last_column in code.co_positions()
        if line is not None and column is not None and last_column
    ]
    found: list[ast.Lambda] = []
    for node in _lambdas_of(text):
        if node.lineno == code.co_firstlineno:
            last = node.end_lineno or 0, node.end_col_offset or 0
            if all((node.lineno, node.col_offset) <= each <= last for each in places):
                found.append(node)
    if not found:
        raise OSError("the lambda is not in its file")
    innermost = max(found, key=lambda node: node.col_offset)
    return MethodText(file, innermost.lineno, ast.get_source_segment(text, innermost) or "")


@lru_cache(maxsize=8)
def _lambdas_of(text: str) -> tuple[ast.Lambda, ...]:
    """Return the lambdas of a file. Raise OSError if it is not Python."""
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError as error:
        raise OSError(f"it is not Python: {error}") from None
    return tuple(node for node in nodes if isinstance(node, ast.Lambda))
