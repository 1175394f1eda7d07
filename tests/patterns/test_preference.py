"""Preferring patterns compared with a backtracking matcher."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest

from rheos.core.errors import ProgramError
from rheos.core.graph.patterns import (
    Absence,
    AfterMatch,
    Choice,
    Condition,
    Contiguity,
    Group,
    Part,
    PatternStep,
    PatternTree,
    Quantifier,
    Skip,
    steps,
)
from rheos.core.operators.pattern.pattern_compiler import compiled
from tests.patterns.drawn import LETTERS, LOOKS_BACK, SITE, drawn_rows, letter
from tests.patterns.regular import matches
from tests.patterns.test_matcher import holds_for, matched


def drawn(random: Random) -> PatternTree:
    known: list[PatternStep] = []

    def step() -> PatternStep:
        # A step that occurs at several positions.
        if known and random.random() < 0.15:
            return replace(random.choice(known), quantifier=Quantifier())
        condition = letter(random.choice(LETTERS))
        if random.random() < 0.1:
            condition = condition.both(Condition((), (LOOKS_BACK,)))
        known.append(PatternStep(f"s{len(known)}", SITE, Contiguity.NEXT, condition, Quantifier()))
        return known[-1]

    def taking(part: Part) -> PatternStep | Group | Choice:
        """The part, so that it takes a row at least."""
        assert not isinstance(part, Absence)
        part = replace(part, quantifier=replace(part.quantifier, optional=False))
        if isinstance(part, Group):
            return replace(part, parts=(taking(part.parts[0]), *part.parts[1:]))
        return part

    def parts(depth: int) -> tuple[Part, ...]:
        made: list[Part] = []
        for _ in range(random.randint(1, 3 if depth == 0 else 2)):
            least, most = random.choice([(1, 1), (1, 1), (2, 2), (1, 2), (1, None), (2, None), (2, 3)])
            quantifier = Quantifier(
                least,
                most,
                Contiguity.NEXT,
                optional=random.random() < 0.3,
                reluctant=random.random() < 0.4,
            )
            if depth < 2 and random.random() < 0.2:
                either = tuple(taking(parts(depth + 1)[0]) for _ in range(random.randint(2, 3)))
                made.append(Choice(either, SITE, Contiguity.NEXT, quantifier))
            elif depth == 0 and random.random() < 0.3:
                group = Group(parts(1), SITE, Contiguity.NEXT, quantifier)
                # The order of several empty ways does not matter.
                made.append(replace(taking(group), quantifier=quantifier))
            else:
                made.append(replace(step(), quantifier=quantifier))
        return tuple(made)

    whole = parts(0)
    skip = random.choice([skip for skip in Skip if skip is not Skip.NO_SKIP])
    name = random.choice([each.name for each in steps(whole)])
    after = AfterMatch(skip, name if skip in (Skip.TO_FIRST, Skip.TO_LAST) else None)
    return PatternTree(whole, random.choice([None, 3, 5]), after, preferring=True)


@pytest.mark.parametrize("seed", range(30))
def test_matches_agree_with_a_backtracking_matcher(seed: int) -> None:
    random = Random(f"preferring {seed}")
    tried = 0
    for _ in range(60):
        pattern = drawn(random)
        rows, times = drawn_rows(random, random.randint(3, 8))
        # A row that no step takes ends all partial matches.
        rows, times = [*rows, frozenset()], [*times, times[-1] + 1]
        try:
            compiled(pattern)
        except ProgramError:
            continue
        tried += 1
        expected = matches(pattern, times, partial(holds_for, rows))
        given = [outcome.taken for outcome in matched(pattern, rows, times) if not outcome.timed_out]
        assert given == expected, f"{pattern}\nof {[''.join(sorted(r)) for r in rows]} at {times}"
    assert tried > 20


def test_a_match_is_emitted_only_when_it_is_final() -> None:
    loop = Quantifier(1, None, Contiguity.NEXT)
    a = PatternStep("a", SITE, Contiguity.NEXT, letter("a"), loop)
    pattern = PatternTree((a,), None, AfterMatch(Skip.PAST_LAST_EVENT), preferring=True)
    rows = [frozenset("a")] * 3
    assert matched(pattern, rows, [1, 2, 3]) == []
    [whole] = matched(pattern, [*rows, frozenset("b")], [1, 2, 3, 4])
    assert (whole.taken, whole.at_ms) == (((0, "a"), (1, "a"), (2, "a")), 4)


def test_an_unreachable_step_is_refused() -> None:
    a = PatternStep("a", SITE, Contiguity.NEXT, letter("a"), Quantifier())
    rest = Quantifier(1, None, Contiguity.NEXT, optional=True, reluctant=True)
    b = PatternStep("b", SITE, Contiguity.NEXT, letter("b"), rest)
    pattern = PatternTree((a, b), None, AfterMatch(Skip.PAST_LAST_EVENT), preferring=True)
    with pytest.raises(ProgramError, match="step 'b' can never match a row, so the") as caught:
        compiled(pattern)
    assert caught.value.hint is not None
    assert "a match is complete before it is reached: remove the reluctant step" in caught.value.hint
