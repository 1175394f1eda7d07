"""Functions that are to be compiled, as they are checked where the program is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rheos.api.typing_of_functions import Declared
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import Emitted
from rheos.core.graph.compiled import compiled_mark
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.compiled_start import check_compiles


def check_compiled(
    fn: Any,
    type: StreamType,
    keys: Sequence[str],
    record: Any,
    declared: Declared,
    sides: Mapping[str, Declared],
) -> None:
    """Raises ProgramError at the line that cannot be compiled, where the function does not ask to be
    interpreted then."""
    if compiled_mark(fn) is not None:
        emits = {tag: Emitted(*each) for tag, each in {MAIN: declared, **sides}.items()}
        check_compiles(fn, Typing(type.schema, tuple(keys), record, type.event_time, emits))
