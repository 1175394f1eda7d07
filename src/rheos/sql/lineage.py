"""Lineage of the columns of a query: the source columns of their values, without those of conditions
that choose rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from rheos.sql.plan import PlanNode


def lineage(sinks: Iterable[tuple[str, PlanNode]]) -> str:
    """A line for each column that is written, with the columns that it is made of."""
    lines = []
    for name, plan in sinks:
        found = plan.origins()
        for column in plan.columns:
            of = ", ".join(f"{table}.{each}" for table, each in sorted(found[column.name]))
            lines.append(f"  {name}.{column.name} from {of or 'no column'}")
    return "".join(f"{line}\n" for line in (["Lineage of columns:", *lines] if lines else []))
