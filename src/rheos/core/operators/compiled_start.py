"""The check whether a marked function can be compiled, and the choice of its core."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rheos.core.compiler.kernel import Typing, loops_of
from rheos.core.compiler.values import CannotCompile
from rheos.core.errors import ConfigurationError, ProgramError, Site
from rheos.core.graph.compilation import MethodText, compiled_mark
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.process_core import ProcessCore
from rheos.core.state.columnar.string_codes import StringCodes

if TYPE_CHECKING:
    from rheos.core.operators.keyed_function import KeyedFunctionSpec
    from rheos.core.operators.process import ProcessSpec


def check_compiles(function: Any, typing: Typing) -> bool:
    """Return whether the function is compiled. Return False if it cannot be compiled, and its mark asks
    for interpretation in that case.

    Raise ProgramError, at the line that cannot be compiled, or ConfigurationError if no compiler is
    installed.
    """
    mark = compiled_mark(function)
    if mark is None:
        return False
    if find_spec("numba") is None:
        raise ConfigurationError(
            f"{type(function).__name__} needs a compiler, but none is installed",
            hint="pip install 'rheos[compiled]'",
        )
    try:
        loops_of(function, mark.methods, typing, StringCodes())
    except (CannotCompile, ProgramError) as refused:
        if mark.fallback == "interpret":
            return False
        if isinstance(refused, ProgramError):
            raise
        raise ProgramError(
            f"{type(function).__name__} cannot be compiled: {refused.what}",
            site=Site(refused.file, refused.line),
            hint=f'{refused.hint or "rewrite it"}; rh.compiled(fallback="interpret") runs what '
            "cannot be compiled as it is",
        ) from None
    return True


def automatic_core(
    ctx: OperatorContext, spec: KeyedFunctionSpec, methods: dict[str, MethodText]
) -> ProcessCore | None:
    """Return the core of a function that is compiled while it runs; None if this process has no
    compiler."""
    from rheos.core.operators.automatic_core import AutomaticCore

    return None if find_spec("numba") is None else AutomaticCore(ctx, spec, methods)


def compiled_core(ctx: OperatorContext, spec: ProcessSpec) -> ProcessCore | None:
    """Return the core of a function that is marked for compilation; None if it is interpreted."""
    from rheos.core.operators.compiled_core import MarkedCore, typing_of

    mark = compiled_mark(spec.fn)
    if mark is None or not check_compiles(spec.fn, typing_of(ctx, spec)):
        return None
    return MarkedCore(ctx, spec, mark.methods)
