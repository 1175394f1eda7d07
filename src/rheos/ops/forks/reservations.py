"""Reasons other than the change itself why two programs may differ over the same input: operators that
depend on processing time, on outside calls, or on the order in which rows of several splits arrive."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rheos.core.errors import Site
from rheos.core.graph.state import StateDeclaration
from rheos.core.graph.triggers import ContinuousProcessingTimeTrigger, ProcessingTimeTrigger
from rheos.core.operators.contract import RowOrder
from rheos.core.plan.physical import PlannedOperator

_CLOCK = {"processing_time", "register_processing"}
"""Names by which a function requests processing time from its context."""
_MODULES = {"time", "random", "secrets", "uuid"}
_OF_OTHERS = {*sys.stdlib_module_names, "rheos", "polars", "pyarrow", "numpy", "pandas", "msgspec"} - {
    "__main__"
}
"""Packages whose classes are not functions of the program."""
_DEPTH = 4


@dataclass(frozen=True)
class Reservation:
    """An operator whose output may differ without a change of the program, and the reason."""

    operator: str
    site: Site
    why: str

    def __str__(self) -> str:
        return f"{self.site}: operator {self.operator!r}: {self.why}"


def reservations(operators: Iterable[PlannedOperator], splits: int) -> list[Reservation]:
    """Return the reservations about a program's operators that can be found without running it.
    `splits` is the number of splits of its sources."""
    found = (
        Reservation(planned.name, planned.site, why)
        for planned in operators
        for why in _reasons(planned, splits)
    )
    return list(dict.fromkeys(found))


def _reasons(planned: PlannedOperator, splits: int) -> Iterator[str]:
    spec = planned.spec
    yield from spec.differs_elsewhere()
    if spec.reads_from is not None:
        return  # The fork reads what the source has read, and does not call it.
    if splits > 1 and spec.row_order() is RowOrder.OF_ARRIVAL:
        yield (
            f"it depends on the order of rows, and rows of {splits} splits may arrive in "
            "another order than in the job"
        )
    for part in _parts(spec, _DEPTH):
        yield from _clocks(part)


def _parts(value: Any, depth: int) -> Iterator[Any]:
    """Yield a spec and its parts."""
    yield value
    if is_dataclass(value) and not isinstance(value, type) and depth:
        for each in fields(value):
            yield from _parts(getattr(value, each.name), depth - 1)


def _clocks(part: Any) -> Iterator[str]:
    if getattr(part, "time", None) == "processing_time":
        yield "it uses processing time, but a replay has virtual time"
    if isinstance(part, ProcessingTimeTrigger | ContinuousProcessingTimeTrigger):
        yield "its trigger uses processing time, but a replay has virtual time"
    for function in _functions(part):
        for name in sorted(_asked(function)):
            yield f"its function {function.__qualname__} uses {name}, which differs in a replay"
    declared = vars(type(part)).values() if not isinstance(part, type) else ()
    for state in declared:
        lives = state.ttl if isinstance(state, StateDeclaration) else None
        if lives is not None and lives.time == "processing_time":
            yield f"its state {state.name!r} expires by processing time, but a replay has virtual time"


def _functions(part: Any) -> Iterator[FunctionType]:
    """Yield the program's own functions in the part."""
    if inspect.isfunction(part):
        yield part
    elif not isinstance(part, type):
        for kind in type(part).__mro__:
            if kind.__module__.partition(".")[0] not in _OF_OTHERS:
                yield from filter(inspect.isfunction, vars(kind).values())


def _asked(function: FunctionType) -> set[str]:
    """Return the names of clocks and sources of randomness that the function uses."""
    found: set[str] = set()
    for code in _codes(function.__code__):
        for name in code.co_names:
            module = function.__globals__.get(name)
            if name in _CLOCK:
                found.add(name)
            elif isinstance(module, ModuleType) and module.__name__ in _MODULES:
                found.add(f"the module {module.__name__}")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
