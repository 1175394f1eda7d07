"""Checks of the arguments and steps of a pattern, at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import polars as pl

from rheos.core.callables import check_callable, check_kind, function_name
from rheos.core.errors import ProgramError
from rheos.core.graph.patterns import Absence, Condition, Contiguity, Function, Group, Part
from rheos.core.site import call_site


def step_name(name: Any) -> str:
    """Return the name of a step. Raise ProgramError if it is not a non-empty string."""
    if not isinstance(name, str) or not name:
        raise ProgramError(
            f"the name of a step must be a non-empty string, not {name!r}",
            hint='write .followed_by("second")',
        )
    return name


def check_count(method: str, count: Any) -> None:
    """Raise ProgramError if a number of repetitions is not a positive integer."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ProgramError(
            f"{method}() takes whole numbers of at least 1, not {count!r}",
            hint="use .optional() for a step that may be missing, and .not_next() or "
            ".not_followed_by() for one that must not occur",
        )


def check_names(parts: tuple[Part, ...], known: set[str] | None = None) -> None:
    """Raise ProgramError if two steps have the same name. `known` collects the names."""
    known = set() if known is None else known
    for part in parts:
        if isinstance(part, Group):
            check_names(part.parts, known)
            continue
        if part.name in known:
            raise ProgramError(
                f"the pattern has two steps named {part.name!r}",
                site=part.site,
                hint="rename one of them",
            )
        known.add(part.name)


def waiting_part(parts: tuple[Part, ...], *, first: bool = True) -> Part | None:
    """Return the first part that may wait for a row for an unlimited time while other rows arrive."""
    for number, part in enumerate(parts):
        behind = not first or number > 0
        if isinstance(part, Absence):
            if part is parts[-1] and part.contiguity is Contiguity.FOLLOWED_BY:
                return part
            continue
        if behind and part.contiguity is not Contiguity.NEXT:
            return part
        if part.quantifier.repeats and part.quantifier.inner is not Contiguity.NEXT:
            return part
        if isinstance(part, Group):
            waiting = waiting_part(part.parts)
            if waiting is not None:
                return waiting
    return None


def condition_of(method: str, conditions: tuple[Any, ...]) -> Condition:
    """Return one condition that holds if all arguments of a method hold. Raise ProgramError if they are
    not conditions."""
    if not conditions:
        raise ProgramError(f"{method}() needs a condition", hint=f'write .{method}(col("price") > 10)')
    condition = Condition()
    for each in conditions:
        if isinstance(each, pl.Expr):
            part = Condition(exprs=(each,))
        elif callable(each):
            check_kind(each, method)
            earlier = _sees_earlier(each)
            check_callable(each, method, ["a row", "the rows before"] if earlier else ["a row"])
            part = Condition(functions=(Function(each, None, earlier, call_site()),))
        else:
            raise ProgramError(
                f"{method}() takes conditions, not {each!r}", hint=f'write .{method}(col("price") > 10)'
            )
        condition = condition.both(part)
    return condition


def _sees_earlier(function: Callable[..., Any]) -> bool:
    """Return whether a condition's function takes the rows matched so far as its second argument."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [
        p
        for p in parameters
        if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        and p.default is Parameter.empty
    ]
    if len(places) not in (1, 2):
        raise ProgramError(
            f"{function_name(function)} takes {len(places)} arguments, but a condition receives "
            "a row, or a row and the rows matched so far",
            hint="write def condition(row) or def condition(row, earlier)",
        )
    return len(places) == 2
