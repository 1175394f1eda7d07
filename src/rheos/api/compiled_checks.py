"""Checks of `rh.compiled` functions while the program is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rheos.api.function_typing import DeclaredOutput
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.graph.compilation import compiled_mark
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.compiled_start import check_compiles


def check_compiled(
    fn: Any,
    type: StreamType,
    keys: Sequence[str],
    record: Any,
    declared: DeclaredOutput,
    sides: Mapping[str, DeclaredOutput],
) -> None:
    """Check that a function can be compiled. Otherwise raise ProgramError at the line that prevents it,
    unless the function may be interpreted instead."""
    if compiled_mark(fn) is not None:
        emits = {tag: EmittedType(*each) for tag, each in {MAIN: declared, **sides}.items()}
        check_compiles(fn, Typing(type.schema, tuple(keys), record, type.event_time, emits))
