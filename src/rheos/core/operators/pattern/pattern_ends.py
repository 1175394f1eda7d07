"""The parts with which a match may begin or end, so that errors name the part that is wrong.

A match may begin with every part up to the first that is not optional. It may end with every part from
the last that is not optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from rheos.core.graph.patterns import Absence, Choice, Contiguity, Group, Part, PatternStep


def first_absence(parts: Sequence[Part]) -> Absence:
    """Return the absence that may come before any row of a match. Such an absence must exist."""
    return next(part for part in _outermost(parts) if isinstance(part, Absence))


def last_absence(parts: Sequence[Part], preferred: Contiguity) -> Absence:
    """Return the last absence that may end a match: one of the preferred kind, if such an absence
    exists.

    An absence must exist.
    """
    absences = [part for part in _outermost(parts, backwards=True) if isinstance(part, Absence)]
    return next((each for each in absences if each.contiguity is preferred), absences[0])


def last_greedy_step(parts: Sequence[Part]) -> PatternStep:
    """Return the last step that may end a match although it must not, because it is greedy and no later
    step limits it.

    Such a step must exist. A step that is taken a fixed number of times counts as greedy only if it is
    optional.
    """
    for part in _outermost(parts, backwards=True):
        if isinstance(part, PatternStep) and part.quantifier.greedy:
            quantifier = part.quantifier
            if quantifier.optional or quantifier.at_least != quantifier.at_most:
                return part
    raise AssertionError("a match cannot end with a greedy step")


def backwards_from(step: PatternStep, parts: Sequence[Part]) -> list[PatternStep | Absence]:
    """Return the steps and absences written before the step, the nearest first."""
    before = [*_flat(parts)]
    return before[: next(at for at, part in enumerate(before) if part is step)][::-1]


def _flat(parts: Sequence[Part]) -> Iterator[PatternStep | Absence]:
    for part in parts:
        match part:
            case PatternStep() | Absence():
                yield part
            case Group() | Choice():
                yield from _flat(part.parts)
            case _:
                assert_never(part)


def _outermost(parts: Sequence[Part], *, backwards: bool = False) -> Iterator[PatternStep | Absence]:
    """Yield steps and absences from one end of the pattern, up to the first that is not optional."""
    for part in reversed(parts) if backwards else parts:
        match part:
            case PatternStep() | Absence():
                yield part
            case Choice():
                for each in part.parts:
                    yield from _outermost((each,), backwards=backwards)
            case Group():
                yield from _outermost(part.parts, backwards=backwards)
            case _:
                assert_never(part)
        if not _may_be_left_out(part):
            return


def _may_be_left_out(part: Part) -> bool:
    match part:
        case Absence():
            return True
        case PatternStep() | Choice():
            return part.quantifier.optional
        case Group():
            return part.quantifier.optional or all(map(_may_be_left_out, part.parts))
        case _:
            assert_never(part)
