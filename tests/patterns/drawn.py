"""Random patterns, and streams of one key for them. A row fulfils the conditions of its letters."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl

from rheos.core.errors import Site
from rheos.core.graph.patterns import (
    Absence,
    AfterMatch,
    Condition,
    Contiguity,
    Function,
    Group,
    Part,
    PatternStep,
    PatternTree,
    Quantifier,
    Skip,
    steps,
)

LETTERS = "abcd"
SITE = Site("pattern.py", 1)


def letter(name: str) -> Condition:
    return Condition((pl.col(name),))


def no_more_than_before(row: Any, earlier: dict[str, list[Any]]) -> bool:
    """Return whether all rows taken before had at least as many letters: a condition that looks
    back."""
    return all(_letters(row) <= _letters(before) for rows in earlier.values() for before in rows)


def _letters(row: Any) -> int:
    if isinstance(row, frozenset):
        return len(row)
    return sum(getattr(row, name) for name in LETTERS)


LOOKS_BACK = Function(no_more_than_before, None, True, SITE)


class PatternDraw:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = iter("stuvwxyz")
        self._absent = iter(f"n{number}" for number in range(9))

    def pattern(self) -> PatternTree:
        random = self._random
        parts = self._parts(random.randint(1, 3), depth=0)
        within_ms = random.choice([None, 2, 3, 5])
        if random.random() < 0.25:
            directly = random.random() < 0.5 or within_ms is None
            parts = (*parts, self._absence(Contiguity.NEXT if directly else Contiguity.FOLLOWED_BY))
        else:
            parts = (*parts[:-1], _not_greedy(parts[-1]))
        names = [step.name for step in steps(parts)]
        skip = random.choice(list(Skip))
        step = random.choice(names) if skip in (Skip.TO_FIRST, Skip.TO_LAST) else None
        return PatternTree(parts, within_ms, AfterMatch(skip, step))

    def _parts(self, count: int, depth: int) -> tuple[Part, ...]:
        random = self._random
        parts: list[Part] = []
        for number in range(count):
            if parts and random.random() < 0.25:
                parts.append(self._absence(random.choice([Contiguity.NEXT, Contiguity.FOLLOWED_BY])))
            contiguity = random.choice(list(Contiguity)) if parts else Contiguity.FOLLOWED_BY
            if depth == 0 and random.random() < 0.2:
                inside = self._parts(random.randint(1, 2), depth + 1)
                inside = (*inside[:-1], _not_greedy(inside[-1]))
                parts.append(Group(inside, SITE, contiguity, self._quantifier(group=True)))
            else:
                optional = number > 0 or count > 1
                condition = letter(random.choice(LETTERS)) if random.random() < 0.9 else Condition()
                if random.random() < 0.1:
                    condition = condition.both(Condition((), (LOOKS_BACK,)))
                quantifier = self._quantifier(optional=optional)
                parts.append(PatternStep(next(self._names), SITE, contiguity, condition, quantifier))
        return tuple(parts)

    def _absence(self, contiguity: Contiguity) -> Absence:
        return Absence(next(self._absent), SITE, contiguity, letter(self._random.choice(LETTERS)))

    def _quantifier(self, *, group: bool = False, optional: bool = True) -> Quantifier:
        random = self._random
        least, most = random.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2), (1, None), (2, None)])
        repeats = most != 1
        until = letter(random.choice(LETTERS)) if most is None and random.random() < 0.4 else None
        return Quantifier(
            at_least=least,
            at_most=most,
            inner=random.choice(list(Contiguity)) if repeats else Contiguity.FOLLOWED_BY,
            greedy=not group and least != most and random.random() < 0.4,
            optional=optional and random.random() < 0.25,
            until=until,
        )


def _not_greedy(part: Part) -> Part:
    if not isinstance(part, PatternStep):
        return part
    q = part.quantifier
    quantifier = Quantifier(q.at_least, q.at_most, q.inner, False, q.optional, q.until)
    return PatternStep(part.name, part.site, part.contiguity, part.condition, quantifier)


def drawn_rows(random: Random, count: int) -> tuple[list[frozenset[str]], list[int]]:
    """Return the letters of rows, and their times, in order."""
    rows, times, at_ms = [], [], 0
    for _ in range(count):
        at_ms += random.choice([0, 1, 1, 1, 2])
        times.append(at_ms)
        rows.append(frozenset(random.sample(LETTERS, random.choice([0, 1, 1, 1, 1, 2]))))
    return rows, times
