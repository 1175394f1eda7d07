"""Filters and projections of queries, moved to where they spare most.

A pass from plans to plans, behind the planner and ahead of the lowering. Queries that become one job
are given together: what several of them read is computed once, with the columns that all of them need.
Filters go first, as what only they look at is needed no further than to where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from rheos.sql.columns_needed import narrowed
from rheos.sql.filters_down import filters_down
from rheos.sql.plan import Plan


def pushed(roots: Sequence[Plan]) -> list[Plan]:
    """The same queries, with the same columns."""
    return narrowed(filters_down(roots))
