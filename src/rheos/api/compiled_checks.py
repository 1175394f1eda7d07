"""Checks while the program is built whether functions can be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rheos.api.function_typing import DeclaredOutput
from rheos.api.program import Program
from rheos.core.compiler.eligibility import Automatic, Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.keyed_states import keyed_states
from rheos.core.compiler.values import EmittedType
from rheos.core.graph.compilation import compiled_mark
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.compiled_start import check_compiles
from rheos.core.protocol.state_config import Backend


def check_compiled(
    fn: Any,
    type: StreamType,
    keys: Sequence[str],
    record: Any,
    declared: DeclaredOutput,
    sides: Mapping[str, DeclaredOutput],
    *,
    program: Program,
    automatic: bool,
) -> Automatic:
    """Check that a marked function can be compiled. Otherwise raise ProgramError at the line that
    prevents it, unless the function may be interpreted instead.

    For an unmarked function, return the source of its methods if it can be compiled, or the reason why
    it cannot. Return None if it is not to be compiled (`automatic`)."""
    typing = Typing(type.schema, tuple(keys), record, type.event_time, emitted_types(declared, sides))
    if compiled_mark(fn) is not None:
        check_compiles(fn, typing)
        return None
    return _form(program, fn, typing) if automatic else None


def emitted_types(
    main: DeclaredOutput, sides: Mapping[str, DeclaredOutput]
) -> dict[str, EmittedType | None]:
    """Return the types that a function emits, by tag."""
    return {tag: EmittedType(*each) for tag, each in {MAIN: main, **sides}.items()}


def automatic_form(program: Program, fn: Any, typing: Typing) -> Automatic:
    """Return the source of a function if it can be compiled, or the reason why it cannot. Return None
    if functions of this program are not compiled."""
    return _form(program, fn, typing) if program.compiles else None


def _form(program: Program, fn: Any, typing: Typing) -> Automatic:
    found = compilable_methods(fn, typing)
    if isinstance(found, Refusal) or program.backend is Backend.MEMORY or not keyed_states(fn).maps:
        return found
    return Refusal("its state has maps, which compiled code would read from RocksDB as a whole")
