"""The operators of a plan that lead to one of them."""

from __future__ import annotations

from typing import NamedTuple

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator, ToEdge, ToOperator
from rheos.core.protocol.ids import OperatorId


class PlanEdge(NamedTuple):
    """Rows of one operator go to an input of another."""

    sender: OperatorId
    receiver: OperatorId
    port: int


def ways(plan: PhysicalPlan) -> list[PlanEdge]:
    heads = {chain.id: chain.operators[0].id for chain in plan.chains}
    edges = {edge.id: (heads[edge.target], edge.target_port) for edge in plan.edges}
    found: list[PlanEdge] = []
    for chain in plan.chains:
        for each in chain.operators:
            for route in (route for routes in each.routes.values() for route in routes):
                match route:
                    case ToOperator(index):
                        found.append(PlanEdge(each.id, chain.operators[index].id, 0))
                    case ToEdge(edge):
                        found.append(PlanEdge(each.id, *edges[edge]))
    return found


def ahead_of(plan: PhysicalPlan, planned: PlannedOperator) -> set[OperatorId]:
    """All operators that lead to it. Raises ConfigurationError where it does so itself."""
    all_ways = ways(plan)
    found: set[OperatorId] = set()
    left = {planned.id}
    while left:
        left = {way.sender for way in all_ways if way.receiver in left} - found
        found |= left
    if planned.id in found:
        raise ConfigurationError(
            "the operator is part of a loop: its input depends on its output",
            site=planned.site,
            operator=planned.name,
            hint="debug one before or after the loop, or simulate the program: rheos.testing.simulate",
        )
    return found
