"""Filters out the rows of other keys upstream of the operator. The filter is as close to the source as
possible: the program shows that the key's columns do not change after it.

All rows of a split decide its event time, so the filter is downstream of the operator that assigns it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from rheos.core.errors import ConfigurationError
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, Out, Restored
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator, ToEdge, ToOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import OperatorId
from rheos.core.state.keys import Key
from rheos.ops.debugging.debugged_key import KeyOfOperator, keyed_by, rows_of_key


class PlanEdge(NamedTuple):
    """An edge from one operator to an input of another."""

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
    """Return all operators upstream of it. Raise ConfigurationError if it is upstream of itself."""
    all_ways = ways(plan)
    found: set[OperatorId] = set()
    left = {planned.id}
    while left:
        left = {way.sender for way in all_ways if way.receiver in left} - found
        found |= left
    if planned.id in found:
        raise ConfigurationError(
            "the operator is part of a loop, so its input depends on its output",
            site=planned.site,
            operator=planned.name,
            hint="debug an operator before or after the loop, or simulate the program: "
            "rheos.testing.simulate",
        )
    return found


def early(
    plan: PhysicalPlan, keyed: KeyOfOperator, before: Collection[OperatorId]
) -> dict[OperatorId, OperatorSpec]:
    """Return specs that replace those of some upstream operators, and drop the rows of other keys."""
    concerned = {*before, keyed.planned.id}
    counted = [way for way in ways(plan) if way.receiver in concerned]
    operators = {each.id: each for each in plan.operators()}
    found: dict[OperatorId, OperatorSpec] = {}
    for port, of_port in keyed_by(keyed.planned):
        first: PlannedOperator | None = None
        at = keyed.planned.id
        while (sender := _only_sender(counted, at, port)) is not None:
            if not operators[sender].spec.keeps_columns(of_port.keys):
                break
            first, at, port = operators[sender], sender, 0
        if first is not None:
            found[first.id] = _EarlyFilterSpec(first.spec, of_port.keys, keyed.key)
    return found


def _only_sender(counted: Collection[PlanEdge], to: OperatorId, port: int) -> OperatorId | None:
    """Return the only sender of a port, if it has no other receivers; else None."""
    senders = [way.sender for way in counted if (way.receiver, way.port) == (to, port)]
    if len(senders) != 1:
        return None
    (sender,) = senders
    return sender if sum(way.sender == sender for way in counted) == 1 else None


@dataclass(frozen=True)
class _EarlyFilterSpec(OperatorSpec):
    inner: OperatorSpec
    columns: tuple[str, ...]
    key: Key

    kind: ClassVar[str] = "early"

    def operator(self, ctx: OperatorContext) -> Operator:
        return _EarlyFilter(ctx, self)


class _EarlyFilter(Operator):
    """An operator that filters the input of an operator without state."""

    def __init__(self, ctx: OperatorContext, spec: _EarlyFilterSpec) -> None:
        super().__init__(ctx)
        self._inner = spec.inner.operator(ctx)
        self._port = replace(ctx.ports[0], keys=spec.columns)
        self._key = spec.key

    def open(self, restored: Restored) -> None:
        self._inner.open(restored)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        rows = rows_of_key(batch, self._port, self._key)
        return self._inner.on_batch(port, rows) if rows.num_rows else iter(())

    def close_function(self) -> None:
        self._inner.close_function()

    def close(self) -> None:
        self._inner.close()
