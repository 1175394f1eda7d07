"""Detection of equivalent plans, so that rows that several statements read are computed once.

Two plans are equivalent if they have the same kind, equivalent inputs, and the same expressions, names
and types. Streams, tables of values, lookups and functions are equivalent only to themselves: two
functions with equal source code may differ in what they do.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

import polars as pl

from rheos.core.graph.expression_trees import FAILURES
from rheos.sql.plan import PlanNode


class PlanNumbers:
    """Numbers of plans. Equivalent plans have the same number."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PlanNode, int]] = {}
        """Numbers by the id of a plan. The plan is kept, so that its id is not reused."""
        self._by_shape: dict[Hashable, int] = {}

    def number(self, plan: PlanNode) -> int:
        known = self._known.get(id(plan))
        if known is None:
            number = self._by_shape.setdefault(self._shape(plan), len(self._by_shape))
            known = self._known[id(plan)] = plan, number
        return known[1]

    def _shape(self, plan: PlanNode) -> Hashable:
        inputs = {id(each): self.number(each) for each in plan.upstream()}
        if plan.calls_user:
            return id(plan)

        def shape(value: Any) -> Hashable:
            if id(value) in inputs:
                return inputs[id(value)]
            match value:
                case pl.Expr():
                    return _of_expression(value)
                case tuple():
                    return tuple(map(shape, value))
                case None | bool() | int() | float() | str() | timedelta() | Enum() | pl.DataType():
                    return type(value), value
                case _ if is_dataclass(value):
                    return type(value), *(shape(getattr(value, each.name)) for each in fields(value))
            return id(value)

        return type(plan), *(shape(getattr(plan, each.name)) for each in fields(plan))


def _of_expression(expr: pl.Expr) -> Hashable:
    try:
        return expr.meta.serialize()
    except FAILURES:
        return id(expr)
