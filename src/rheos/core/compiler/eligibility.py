"""The decision whether an unmarked function may be compiled, and the line that prevents it."""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from rheos.core.compiler.kernel import Typing, loops_of
from rheos.core.compiler.values import CannotCompile
from rheos.core.errors import ProgramError, Site
from rheos.core.graph.compilation import MethodText, method_texts
from rheos.core.state.columnar.string_codes import StringCodes


@dataclass(frozen=True)
class Refusal:
    """The reason why a function is not compiled, and the line that prevents it."""

    what: str
    site: Site | None = None

    def __str__(self) -> str:
        return self.what if self.site is None else f"{self.site}: {self.what}"


NO_COMPILER = Refusal("no compiler is installed: pip install 'rheos[compiled]'")


def compilable_methods(function: Any, typing: Typing) -> Mapping[str, MethodText] | Refusal:
    """Return the source of the methods of a function that can be compiled, or else the reason why it
    cannot."""
    if find_spec("numba") is None:
        return NO_COMPILER
    try:
        methods = method_texts(type(function))
        for name, text in methods.items():
            _check_source(function, name, text)
        loops_of(function, methods, typing, StringCodes())
    except CannotCompile as refused:
        return Refusal(refused.what, Site(refused.file, refused.line))
    except ProgramError as error:
        return Refusal(error.what, error.site)
    return methods


def _check_source(function: Any, name: str, text: MethodText) -> None:
    """Raise ProgramError unless this is the source of the method that a call would execute."""
    site = Site(text.file, text.first_line)
    if name in getattr(function, "__dict__", ()):
        raise ProgramError(f"{name} is replaced by an attribute of the object", site=site)
    method = getattr(type(function), name)
    if not isinstance(method, types.FunctionType):
        raise ProgramError(f"{name} is {type(method).__name__}, not a plain method", site=site)
    if hasattr(method, "__wrapped__") or _code_of(text, method) != _effect_of(method.__code__):
        raise ProgramError(f"the source of {name} differs from the code that runs", site=site)


def _code_of(text: MethodText, method: types.FunctionType) -> tuple[Any, ...] | None:
    """Return the code that Python makes of the source, in a place like that of the method: within a
    class, and within a function that has the method's outer variables."""
    tree = text.tree()
    tree.decorator_list = []
    outer = [f"    {name} = None" for name in method.__code__.co_freevars if name != "__class__"]
    head = "\n".join(["def outer():", *outer, "    class Inner:", "        pass"])
    module = ast.parse(head)
    match module.body:
        case [ast.FunctionDef(body=[*_, ast.ClassDef() as inner])]:
            inner.body = [tree]
    flags = method.__code__.co_flags & _FUTURES
    found = compile(ast.fix_missing_locations(module), text.file, "exec", flags, dont_inherit=True)
    for code in _inside(found):
        if code.co_name == method.__code__.co_name:
            return _effect_of(code)
    return None


_FUTURES = 0x1000000
"""Flag of code that was compiled under `from __future__ import annotations`."""


def _inside(code: types.CodeType) -> list[types.CodeType]:
    found = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*found, *(inner for each in found for inner in _inside(each))]


def _effect_of(code: types.CodeType) -> tuple[Any, ...]:
    """Return what a code does, without the place where it is written.

    Python loads a method of a name differently if the module has imported the name. That has no effect,
    but changes the positions of the instructions.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in _OF_CALLS]
    numbers = {step.offset: number for number, step in enumerate(steps)}

    def target(offset: int) -> int:
        return next((numbers[at] for at in range(offset, offset + 64) if at in numbers), len(numbers))

    done = []
    for step in steps:
        argument = step.argval
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            argument = target(argument)
        elif isinstance(argument, types.CodeType):
            argument = None
        name = "LOAD_ATTR" if step.opname == "LOAD_METHOD" else step.opname
        done.append((name, type(argument), repr(argument)))
    return done, code.co_varnames, code.co_freevars


_OF_CALLS = ("PUSH_NULL", "PRECALL", "CACHE", "NOP", "EXTENDED_ARG")
"""Instructions that prepare calls, or have no effect."""
