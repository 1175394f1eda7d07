"""Filters as near to the sources as the meaning of a query allows.

    filter price > 3                      join
      join                        =>        filter price > 3
        bids                                  bids
        sales                               sales

A filter stays above what gives other rows where some of its input are left out: groups and sides of
joins that it says more of than their keys, numbers of rows, frames, patterns, versions. It stays above
what others read, too, so that what several queries ask for is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rheos.sql.plan import Filter, PlanNode, with_inputs
from rheos.sql.sharing import PlanNumbers


def filters_down(roots: Sequence[PlanNode]) -> list[PlanNode]:
    """The same queries, which may share parts."""
    pushing = _Pushing(roots)
    return [pushing.made(root) for root in roots]


class _Pushing:
    def __init__(self, roots: Sequence[PlanNode]) -> None:
        self._numbers = PlanNumbers()
        self._made: dict[int, PlanNode] = {}
        self._readers: dict[int, set[int]] = {}
        """The numbers of the plans that read one; of the roots those of nobody."""
        for place, root in enumerate(roots, 1):
            self._note(root, -place)

    def _note(self, plan: PlanNode, reader: int) -> None:
        number = self._numbers.number(plan)
        known = self._readers.setdefault(number, set())
        seen = bool(known)
        known.add(reader)
        if not seen:
            for each in plan.upstream():
                self._note(each, number)

    def made(self, plan: PlanNode) -> PlanNode:
        number = self._numbers.number(plan)
        if number not in self._made:
            self._made[number] = self._pushed(plan)
        return self._made[number]

    def _pushed(self, plan: PlanNode) -> PlanNode:
        lower = self._lower(plan) if isinstance(plan, Filter) else None
        if lower is not None:
            return self.made(lower)
        return with_inputs(plan, [self.made(each) for each in plan.upstream()])

    def _lower(self, plan: Filter) -> PlanNode | None:
        """The filter below what it filters; None where it stays above."""
        of = plan.input
        shared = len(self._readers.get(self._numbers.number(of), ())) > 1
        if plan.pinned or shared or plan.changes != of.changes:
            return None
        if isinstance(of, Filter):
            # Both are asked of the same rows, in whichever order.
            lower = self._lower(replace(plan, input=of.input, changes=of.input.changes))
            return None if lower is None else with_inputs(of, [lower])
        return of.with_filter_below(plan.condition, frozenset(plan.condition.meta.root_names()))
