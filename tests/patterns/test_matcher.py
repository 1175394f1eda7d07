"""The matcher compared with brute force over random patterns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from rheos.core.errors import ProgramError
from rheos.core.graph.patterns import Condition, PatternTree
from rheos.core.operators.pattern.automaton import EVERY, Automaton
from rheos.core.operators.pattern.live_matches import LiveMatches, MatchNode
from rheos.core.operators.pattern.matcher import Matcher, MatchOutcome
from rheos.core.operators.pattern.pattern_compiler import compiled
from tests.patterns.brute import Brute, Outcome, Taken
from tests.patterns.drawn import PatternDraw, drawn_rows

Rows = Sequence[frozenset[str]]
END_MS = 1000


def holds_for(rows: Rows, condition: Condition, row: int, taken: Taken) -> bool:
    """Evaluate the letters of a row first, then functions, which may look back."""
    letters = [expr.meta.root_names()[0] for expr in condition.exprs]
    if not all(name in rows[row] for name in letters):
        return False
    earlier: dict[str, list[frozenset[str]]] = {}
    for place, step in taken:
        earlier.setdefault(step, []).append(rows[place])
    return all(function.call(rows[row], earlier) for function in condition.functions)


def bits_of(automaton: Automaton, rows: Rows, row: int) -> int:
    bits = EVERY
    for condition, bit in zip(automaton.conditions, automaton.bits, strict=True):
        names = [expr.meta.root_names()[0] for expr in condition.exprs]
        if names and all(name in rows[row] for name in names):
            bits |= bit
    return bits


def matched(pattern: PatternTree, rows: Rows, times: Sequence[int]) -> list[Outcome]:
    """Return the matcher's output; it receives no row that it declared irrelevant."""
    automaton = compiled(pattern)

    def taken_by(node: MatchNode | None) -> Taken:
        if node is None:
            return ()
        return tuple(
            (row, automaton.names[automaton.positions[position].step]) for row, position in node.rows()
        )

    def holds(condition: int, row: int, node: MatchNode | None) -> bool:
        asked = automaton.conditions[condition]
        return holds_for(rows, Condition((), asked.functions), row, taken_by(node))

    matcher = Matcher(automaton, pattern.after_match, holds)
    alive = LiveMatches([], [])
    given: list[MatchOutcome] = []
    for row, at_ms in enumerate(times):
        given += matcher.expired(alive, at_ms)
        bits = bits_of(automaton, rows, row)
        if bits & (alive.wakes | automaton.begin_wakes):
            given += matcher.row(alive, row, at_ms, bits)
    given += matcher.expired(alive, END_MS)
    return [Outcome(taken_by(each.node), each.at_ms, each.timed_out) for each in given]


@pytest.mark.parametrize("seed", range(40))
def test_the_matcher_agrees_with_brute_force(seed: int) -> None:
    random = Random(f"patterns {seed}")
    for _ in range(15):
        pattern = PatternDraw(random).pattern()
        rows, times = drawn_rows(random, random.randint(3, 5))
        try:
            compiled(pattern)
        except ProgramError:
            continue
        expected = Brute(pattern, times, partial(holds_for, rows)).outcomes(END_MS)
        found = matched(pattern, rows, times)
        assert found == expected, f"{pattern}\nof {[''.join(sorted(r)) for r in rows]} at {times}"
