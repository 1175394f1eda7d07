"""The matcher, which advances the matches of a key by one row. It is pure: it receives rows and times,
and returns matches.

The caller passes the rows of a key in order, each with the bits of the conditions that it fulfils.
Before each row, and when time passes without a row, the caller requests expired matches. A row changes
nothing if it has no bit that the key or a starting edge wakes for, so the caller may omit it.

The order of the returned matches depends on the rows alone. If matches can rule each other out
(`AfterMatch`), a match waits while a partial match with an earlier first row exists. That partial match
may still be completed and rule the other out. Of matches with the same first row, the one found first
comes first. Of those found at the same row, the one that took earlier rows comes first: (1, 2, 4) comes
before (1, 3, 4), and that before (1, 4).

If the pattern is *preferring*, partial matches with the same first row are in the order of preference.
Each row advances all of them. When one is complete, the matcher drops the less preferred ones, and any
match of that first row found before. The complete match waits for the more preferred ones, which may
still be completed too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, assert_never

from rheos.core.graph.patterns import AfterMatch, Contiguity, Skip
from rheos.core.operators.pattern.automaton import Automaton, BlockedTest, EdgeEffect, PatternEdge
from rheos.core.operators.pattern.live_matches import (
    NEVER_MS,
    LiveMatches,
    MatchNode,
    Partial,
    WholeMatch,
)

Holds = Callable[[int, int, MatchNode | None], bool]
"""Function that evaluates a condition's functions for a row, given by its number, after the rows that a
match has taken."""


class MatchOutcome(NamedTuple):
    """A match that was completed or has timed out, and when that became certain."""

    node: MatchNode
    at_ms: int
    """Time at which the outcome became certain."""
    timed_out: bool = False
    """Whether the match was not completed within its time."""


class TooManyMatchesError(Exception):
    """Error for a key with more partial matches than `most`."""


class Matcher:
    def __init__(
        self, automaton: Automaton, after_match: AfterMatch, holds: Holds, most: int = 2**62
    ) -> None:
        """Create a matcher. It calls `holds` for conditions with functions, if their expressions hold.
        `most` is the largest number of live matches per key."""
        self._most = most
        self._automaton = automaton
        self._after = after_match
        self._holds = holds
        self._within_ms = automaton.within_ms
        self._asks = tuple(bool(condition.functions) for condition in automaton.conditions)
        looks_back = any(f.sees_earlier for each in automaton.conditions for f in each.functions)
        self._alike_at_one_position = automaton.preferring and not looks_back
        assert not (automaton.preferring and after_match.skip is Skip.NO_SKIP), "one match of each row"
        self.took: list[int] = []
        """Numbers of the rows that matches have taken, in order. The caller empties the list."""
        self._skips_by = (
            automaton.names.index(after_match.step) if after_match.step is not None else None
        )

    # --- rows -----------------------------------------------------------------------------------------

    def row(self, alive: LiveMatches, event: int, at_ms: int, bits: int) -> list[MatchOutcome]:
        """Process the next row of a key. The caller must have requested expired matches before.

        Raise TooManyMatchesError before a row creates many more matches than a key may have.
        """
        assert alive.expires_ms > at_ms, "PM4: no match takes a row after its time limit"
        found: list[WholeMatch] = []
        partials: list[Partial] = []
        automaton = self._automaton
        moved = bool(alive.wakes & bits)
        if automaton.preferring:
            moved = self._moved_in_order(alive, event, bits, partials, found)
        elif moved:
            for partial in alive.partials:
                if partial.wakes & bits:
                    self._moved(partial, event, bits, partials, found)
                    if len(partials) + len(found) > self._most:
                        raise TooManyMatchesError
                else:
                    partials.append(partial)
        else:
            partials = list(alive.partials)
        for edge in automaton.begins:
            if edge.wakes & bits and (edge.sure or self._takes(edge, event, bits, None)):
                self._follow_edge(edge, event, None, event, at_ms, partials, found)
                if automaton.preferring and automaton.positions[edge.target].found:
                    break
        if not moved and not found and len(partials) == len(alive.partials):
            return []
        alive.partials = partials
        given = self._finished(alive, found, at_ms) if found or alive.found else []
        if len(alive.partials) + len(alive.found) > self._most:
            raise TooManyMatchesError
        self.refresh(alive)
        return given

    def _moved(
        self, partial: Partial, event: int, bits: int, partials: list[Partial], found: list[WholeMatch]
    ) -> None:
        """Advance a partial match by a row, and add the results."""
        node, began, since_ms = partial.node, partial.began, partial.since_ms
        left: list[PatternEdge] = []
        changed = False
        taken: list[Partial] = []
        for edge in partial.open:
            if not edge.wakes & bits:
                left.append(edge)
                continue
            if edge.sure:
                self._follow_edge(edge, event, node, began, since_ms, taken, found)
                if edge.contiguity is Contiguity.FOLLOWED_BY_ANY:
                    left.append(edge)
                else:
                    changed = True
                continue
            guards = edge.guards
            if (guards.never and self._blocked(guards.never, event, bits, node)) or (
                guards.first and self._holds_any(guards.first, event, bits, node)
            ):
                changed = True
                continue
            stays = True
            match edge.leads:
                case EdgeEffect.TAKES:
                    takes = self._is(edge.condition, event, bits, node)
                    if takes:
                        self._follow_edge(edge, event, node, began, since_ms, taken, found)
                    stays = edge.contiguity is Contiguity.FOLLOWED_BY_ANY or (
                        edge.contiguity is Contiguity.FOLLOWED_BY and not takes
                    )
                case EdgeEffect.ENDS_AT_NEXT:
                    found.append(WholeMatch(node, began))
                    stays = False
                case EdgeEffect.ENDS_IN_TIME:
                    pass
                case _:
                    assert_never(edge.leads)
            if stays and not (guards.between and self._holds_any(guards.between, event, bits, node)):
                later = edge if edge.later == edge.number else self._automaton.edges[edge.later]
                changed = changed or later is not edge
                left.append(later)
            else:
                changed = True
        if not changed:
            partials.append(partial)
        elif left:
            wakes = 0
            for edge in left:
                wakes |= edge.wakes
            partials.append(Partial(node, tuple(left), wakes, began, since_ms))
        partials += taken

    def _moved_in_order(
        self,
        alive: LiveMatches,
        event: int,
        bits: int,
        partials: list[Partial],
        found: list[WholeMatch],
    ) -> bool:
        """Advance the partial matches of a preferring pattern by a row. Return whether there were
        any."""
        whole_of = None
        reached: set[tuple[int, int]] = set()
        for partial in alive.partials:
            if partial.began == whole_of:
                continue
            for edge in partial.open:
                if not self._takes(edge, event, bits, partial.node):
                    continue
                # Equal matches from here on are the same match, on a less preferred path.
                if self._alike_at_one_position and (partial.began, edge.target) in reached:
                    continue
                reached.add((partial.began, edge.target))
                self._follow_edge(
                    edge, event, partial.node, partial.began, partial.since_ms, partials, found
                )
                if self._automaton.positions[edge.target].found:
                    whole_of = partial.began
                    break
        return bool(alive.partials)

    def _follow_edge(
        self,
        edge: PatternEdge,
        event: int,
        node: MatchNode | None,
        began: int,
        since_ms: int,
        partials: list[Partial],
        found: list[WholeMatch],
    ) -> None:
        position = self._automaton.positions[edge.target]
        last = MatchNode(edge.target, event, node)
        self.took.append(event)
        if position.found:
            found.append(WholeMatch(last, began))
        if position.edges:
            partials.append(Partial(last, position.edges, position.wakes, began, since_ms))

    def _takes(self, edge: PatternEdge, event: int, bits: int, node: MatchNode | None) -> bool:
        never = edge.guards.never
        return self._is(edge.condition, event, bits, node) and not (
            never and self._blocked(never, event, bits, node)
        )

    def _is(self, condition: int, event: int, bits: int, node: MatchNode | None) -> bool:
        return bool(self._automaton.bits[condition] & bits) and (
            not self._asks[condition] or self._holds(condition, event, node)
        )

    def _holds_any(
        self, conditions: tuple[int, ...], event: int, bits: int, node: MatchNode | None
    ) -> bool:
        return any(self._is(condition, event, bits, node) for condition in conditions)

    def _blocked(
        self, blocked: tuple[BlockedTest, ...], event: int, bits: int, node: MatchNode | None
    ) -> bool:
        return any(
            self._is(condition, event, bits, node) and not self._holds_any(unless, event, bits, node)
            for condition, unless in blocked
        )

    # --- time -----------------------------------------------------------------------------------------

    def expired(self, alive: LiveMatches, until_ms: int) -> list[MatchOutcome]:
        """Return the outcomes of matches that expire at or before `until_ms`."""
        given: list[MatchOutcome] = []
        if alive.expires_ms > until_ms:
            return given
        assert self._within_ms is not None
        while alive.expires_ms <= until_ms:
            at_ms = alive.expires_ms
            over = [p for p in alive.partials if p.since_ms + self._within_ms <= at_ms]
            alive.partials = [p for p in alive.partials if p.since_ms + self._within_ms > at_ms]
            late, found = self._split_expired(alive, over)
            given += [MatchOutcome(node, at_ms, timed_out=True) for node in late]
            given += self._finished(alive, found, at_ms)
            self.refresh(alive)
        return given

    def _split_expired(
        self, alive: LiveMatches, over: list[Partial]
    ) -> tuple[list[MatchNode], list[WholeMatch]]:
        """Divide expired matches into those that remained incomplete, and those that are now
        complete."""
        late: list[MatchNode] = []
        found: list[WholeMatch] = []
        were_found: list[MatchNode] = []
        waiting = {each.began for each in alive.found} if self._automaton.preferring else set()
        for partial in over:
            if any(edge.leads is EdgeEffect.ENDS_IN_TIME for edge in partial.open):
                found.append(WholeMatch(partial.node, partial.began))
            elif partial.began in waiting or self._automaton.positions[partial.node.position].found:
                were_found.append(partial.node)
            else:
                late.append(partial.node)
        once = self._each_once([*were_found, *(each.node for each in found), *late])
        of_late = {id(node) for node in late}
        return [node for node in once if id(node) in of_late], found

    def refresh(self, alive: LiveMatches) -> None:
        """Recompute the bits that the partial matches wake for, and the time of the next expiry."""
        wakes = 0
        for partial in alive.partials:
            wakes |= partial.wakes
        alive.wakes = wakes
        alive.expires_ms = NEVER_MS
        if alive.partials and self._within_ms is not None:
            alive.expires_ms = alive.partials[0].since_ms + self._within_ms

    # --- whole matches --------------------------------------------------------------------------------

    def _finished(self, alive: LiveMatches, found: list[WholeMatch], at_ms: int) -> list[MatchOutcome]:
        """Return the matches to emit after these were found; the others wait or are discarded."""
        if len(found) > 1:
            once = self._each_once([each.node for each in found])
            began = {id(each.node): each.began for each in found}
            found = [WholeMatch(node, began[id(node)]) for node in once]
        if self._after.skip is Skip.NO_SKIP:
            return [MatchOutcome(each.node, at_ms) for each in found]
        if found:
            if self._automaton.preferring:
                better = {each.began for each in found}
                alive.found = [each for each in alive.found if each.began not in better]
            # Sorting is stable, so matches found earlier stay first.
            alive.found = sorted([*alive.found, *found], key=lambda each: each.began)
        given: list[MatchOutcome] = []
        while alive.found:
            first = alive.found[0]
            if alive.partials and self._may_rule_out(alive.partials[0], first):
                break
            alive.found = alive.found[1:]
            given.append(MatchOutcome(first.node, at_ms))
            ruled_out = self._ruled_out(first)
            alive.found = [each for each in alive.found if each.began >= ruled_out]
            alive.partials = [p for p in alive.partials if p.began >= ruled_out]
        return given

    def _may_rule_out(self, partial: Partial, found: WholeMatch) -> bool:
        """Return whether a partial match would come before a complete one."""
        if self._automaton.preferring:
            return partial.began <= found.began
        return partial.began < found.began

    def _ruled_out(self, found: WholeMatch) -> int:
        """Return the row number that later matches must start at or after."""
        match self._after.skip:
            case Skip.NO_SKIP:
                return found.began
            case Skip.TO_NEXT:
                return found.began + 1
            case Skip.PAST_LAST_EVENT:
                return found.node.event + 1
            case Skip.TO_FIRST | Skip.TO_LAST:
                positions = self._automaton.positions
                taken = [
                    node.event
                    for node in found.node.chain()
                    if positions[node.position].step == self._skips_by
                ]
                if not taken:
                    return found.began
                return min(taken) if self._after.skip is Skip.TO_FIRST else max(taken)
            case _:
                assert_never(self._after.skip)

    def _each_once(self, nodes: list[MatchNode]) -> list[MatchNode]:
        """Return the matches in their order, without duplicates. Matches that took the same rows by the
        same steps are duplicates: a group with optional parts may reach one match in several ways."""
        if len(nodes) < 2:
            return nodes
        positions = self._automaton.positions
        by_rows: dict[tuple[tuple[int, ...], tuple[int, ...]], MatchNode] = {}
        for node in nodes:
            rows = node.rows()
            taken = tuple(event for event, _ in rows)
            steps = tuple(positions[position].step for _, position in rows)
            # A longer match comes before its own beginning.
            by_rows.setdefault(((*taken, NEVER_MS), steps), node)
        return [by_rows[rows] for rows in sorted(by_rows)]
