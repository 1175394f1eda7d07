"""The meaning of a pattern with preferences: a regular expression over rows, found by backtracking.

Each row is tried in turn. The first match that starts there counts, and decides at which row the
search continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rheos.core.graph.patterns import (
    Absence,
    Choice,
    Condition,
    Group,
    Part,
    PatternStep,
    PatternTree,
    Skip,
)

Taken = tuple[tuple[int, str], ...]
Holds = Callable[[Condition, int, Taken], bool]


def matches(pattern: PatternTree, times: Sequence[int], holds: Holds) -> list[Taken]:
    """Return all matches of a stream whose end no match could reach."""
    found: list[Taken] = []
    row = 0
    while row < len(times):
        first = next(_ways(pattern.parts, (), row, pattern, times, holds), None)
        row += 1
        if first is not None:
            found.append(first)
            row = max(row, _goes_on(pattern, first))
    return found


def _goes_on(pattern: PatternTree, match: Taken) -> int:
    of_step = [row for row, step in match if step == pattern.after_match.step]
    match pattern.after_match.skip:
        case Skip.PAST_LAST_EVENT:
            return match[-1][0] + 1
        case Skip.TO_FIRST if of_step:
            return of_step[0]
        case Skip.TO_LAST if of_step:
            return of_step[-1]
    return 0


def _ways(
    parts: Sequence[Part],
    taken: Taken,
    row: int,
    pattern: PatternTree,
    times: Sequence[int],
    holds: Holds,
) -> Iterator[Taken]:
    """Return all ways to take rows from `row` on, the preferred first."""
    if not parts:
        yield taken
        return
    part, *rest = parts
    assert not isinstance(part, Absence)

    def once(taken: Taken) -> Iterator[Taken]:
        at = row if not taken else taken[-1][0] + 1
        if isinstance(part, Group):
            yield from _ways(part.parts, taken, at, pattern, times, holds)
            return
        if isinstance(part, Choice):
            for each in part.parts:
                yield from _ways((each,), taken, at, pattern, times, holds)
            return
        assert isinstance(part, PatternStep)
        if at == len(times):
            return
        began_ms = times[taken[0][0]] if taken else times[at]
        in_time = pattern.within_ms is None or times[at] < began_ms + pattern.within_ms
        if in_time and holds(part.condition, at, taken):
            yield (*taken, (at, part.name))

    def from_here(count: int, taken: Taken) -> Iterator[Taken]:
        quantifier = part.quantifier
        enough = count >= quantifier.at_least or (quantifier.optional and count == 0)
        may = quantifier.at_most is None or count < quantifier.at_most
        if enough and quantifier.reluctant:
            yield from _ways(rest, taken, row, pattern, times, holds)
        if may:
            for further in once(taken):
                # Repeating without a row is not another way.
                if further != taken or not enough:
                    yield from from_here(count + 1, further)
        if enough and not quantifier.reluctant:
            yield from _ways(rest, taken, row, pattern, times, holds)

    yield from from_here(0, taken)
