"""Compilation of patterns to automata, by a pure function.

Each part becomes a fragment: positions with entries and exits. Fragments are linked by edges. A pattern
that can never match raises ProgramError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import assert_never

from rheos.core.errors import ProgramError
from rheos.core.graph.patterns import (
    Absence,
    Choice,
    Condition,
    Contiguity,
    Group,
    Part,
    PatternStep,
    PatternTree,
    steps,
)
from rheos.core.operators.pattern import pattern_ends
from rheos.core.operators.pattern.automaton import (
    EVERY,
    NO_GUARDS,
    Automaton,
    BlockedTest,
    EdgeEffect,
    EdgeGuards,
    PatternEdge,
    PatternPosition,
    waking_bits,
)
from rheos.core.operators.pattern.contradictions import never_holds
from rheos.core.operators.pattern.preference import in_order_of_preference

_START = -1

MOST_POSITIONS = 1000
MOST_CONDITIONS = 62
"""Maximum number of conditions: the bits of a 64-bit word, without EVERY."""


def compiled(pattern: PatternTree) -> Automaton:
    """Compile the pattern. If it can never match, raise ProgramError with the line of the step."""
    return _Compiler(pattern).automaton()


# --- fragments ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """A position at which a match may enter a fragment."""

    position: int
    contiguity: Contiguity
    leading: bool
    """Whether it is in the first part, so that the contiguity of the whole applies to it."""
    guards: EdgeGuards = NO_GUARDS


@dataclass(frozen=True)
class _Exit:
    """A position after which a fragment may be left."""

    position: int
    guards: EdgeGuards = NO_GUARDS


@dataclass(frozen=True)
class _Fragment:
    entries: tuple[_Entry, ...]
    exits: tuple[_Exit, ...]
    skipped: EdgeGuards | None
    """EdgeGuards of the edges that skip the fragment; None if it is not optional."""


@dataclass
class _Place:
    """A position that is not complete yet."""

    step: PatternStep
    condition: int
    until: tuple[int, ...]


class _Compiler:
    def __init__(self, pattern: PatternTree) -> None:
        self._pattern = pattern
        self._steps = list(steps(pattern.parts))
        self._names = list(dict.fromkeys(step.name for step in self._steps))
        self._conditions: list[Condition] = []
        self._never: list[bool] = []
        """Whether no row can fulfil a condition, by condition."""
        self._places: list[_Place] = []
        self._until: tuple[int, ...] = ()
        """Conditions that end the repetitions around the part that is being compiled."""
        self._links: dict[tuple[int, int, Contiguity, EdgeGuards], None] = {}
        """Links from one position to another. The guards are those of the link, without the
        target's."""

    def automaton(self) -> Automaton:
        whole, absent = self._sequence(self._pattern.parts)
        first = self._steps[0]
        if whole.skipped is not None:
            raise ProgramError(
                "every step of the pattern is optional, so it would match without any row",
                site=first.site,
                hint="remove .optional() from one of them",
            )
        for entry in whole.entries:
            if entry.guards.first or entry.guards.between:
                raise ProgramError(
                    "every step before this one is optional, so there may be no row after "
                    "which to look for an absence",
                    site=pattern_ends.first_absence(self._pattern.parts).site,
                    hint="begin the pattern with a step that is not optional",
                )
            self._links[_START, entry.position, Contiguity.NEXT, entry.guards] = None
        edges: list[PatternEdge] = []
        by_position: dict[int, list[PatternEdge]] = {
            place: [] for place in range(_START, len(self._places))
        }
        for source, target, contiguity, guards in self._links:
            place = self._places[target]
            until = tuple(BlockedTest(condition) for condition in place.until)
            guards = EdgeGuards(never=until) + guards
            if source == _START:
                contiguity = Contiguity.NEXT
            made = self._edges(
                len(edges),
                EdgeEffect.TAKES,
                target,
                place.condition,
                contiguity,
                guards,
                source == _START,
            )
            edges += made
            by_position[source].append(made[0])
        found = set()
        for end in whole.exits:
            guards = end.guards + absent
            if guards == NO_GUARDS:
                found.add(end.position)
                continue
            if not guards.first and not guards.between:
                raise self._greedy_at_the_end()
            leads = EdgeEffect.ENDS_IN_TIME if guards.between else EdgeEffect.ENDS_AT_NEXT
            if leads is EdgeEffect.ENDS_IN_TIME and self._pattern.within_ms is None:
                raise ProgramError(
                    "the pattern ends with an absence, but has no time limit",
                    site=pattern_ends.last_absence(self._pattern.parts, Contiguity.FOLLOWED_BY).site,
                    hint='set one: .within("10m")',
                )
            made = self._edges(len(edges), leads, -1, -1, Contiguity.FOLLOWED_BY, guards, False)
            edges += made
            by_position[end.position].append(made[0])
        if self._pattern.preferring:
            by_position, found = in_order_of_preference(self._pattern.parts, by_position)
        positions = tuple(
            PatternPosition(
                number,
                self._names.index(place.step.name),
                place.step.shown,
                tuple(by_position[number]),
                number in found,
                waking_bits(by_position[number]),
            )
            for number, place in enumerate(self._places)
        )
        automaton = Automaton(
            names=tuple(self._names),
            repeats=tuple(map(self._repeats, self._names)),
            conditions=tuple(self._conditions),
            bits=tuple(map(self._bit, range(len(self._conditions)))),
            positions=positions,
            edges=tuple(edges),
            begins=tuple(by_position[_START]),
            within_ms=self._pattern.within_ms,
            preferring=self._pattern.preferring,
        )
        self._check(automaton)
        return automaton

    def _repeats(self, name: str) -> bool:
        """Return whether a step may take several rows, at one of its positions or at all of them."""
        repeated = zip(self._steps, self._pattern.repeated(), strict=True)
        of_places = [repeats for step, repeats in repeated if step.name == name]
        return len(of_places) > 1 or any(of_places)

    def _greedy_at_the_end(self) -> ProgramError:
        step = pattern_ends.last_greedy_step(self._pattern.parts)
        return ProgramError(
            f"step {step.name!r} is greedy, but it may end a match: no step follows to limit it",
            site=step.site,
            hint="remove .greedy(), or add a step or an absence after it that is not optional",
        )

    # --- parts ----------------------------------------------------------------------------------------

    def _sequence(self, parts: Sequence[Part]) -> tuple[_Fragment, EdgeGuards]:
        """Compile the parts in sequence, and return the guards after the last of them."""
        whole: _Fragment | None = None
        absent = NO_GUARDS
        for part in parts:
            if isinstance(part, Absence):
                condition = (self._condition(part.condition),)
                directly = part.contiguity is Contiguity.NEXT
                absent += EdgeGuards(first=condition) if directly else EdgeGuards(between=condition)
                continue
            fragment = self._repeated(part)
            whole = fragment if whole is None else self._connect(whole, absent, fragment)
            absent = NO_GUARDS
        assert whole is not None, "a pattern begins with a step"
        return whole, absent

    def _connect(self, before: _Fragment, absent: EdgeGuards, after: _Fragment) -> _Fragment:
        self._link(before.exits, after.entries, absent)
        entries, exits = before.entries, after.exits
        if before.skipped is not None:
            way = before.skipped + absent
            entries += tuple(replace(e, leading=False, guards=way + e.guards) for e in after.entries)
        if after.skipped is not None:
            way = absent + after.skipped
            exits = tuple(_Exit(e.position, e.guards + way) for e in before.exits) + exits
        skipped = None
        if before.skipped is not None and after.skipped is not None:
            skipped = before.skipped + absent + after.skipped
        return _Fragment(entries, exits, skipped)

    def _repeated(self, part: PatternStep | Group | Choice) -> _Fragment:
        quantifier = part.quantifier
        outside = self._until
        if quantifier.until is not None:
            self._until += (self._condition(quantifier.until),)
        greedy = NO_GUARDS
        if quantifier.greedy:
            assert isinstance(part, PatternStep), "groups are not greedy"
            taken = BlockedTest(self._condition(part.condition), self._until)
            greedy = EdgeGuards(never=(taken,))
        least, most = quantifier.at_least, quantifier.at_most
        copies = [self._compile_once(part) for _ in range(max(least, 1) if most is None else most)]
        self._until = outside
        for before, after in pairwise(copies):
            self._link(before.exits, _entered(after.entries, quantifier.inner))
        if most is None:
            self._link(copies[-1].exits, _entered(copies[-1].entries, quantifier.inner))
        nothing = copies[0].skipped
        exits: list[_Exit] = []
        for number, copy in enumerate(copies, 1):
            if number >= least or nothing is not None:
                may_repeat = most is None or number < most
                way = greedy if may_repeat else NO_GUARDS
                exits += [_Exit(e.position, e.guards + way) for e in copy.exits]
        if quantifier.optional:
            nothing = greedy + (nothing or NO_GUARDS)
        return _Fragment(_entered(copies[0].entries, part.contiguity), tuple(exits), nothing)

    def _compile_once(self, part: PatternStep | Group | Choice) -> _Fragment:
        match part:
            case PatternStep():
                if len(self._places) == MOST_POSITIONS:
                    raise ProgramError(
                        f"the pattern has more than {MOST_POSITIONS} steps; each repetition of "
                        "a step counts as one",
                        site=part.site,
                        hint="repeat it fewer times, or write .one_or_more()",
                    )
                number = len(self._places)
                self._places.append(_Place(part, self._condition(part.condition), self._until))
                entry = _Entry(number, part.contiguity, leading=True)
                return _Fragment((entry,), (_Exit(number),), None)
            case Group():
                fragment, absent = self._sequence(part.parts)
                assert absent == NO_GUARDS, "a group ends with a step"
                way = fragment.skipped
                if way is not None and (way.first or way.between):
                    raise ProgramError(
                        "every step of the group is optional, so there may be no row after "
                        "which to look for an absence",
                        site=part.site,
                        hint="remove .optional() from one of them, and make the group optional",
                    )
                return fragment
            case Choice():
                assert self._pattern.preferring, "one is chosen by the order of preference"
                either = [self._repeated(each) for each in part.parts if not isinstance(each, Absence)]
                assert all(each.skipped is None for each in either), "each takes at least one row"
                return _Fragment(
                    tuple(entry for each in either for entry in each.entries),
                    tuple(exit_ for each in either for exit_ in each.exits),
                    None,
                )
            case _:
                assert_never(part)

    def _link(
        self, exits: Iterable[_Exit], entries: Sequence[_Entry], absent: EdgeGuards = NO_GUARDS
    ) -> None:
        for exit_ in exits:
            for entry in entries:
                guards = exit_.guards + absent + entry.guards
                self._links[exit_.position, entry.position, entry.contiguity, guards] = None

    # --- conditions and edges -------------------------------------------------------------------------

    def _condition(self, condition: Condition) -> int:
        for number, known in enumerate(self._conditions):
            if known.same(condition):
                return number
        if len(self._conditions) == MOST_CONDITIONS:
            raise ProgramError(
                f"the pattern has more than {MOST_CONDITIONS} conditions",
                site=self._steps[0].site,
                hint="compute a column with the kind of the row, and use it in the conditions",
            )
        self._conditions.append(condition)
        self._never.append(never_holds(condition.exprs))
        return len(self._conditions) - 1

    def _bit(self, condition: int) -> int:
        return 2 << condition if self._conditions[condition].exprs else EVERY

    def _edges(
        self,
        number: int,
        leads: EdgeEffect,
        target: int,
        condition: int,
        contiguity: Contiguity,
        guards: EdgeGuards,
        begins: bool,
    ) -> list[PatternEdge]:
        """Return an edge, followed by the one that replaces it after the first row."""
        wakes = 0 if condition < 0 else self._bit(condition)
        for blocked in guards.never:
            wakes |= self._bit(blocked.condition)
        for other in guards.between:
            wakes |= self._bit(other)
        waits = contiguity is not Contiguity.NEXT and leads is not EdgeEffect.ENDS_AT_NEXT
        every = 0 if begins or (waits and not guards.first) else EVERY
        wakes_it = wakes | every
        sure = (
            leads is EdgeEffect.TAKES
            and guards == NO_GUARDS
            and wakes_it == self._bit(condition)
            and not self._conditions[condition].functions
        )
        edge = PatternEdge(number, leads, target, condition, contiguity, guards, wakes_it, number, sure)
        if not waits or not guards.first:
            return [edge]
        after = replace(
            edge, number=number + 1, guards=replace(guards, first=()), wakes=wakes, later=number + 1
        )
        return [replace(edge, later=number + 1), after]

    # --- patterns that can never match --------------------------------------------------------------

    def _check(self, automaton: Automaton) -> None:
        reached: set[int] = set()
        found = False
        waiting = list(automaton.begins)
        while waiting:
            edge = waiting.pop()
            if not self._possible(edge):
                continue
            if edge.leads is not EdgeEffect.TAKES:
                found = True
                continue
            if edge.target not in reached:
                reached.add(edge.target)
                position = automaton.positions[edge.target]
                found = found or position.found
                waiting += position.edges
        there = {automaton.positions[number].step for number in reached}
        for step in self._steps:
            if self._names.index(step.name) not in there:
                raise ProgramError(
                    f"step {step.name!r} can never match a row, so the pattern can never match with it",
                    site=step.site,
                    hint=self._reason_never(step),
                )
        if not found:
            raise self._never_ends()

    def _never_ends(self) -> ProgramError:
        absence = pattern_ends.last_absence(self._pattern.parts, Contiguity.NEXT)
        if not absence.condition:
            return ProgramError(
                f"the pattern can never match: {absence.name!r} excludes every row",
                site=absence.site,
                hint="use .where(...) to limit which rows must be absent",
            )
        step = pattern_ends.last_greedy_step(self._pattern.parts)
        next_row = absence.contiguity is Contiguity.NEXT
        after = f"no row can follow it, because of {absence.name!r}"
        return ProgramError(
            f"the pattern can never match: step {step.name!r} is greedy and matches every row, so "
            + (after if next_row else f"{absence.name!r} is never reached"),
            site=step.site,
            hint=f"remove .greedy(), or use .where(...) to limit which rows {step.name!r} matches",
        )

    def _possible(self, edge: PatternEdge) -> bool:
        guards = edge.guards
        if any(
            not blocked.unless and self._implied(edge, blocked.condition) for blocked in guards.never
        ):
            return False
        if edge.condition >= 0 and self._never[edge.condition]:
            return False
        takes_first = edge.contiguity is Contiguity.NEXT
        if edge.leads is EdgeEffect.ENDS_IN_TIME:
            return True
        return not any(
            not self._conditions[other] or (takes_first and self._implied(edge, other))
            for other in guards.first
        )

    def _implied(self, edge: PatternEdge, other: int) -> bool:
        """Return whether each row that the edge takes fulfils the other condition."""
        return other == edge.condition or not self._conditions[other]

    def _reason_never(self, step: PatternStep) -> str:
        if never_holds(step.condition.exprs):
            return f"its condition is never true: {step.condition}"
        until = step.quantifier.until
        if until is not None and (not until or until.same(step.condition)):
            return "every row that it could match ends it through .until(...): use different conditions"
        for other in pattern_ends.backwards_from(step, self._pattern.parts):
            if other.condition and not other.condition.same(step.condition):
                continue
            if isinstance(other, Absence):
                return f"{other.name!r} before it excludes every row that it could match"
            if other.quantifier.greedy:
                return (
                    f"step {other.name!r} before it is greedy and matches every row that this "
                    "one could match: remove .greedy(), or make the two conditions disjoint"
                )
        if self._pattern.preferring:
            return "a match is complete before it is reached: remove the reluctant step at the end"
        return "a step before it can never match a row"


def _entered(entries: Sequence[_Entry], contiguity: Contiguity) -> tuple[_Entry, ...]:
    return tuple(replace(e, contiguity=contiguity) if e.leading else e for e in entries)
