"""The check whether the source of a function is that of the code that runs."""

from __future__ import annotations

import ast
import dis
import types
from typing import Any

from rheos.core.graph.compilation import MethodText


def is_source_of(text: MethodText, function: types.FunctionType) -> bool:
    """Return whether Python compiles the source to the code of the function."""
    return _code_of(text, function) == _effect_of(function.__code__)


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
