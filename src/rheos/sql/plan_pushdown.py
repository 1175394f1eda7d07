"""Pushdown of filters and projections, as far as possible.

A pass from plans to plans, between the planner and the lowering. Queries of one job are passed
together: a plan that several of them read is computed once, with the columns that all of them need.
Filters are pushed first, because columns that only they read are not needed after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rheos.sql.filter_pushdown import filters_down
from rheos.sql.needed_columns import narrowed
from rheos.sql.plan import PlanNode


def pushed(roots: Sequence[PlanNode]) -> list[PlanNode]:
    """Return the same queries, with the same columns, after pushdown."""
    return narrowed(filters_down(roots))
