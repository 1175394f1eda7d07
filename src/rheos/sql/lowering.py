"""Plan to streams: each node by the method of streams that computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import polars as pl

from rheos.connectors.collection import CollectionSource
from rheos.graph.changes import OP
from rheos.sql.plan import Filter, Plan, Project, Retract, Scan, Union, ValueRows

if TYPE_CHECKING:
    from rheos.api.environment import Environment
    from rheos.api.streams import DataStream


class Lowering:
    """Makes the streams of plans in one environment. A plan that is met again is the stream it was."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._made: dict[int, tuple[Plan, DataStream]] = {}

    def stream(self, plan: Plan) -> DataStream:
        known = self._made.get(id(plan))
        if known is None:
            # The plan is kept with its stream, so that its id stays its own.
            known = self._made[id(plan)] = plan, self._lowered(plan)
        return known[1]

    def _lowered(self, plan: Plan) -> DataStream:
        match plan:
            case Scan():
                return plan.stream
            case ValueRows():
                return self._env.from_source(CollectionSource(plan.table, None), name="VALUES")
            case Filter():
                return self._filtered(plan)
            case Project():
                return self._projected(plan)
            case Retract():
                return self.stream(plan.input).retractions()
            case Union():
                first, *others = (self.stream(each) for each in plan.inputs)
                return first.union(*others)
            case _:
                assert_never(plan)

    def _filtered(self, plan: Filter) -> DataStream:
        stream = self.stream(plan.input)
        return stream.filter(plan.condition)

    def _projected(self, plan: Project) -> DataStream:
        stream = self.stream(plan.input)
        exprs = [expr.alias(column.name) for expr, column in zip(plan.exprs, plan.columns, strict=True)]
        if plan.changes is None:
            return stream.select(*exprs)
        changed = stream.as_rows().select(*exprs, pl.col(OP))
        return changed._typed(plan.changes)
