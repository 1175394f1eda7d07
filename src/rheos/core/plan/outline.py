"""Outline of a plan as data, for readers without the program: operators, chains and edges."""

from __future__ import annotations

import msgspec

from rheos.core.graph.types import describe
from rheos.core.plan.physical import Edge, PhysicalPlan, PlannedOperator, ToEdge
from rheos.core.protocol.elements import visible


class OutlinedOperator(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    site: str
    """File and line in the user's program."""
    note: str
    outputs: dict[str, str]
    """Columns of each output that is read, by its tag."""


class OutlinedChain(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    operators: list[OutlinedOperator]
    subtasks: int
    """Number of subtasks that have rows, at the job's first parallelism."""


class OutlinedEdge(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: str
    """Sending chain."""
    sender: str
    """Operator of that chain whose rows the edge carries."""
    target: str
    """Receiving chain."""
    exchange: str
    keys: list[str]
    feedback: bool


class PlanOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Chains in topological order. The ids are the same as in the labels of metrics."""

    name: str
    parallelism: int
    max_parallelism: int
    chains: list[OutlinedChain]
    edges: list[OutlinedEdge]

    @classmethod
    def of(cls, plan: PhysicalPlan) -> PlanOutline:
        return cls(
            name=plan.name,
            parallelism=plan.parallelism,
            max_parallelism=plan.max_parallelism,
            chains=[
                OutlinedChain(
                    id=str(chain.id),
                    operators=[_operator(operator) for operator in chain.operators],
                    subtasks=plan.width(chain.id),
                )
                for chain in plan.chains
            ],
            edges=[_edge(edge, plan) for edge in plan.edges],
        )


def _operator(operator: PlannedOperator) -> OutlinedOperator:
    return OutlinedOperator(
        id=operator.id,
        name=operator.name,
        site=str(operator.site),
        note=operator.note,
        outputs={tag: describe(visible(output.schema)) for tag, output in operator.outputs.items()},
    )


def _edge(edge: Edge, plan: PhysicalPlan) -> OutlinedEdge:
    sender = next(
        operator.id
        for operator in plan.chains[edge.source].operators
        for routes in operator.routes.values()
        if any(isinstance(route, ToEdge) and route.edge == edge.id for route in routes)
    )
    return OutlinedEdge(
        id=str(edge.id),
        source=str(edge.source),
        sender=sender,
        target=str(edge.target),
        exchange=edge.exchange.value,
        keys=list(edge.keys),
        feedback=edge.feedback,
    )
