"""Pushdown of filters, as close to the sources as the meaning of a query allows.

    filter price > 3                      join
      join                        =>        filter price > 3
        bids                                  bids
        sales                               sales

A filter stays above a step whose rows depend on the filtered ones. These are groups, row numbers,
frames, patterns and versions, and sides of joins with conditions on more than their keys. It also stays
above a step with other readers, so that rows that several queries read are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rheos.sql.plan import Filter, PlanNode, with_inputs
from rheos.sql.plan_numbers import PlanNumbers


def filters_down(roots: Sequence[PlanNode]) -> list[PlanNode]:
    """Return the queries with pushed filters. They may share parts."""
    pushing = _Pushing(roots)
    return [pushing.made(root) for root in roots]


class _Pushing:
    def __init__(self, roots: Sequence[PlanNode]) -> None:
        self._numbers = PlanNumbers()
        self._made: dict[int, PlanNode] = {}
        self._readers: dict[int, set[int]] = {}
        """Numbers of the plans that read a plan, by its number; roots have no readers."""
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
        """Return the plan with its filter below the filtered step; None if the filter stays above."""
        of = plan.input
        shared = len(self._readers.get(self._numbers.number(of), ())) > 1
        if plan.pinned or shared or plan.changes != of.changes:
            return None
        if isinstance(of, Filter):
            # Both are asked of the same rows, in whichever order.
            lower = self._lower(replace(plan, input=of.input, changes=of.input.changes))
            return None if lower is None else with_inputs(of, [lower])
        return of.with_filter_below(plan.condition, frozenset(plan.condition.meta.root_names()))
