"""Which columns of a source a plan needs.

Needed is what an operator looks at or hands out of the job. A column that only travels, and that
nothing behind looks at, is not: the batch runtime leaves it unread and has it travel as nulls.

    source a b c d ─ filter(c > 1) ─ key_by(a) ─ window: sum(b)        needs a, b, c

Expressions are evaluated whether or not their result is needed, for they may fail: what they read is
needed. Functions see whole records, so they and the sinks need all columns of their input.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.graph.types import columns_read
from rheos.core.operators.event_time import EventTimeSpec
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.running import RunningSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.operators.union import UnionSpec
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator, ToOperator
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import ChainId


def needed_columns(plan: PhysicalPlan, chain: Chain) -> frozenset[str]:
    """The visible columns of the source at the head of `chain` that anything needs."""
    needs = _Needs(plan)
    head = chain.operators[0]
    assert isinstance(head.spec, SourceSpec)
    needed = needs.of_output(chain.id, head, MAIN)
    strategy = head.spec.watermark
    if strategy is None:
        return needed
    return needed | strategy.columns_read(visible(head.outputs[MAIN].schema))


class _Needs:
    """What is needed of the inputs and outputs of a plan's operators, from the sinks backwards."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._edges = {edge.id: edge for edge in plan.edges}
        self._known: dict[tuple[ChainId, int, int], frozenset[str]] = {}

    def of_output(self, chain: ChainId, operator: PlannedOperator, tag: str) -> frozenset[str]:
        needed: frozenset[str] = frozenset()
        for route in operator.routes.get(tag, ()):
            if isinstance(route, ToOperator):
                needed |= self._of_input(chain, route.index, 0)
            elif route.edge in self._edges:
                edge = self._edges[route.edge]
                needed |= self._of_input(edge.target, 0, edge.target_port).union(edge.keys)
                if isinstance(edge.dealt, PartitionBy):
                    columns = visible(operator.outputs[tag].schema)
                    by = edge.dealt.expression(self._plan.width(edge.target))
                    needed |= set(edge.dealt.on) if by is None else columns_read([by], columns.names)
            else:
                # It leaves the plan.
                needed |= frozenset(visible(operator.outputs[tag].schema).names)
        return needed

    def _of_input(self, chain: ChainId, index: int, port: int) -> frozenset[str]:
        at = (chain, index, port)
        if at not in self._known:
            self._known[at] = self._looked_at(chain, self._plan.chains[chain].operators[index], port)
        return self._known[at]

    def _looked_at(self, chain: ChainId, operator: PlannedOperator, port: int) -> frozenset[str]:
        given = operator.ports[port]
        columns = visible(given.schema)
        everything = frozenset(columns.names)
        spec = operator.spec
        match spec:
            case EventTimeSpec(watermark=watermark):
                return self.of_output(chain, operator, MAIN) | watermark.columns_read(columns)
            case ExpressionSpec(op="filter"):
                return columns_read(spec.exprs, columns.names) | self.of_output(chain, operator, MAIN)
            case ExpressionSpec():
                behind = self.of_output(chain, operator, MAIN)
                computed = [expr for expr in spec.exprs if not expr.meta.is_column()]
                if spec.op == "with_columns":
                    behind -= _names_given(computed, everything)
                return columns_read(computed, columns.names) | (behind & everything)
            case RunningSpec(aggregates=aggregates):
                behind = self.of_output(chain, operator, MAIN) & everything
            case WindowSpec(aggregates=aggregates, fn=None, late_tag=late):
                behind = frozenset() if late is None else self.of_output(chain, operator, late)
            case UnionSpec():
                return self.of_output(chain, operator, MAIN)
            case _:
                return everything
        # An aggregate may read hidden columns, too, which are not pruned.
        read = everything & {name for each in aggregates.values() for name in each.columns}
        return behind.union(read, given.keys)


def _names_given(exprs: Iterable[pl.Expr], columns: frozenset[str]) -> frozenset[str]:
    """The columns that these expressions surely replace."""
    names = [
        expr.meta.output_name(raise_if_undetermined=False)
        for expr in exprs
        if not expr.meta.has_multiple_outputs()
    ]
    return columns.intersection(name for name in names if name is not None)
