"""The order in which a preferring pattern tries the next positions, as in regular expressions.

Each position has a list of the positions that may take the next row, the preferred one first. The list
may contain the end of the match. A greedy repetition prefers to continue; a reluctant one prefers to
end. The matcher never tries a position that is less preferred than the end, because a match that can
end there is complete.

    a b* c       after a: b, c     after b: b, c     after c: the end
    a b*? c      after a: c, b     after b: c, b
    a b+         after b: b, the end
    a b+?        after b: the end
    (a | b c) d  at the start: a, b     after a: d     after b: c     after c: d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from rheos.core.graph.patterns import Absence, Choice, Group, Part, PatternStep, Quantifier

if TYPE_CHECKING:
    from rheos.core.operators.pattern.automaton import PatternEdge

Next: TypeAlias = tuple[int, ...]
"""Positions, the preferred first."""

_START = _END = -1
"""Key of the start in the edges by position, and the end of the match in an order of positions."""


def in_order_of_preference(
    parts: Sequence[Part], edges: Mapping[int, Sequence[PatternEdge]]
) -> tuple[dict[int, list[PatternEdge]], set[int]]:
    """Return the edges by position in the order of preference, without those that are never tried, and
    the positions at which a match may end."""
    orders = _Orders(parts)
    found = {position for position, order in orders.behind.items() if _END in order}
    chosen: dict[int, list[PatternEdge]] = {}
    for position, order in {**orders.behind, _START: orders.begins}.items():
        by_target = {edge.target: edge for edge in edges[position]}
        tried = order[: order.index(_END)] if _END in order else order
        # After a repetition that takes no row, some paths are covered by the edges of the repetition
        # before.
        chosen[position] = [by_target[target] for target in tried if target in by_target]
    return chosen, found


class _Orders:
    """The orders of all positions. Positions are numbered as in the compiler: in the order of writing,
    with a number for each repetition."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.behind: dict[int, Next] = {}
        self.begins = self._sequence(parts, 0, (_END,))

    def _sequence(self, parts: Sequence[Part], first: int, then: Next) -> Next:
        """Compute the order of the parts from the position `first` on. `then` are positions that may
        follow."""
        firsts = accumulate(map(_positions, parts), initial=first)
        for part, place in [*zip(parts, firsts, strict=False)][::-1]:
            then = self._repeated(part, place, then)
        return then

    def _repeated(self, part: Part, first: int, then: Next) -> Next:
        assert not isinstance(part, Absence), "a preferring pattern has no absences"
        quantifier = part.quantifier
        least, once = quantifier.at_least, _count_positions(part)
        last = first + _positions(part) - once
        entered = then
        if quantifier.at_most is None:
            again = self._order_once(part, last, ())
            entered = _order_of_choice(quantifier, again, then)
        for number, place in [*enumerate(range(first, last + 1, once), 1)][::-1]:
            goes_on = entered
            if place != last and number >= least:
                goes_on = _order_of_choice(quantifier, entered, then)
            entered = self._order_once(part, place, goes_on)
        return _order_of_choice(quantifier, entered, then) if quantifier.optional else entered

    def _order_once(self, part: Part, first: int, then: Next) -> Next:
        match part:
            case Group():
                return self._sequence(part.parts, first, then)
            case Choice():
                places = accumulate(map(_positions, part.parts), initial=first)
                either = [
                    self._repeated(each, at, then) for each, at in zip(part.parts, places, strict=False)
                ]
                return tuple(dict.fromkeys(place for order in either for place in order))
        self.behind[first] = then
        return (first,)


def _order_of_choice(quantifier: Quantifier, further: Next, then: Next) -> Next:
    order = then + further if quantifier.reluctant else further + then
    return tuple(dict.fromkeys(order))


def _positions(part: Part) -> int:
    assert not isinstance(part, Absence), "a preferring pattern has no absences"
    quantifier = part.quantifier
    times = max(quantifier.at_least, 1) if quantifier.at_most is None else quantifier.at_most
    return _count_positions(part) * times


def _count_positions(part: PatternStep | Group | Choice) -> int:
    return 1 if isinstance(part, PatternStep) else sum(map(_positions, part.parts))
