"""Whether a column of a plan may be null."""

from __future__ import annotations

import polars as pl

from rheos.sql.grouped_plans import Aggregate, Distinct
from rheos.sql.joined_plans import JoinPlan
from rheos.sql.plan import CallPlan, Filter, PlanNode, Project, Retract, Scan, names_of

_NULLS_ON = {"inner": (), "semi": (), "anti": (), "left": (1,), "right": (0,), "full": (0, 1)}
"""Sides whose columns a join sets to null in rows without a partner."""


def may_be_null(plan: PlanNode, expr: pl.Expr) -> bool:
    """Return whether an expression of a plan's columns may be null. The answer is no only for columns
    that are declared NOT NULL or filtered."""
    if not expr.meta.undo_aliases().meta.is_column():
        return bool(expr.meta.root_names()) or bool(pl.select(expr).to_series().null_count())
    name = expr.meta.root_names()[0]
    match plan:
        case Scan():
            return bool(plan.stream.schema.field(name).nullable)
        case Filter() if plan.condition.meta.eq(pl.col(name).is_not_null()):
            return False
        case Filter() | Retract() | Distinct() | CallPlan() if name in names_of(plan.input):
            return may_be_null(plan.input, pl.col(name))
        case Aggregate() if name in plan.keys:
            return may_be_null(plan.input, pl.col(name))
        case Project():
            places = [column.name for column in plan.columns]
            return may_be_null(plan.input, plan.exprs[places.index(name)])
        case JoinPlan():
            for place, side in enumerate(plan.upstream()):
                if name in names_of(side):
                    return place in _NULLS_ON[plan.how] or may_be_null(side, pl.col(name))
    return True
