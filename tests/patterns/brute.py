"""The meaning of a pattern, found by trying everything: small, slow, and without an automaton.

A pattern is expanded into *words*: all sequences of steps that it allows for a stream of this
length. A word matches if rows can be assigned to its steps in order, so that the conditions on the
rows between them hold. After every row, all words are examined again: which partial matches are
alive, complete, or ruled out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rheos.core.graph.patterns import (
    Absence,
    Condition,
    Contiguity,
    Group,
    Part,
    PatternStep,
    PatternTree,
    Quantifier,
    Skip,
)

Taken = tuple[tuple[int, str], ...]
"""Rows by their places in the stream, each with the step that took it."""

Holds = Callable[[Condition, int, Taken], bool]


@dataclass(frozen=True)
class Following:
    """Conditions on the rows after one that was taken."""

    absent: tuple[Absence, ...] = ()
    blocked: tuple[tuple[Condition, tuple[Condition, ...]], ...] = ()
    """A row of this condition, and of none of those, may not come: a greedy step would take it."""


@dataclass(frozen=True)
class Occurrence:
    step: PatternStep
    contiguity: Contiguity
    leading: bool
    untils: tuple[Condition, ...]
    behind: Following = field(default_factory=Following)


@dataclass(frozen=True)
class Word:
    steps: tuple[Occurrence, ...]
    end: Following


def words(parts: Sequence[Part], most: int, untils: tuple[Condition, ...] = ()) -> set[Word]:
    """Return the words; of longer ones the first `most` steps."""
    found = {Word((), Following())}
    for number, part in enumerate(parts):
        if isinstance(part, Absence):
            absent = Following(absent=(part,))
            found = {Word(word.steps, _both(word.end, absent)) for word in found}
            continue
        choices = _times(part, most, untils)
        if number:
            choices = {_not_leading(choice) for choice in choices}
        found = {_joined(word, choice, most) for word in found for choice in choices}
    return found


def _joined(word: Word, further: Word, most: int) -> Word:
    if len(word.steps) >= most:
        return word
    if not further.steps:
        return Word(word.steps, _both(word.end, further.end))
    first, *rest = further.steps
    first = replace(first, behind=_both(word.end, first.behind))
    return Word((*word.steps, first, *rest)[:most], further.end)


def _both(one: Following, other: Following) -> Following:
    return Following(one.absent + other.absent, one.blocked + other.blocked)


def _not_leading(word: Word) -> Word:
    if not word.steps:
        return word
    return Word((replace(word.steps[0], leading=False), *word.steps[1:]), word.end)


def _times(part: PatternStep | Group, most: int, untils: tuple[Condition, ...]) -> set[Word]:
    """Return the words of a part that repeats as its quantifier allows."""
    quantifier: Quantifier = part.quantifier
    if quantifier.until is not None:
        untils = (*untils, quantifier.until)
    greedy = Following()
    if quantifier.greedy:
        assert isinstance(part, PatternStep)
        greedy = Following(blocked=((part.condition, untils),))
    if isinstance(part, PatternStep):
        once = {Word((Occurrence(part, part.contiguity, True, untils),), Following())}
    else:
        once = words(part.parts, most, untils)
    found = {Word((), greedy)} if quantifier.optional else set()
    least = quantifier.at_least
    nothing = {word for word in once if not word.steps}
    if nothing:
        found |= nothing
        once -= nothing
        least = 1
    first = {_entered(word, part.contiguity) for word in once}
    again = {_entered(word, quantifier.inner) for word in once}
    limit = max(least, most) if quantifier.at_most is None else quantifier.at_most
    so_far = first
    for count in range(1, limit + 1):
        if count > 1:
            so_far = {_joined(word, further, most) for word in so_far for further in again}
        if count >= least:
            end = Following() if count == quantifier.at_most else greedy
            found |= {Word(word.steps, _both(word.end, end)) for word in so_far}
    return found


def _entered(word: Word, contiguity: Contiguity) -> Word:
    first = word.steps[0]
    if not first.leading:
        return word
    return Word((replace(first, contiguity=contiguity), *word.steps[1:]), word.end)


@dataclass(frozen=True)
class Outcome:
    taken: Taken
    at_ms: int
    timed_out: bool = False


class Brute:
    def __init__(self, pattern: PatternTree, times: Sequence[int], holds: Holds) -> None:
        self.pattern = pattern
        self.times = times
        self.holds = holds
        self._known: dict[tuple[Word, int], list[tuple[Taken, int]]] = {}
        # One step more than there are rows: a partial match may wait for it.
        self.words = words(pattern.parts, len(times) + 1)

    # --- one word -------------------------------------------------------------------------------------

    def _open(self, taken: Taken, next: Occurrence, until: int) -> bool:
        """Return whether the next step may still take the row `until`, given the rows before it."""
        last = taken[-1][0]
        return all(
            self._passes(taken, row, next.behind, next.untils)
            and next.contiguity is not Contiguity.NEXT
            and not (
                next.contiguity is Contiguity.FOLLOWED_BY
                and self.holds(next.step.condition, row, taken)
            )
            and not any(
                self.holds(absence.condition, row, taken)
                for absence in next.behind.absent
                if absence.contiguity is Contiguity.FOLLOWED_BY
            )
            for row in range(last + 1, until)
        )

    def _passes(self, taken: Taken, row: int, behind: Following, untils: tuple[Condition, ...]) -> bool:
        if any(self.holds(until, row, taken) for until in untils):
            return False
        if any(
            self.holds(condition, row, taken) and not any(self.holds(u, row, taken) for u in unless)
            for condition, unless in behind.blocked
        ):
            return False
        return not any(
            self.holds(absence.condition, row, taken)
            for absence in behind.absent
            if absence.contiguity is Contiguity.NEXT and taken and row == taken[-1][0] + 1
        )

    def _in_time(self, taken: Taken, row: int) -> bool:
        within_ms = self.pattern.within_ms
        return within_ms is None or self.times[row] < self.times[taken[0][0]] + within_ms

    def _dealt(self, word: Word, rows: int) -> list[tuple[Taken, int]]:
        """Return all ways to assign some of the first rows to the first steps, and the number of
        those steps."""
        if (word, rows) not in self._known:
            self._known[word, rows] = list(self._deal(word, rows))
        return self._known[word, rows]

    def _deal(self, word: Word, rows: int) -> Iterator[tuple[Taken, int]]:
        def further(taken: Taken, number: int) -> Iterator[tuple[Taken, int]]:
            if number:
                yield taken, number
            if number == len(word.steps):
                return
            step = word.steps[number]
            for row in range(taken[-1][0] + 1 if taken else 0, rows):
                if (
                    (not taken or (self._open(taken, step, row) and self._in_time(taken, row)))
                    and self._passes(taken, row, step.behind, step.untils)
                    and self.holds(step.step.condition, row, taken)
                ):
                    yield from further((*taken, (row, step.step.name)), number + 1)

        yield from further((), 0)

    # --- all words ------------------------------------------------------------------------------------

    def alive(self, rows: int) -> set[Taken]:
        """Return the partial matches that may continue after this many rows, regardless of their
        time limit."""
        found = set()
        for word in self.words:
            for taken, number in self._dealt(word, rows):
                if number < len(word.steps):
                    if self._open(taken, word.steps[number], rows):
                        found.add(taken)
                elif word.end.absent and self._end_open(taken, word.end, rows):
                    found.add(taken)
        return found

    def _end_open(self, taken: Taken, end: Following, rows: int) -> bool:
        later = range(taken[-1][0] + 1, rows)
        if not _in_time(end):
            return not later
        return all(self._passes(taken, row, end, ()) for row in later) and not any(
            self.holds(absence.condition, row, taken)
            for row in later
            for absence in end.absent
            if absence.contiguity is Contiguity.FOLLOWED_BY
        )

    def whole(self, rows: int) -> set[Taken]:
        """Return the matches that the last of these rows completes."""
        found = set()
        for word in self.words:
            for taken, number in self._dealt(word, rows):
                last = taken[-1][0]
                if number < len(word.steps) or _in_time(word.end):
                    continue
                if not word.end.absent:
                    if last == rows - 1:
                        found.add(taken)
                elif (
                    last == rows - 2
                    and self._in_time(taken, rows - 1)
                    and self._passes(taken, rows - 1, word.end, ())
                ):
                    found.add(taken)
        return found

    def outcomes(self, until_ms: int) -> list[Outcome]:
        """Return all outcomes emitted up to a time, in order."""
        given: list[Outcome] = []
        waiting: list[Taken] = []
        ruled_out = 0

        def over(taken: Taken) -> int | None:
            within_ms = self.pattern.within_ms
            return None if within_ms is None else self.times[taken[0][0]] + within_ms

        def give(found: set[Taken], alive: set[Taken], at_ms: int) -> None:
            nonlocal waiting, ruled_out
            found = {taken for taken in found if taken[0][0] >= ruled_out}
            in_order = sorted(found, key=_order)
            if self.pattern.after_match.skip is Skip.NO_SKIP:
                given.extend(Outcome(taken, at_ms) for taken in in_order)
                return
            waiting = sorted([*waiting, *in_order], key=lambda taken: taken[0][0])
            while waiting:
                first = waiting[0]
                if any(ruled_out <= taken[0][0] < first[0][0] for taken in alive):
                    return
                given.append(Outcome(first, at_ms))
                ruled_out = max(ruled_out, self._rules_out(first))
                waiting = [taken for taken in waiting[1:] if taken[0][0] >= ruled_out]

        def expire(rows: int, until_ms: int, after_ms: int | None) -> None:
            alive = self.alive(rows)
            ends = {over(taken) for taken in alive}
            for end_ms in sorted(end for end in ends if end is not None):
                if end_ms > until_ms or (after_ms is not None and end_ms <= after_ms):
                    continue
                due = {t for t in alive if over(t) == end_ms and t[0][0] >= ruled_out}
                last = {t for t in due if self._ends_in_time(t, rows)}
                given.extend(
                    Outcome(taken, end_ms, timed_out=True)
                    for taken in sorted(due - last, key=_order)
                    if not self._was_whole(taken, rows)
                )
                left = {t for t in alive if (over(t) or 0) > end_ms}
                give(last, left, end_ms)

        before_ms = None
        for row, at_ms in enumerate(self.times):
            expire(row, at_ms, before_ms)
            left = {
                taken for taken in self.alive(row + 1) if over(taken) is None or over(taken) > at_ms
            }
            give(self.whole(row + 1), left, at_ms)
            before_ms = at_ms
        expire(len(self.times), until_ms, before_ms)
        return given

    def _ends_in_time(self, taken: Taken, rows: int) -> bool:
        return any(
            _in_time(word.end)
            and any(
                dealt == taken and number == len(word.steps) and self._end_open(taken, word.end, rows)
                for dealt, number in self._dealt(word, rows)
            )
            for word in self.words
        )

    def _was_whole(self, taken: Taken, rows: int) -> bool:
        return any(
            not word.end.absent and number == len(word.steps) and dealt == taken
            for word in self.words
            for dealt, number in self._dealt(word, rows)
        )

    def _rules_out(self, taken: Taken) -> int:
        skip, step = self.pattern.after_match.skip, self.pattern.after_match.step
        of_step = [row for row, name in taken if name == step]
        if skip is Skip.TO_NEXT:
            return taken[0][0] + 1
        if skip is Skip.PAST_LAST_EVENT:
            return taken[-1][0] + 1
        if not of_step:
            return 0
        return of_step[0] if skip is Skip.TO_FIRST else of_step[-1]


def _in_time(end: Following) -> bool:
    return any(absence.contiguity is Contiguity.FOLLOWED_BY for absence in end.absent)


def _order(taken: Taken) -> tuple[list[float], list[str]]:
    return [*(row for row, _ in taken), float("inf")], [name for _, name in taken]
