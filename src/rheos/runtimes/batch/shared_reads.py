"""Merges chains that read the same rows, so that a task reads the rows once for all of them.

    source a ─┬─ filter 1 ─ sink         source a ─┬─ union ─┬─ filter 1 ─ sink
    source b ─┼─ filter 2 ─ sink   >     source b ─┘         └─ filter 2 ─ sink

The planner begins a chain at every reader of a union. In the continuous runtime these share a slot. In
a batch job, each would have tasks of its own, one for each partition of each source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OutputType
from rheos.core.operators.union import UnionSpec
from rheos.core.plan.physical import (
    Chain,
    Edge,
    Exchange,
    PhysicalPlan,
    PlannedOperator,
    Route,
    ToEdge,
    ToOperator,
)
from rheos.core.protocol.ids import ChainId, OperatorId

_Reader = tuple[int | None, tuple[tuple[OperatorId, str, int], ...]]
"""A chain's parallelism, and the outputs that it reads with their ports."""


def with_shared_reads(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan in which chains that read the same outputs by forward edges are merged."""
    groups = _groups(plan)
    if all(len(group) == 1 for group in groups):
        return plan
    number = {chain.id: ChainId(at) for at, group in enumerate(groups) for chain in group}
    kept = {edge for group in groups for edge in group[0].inputs}
    edges = tuple(
        replace(edge, source=number[edge.source], target=number[edge.target])
        for edge in plan.edges
        if edge.id in kept
    )
    chains = (_joined(group, ChainId(at)) for at, group in enumerate(groups))
    return replace(plan, chains=tuple(_drop_routes(chain, kept) for chain in chains), edges=edges)


def _groups(plan: PhysicalPlan) -> list[list[Chain]]:
    """Return the groups in topological order: the inputs of siblings precede the first of them."""
    outputs = {
        route.edge: (operator.id, tag)
        for operator in plan.operators()
        for tag, routes in operator.routes.items()
        for route in routes
        if isinstance(route, ToEdge)
    }
    groups: list[list[Chain]] = []
    readers: dict[_Reader, list[Chain]] = {}
    for chain in plan.chains:
        edges = [edge for edge in plan.edges if edge.target == chain.id]
        if not edges or not _are_equivalent(chain, edges):
            groups.append([chain])
            continue
        rows = tuple(sorted((*outputs[edge.id], edge.target_port) for edge in edges))
        group = readers.setdefault((chain.widest, rows), [])
        if not group:
            groups.append(group)
        group.append(chain)
    return groups


def _are_equivalent(chain: Chain, edges: Sequence[Edge]) -> bool:
    """Return whether all edges are equivalent: the chain has one port, and only forward edges."""
    return len(chain.operators[0].ports) == 1 and all(
        edge.exchange is Exchange.FORWARD for edge in edges
    )


def _joined(group: Sequence[Chain], id: ChainId) -> Chain:
    if len(group) == 1:
        return replace(group[0], id=id)
    first = group[0].operators[0]
    operators: list[PlannedOperator] = []
    heads: list[Route] = []
    for chain in group:
        begins = 1 + len(operators)
        heads.append(ToOperator(begins))
        operators += [_shifted(operator, begins) for operator in chain.operators]
    union = PlannedOperator(
        id=OperatorId(f"before {first.id}"),
        name="union",
        site=first.site,
        spec=UnionSpec(),
        ports=first.ports,
        outputs={MAIN: OutputType(first.ports[0].type, first.ports[0].schema)},
        routes={MAIN: tuple(heads)},
    )
    return replace(group[0], id=id, operators=(union, *operators))


def _shifted(operator: PlannedOperator, by: int) -> PlannedOperator:
    def moved(route: Route) -> Route:
        return ToOperator(route.index + by) if isinstance(route, ToOperator) else route

    return replace(
        operator, routes={tag: tuple(map(moved, routes)) for tag, routes in operator.routes.items()}
    )


def _drop_routes(chain: Chain, kept: set[int]) -> Chain:
    """Return the chain without routes to edges that have no reader any more."""

    def stays(route: Route) -> bool:
        return not isinstance(route, ToEdge) or route.edge in kept

    return replace(
        chain,
        operators=tuple(
            replace(
                operator,
                routes={tag: tuple(filter(stays, routes)) for tag, routes in operator.routes.items()},
            )
            for operator in chain.operators
        ),
    )
