"""Lineage of the columns of a query: the source columns of their values, without those of conditions
that choose rows."""

from __future__ import annotations

from collections.abc import Iterable

from rheos.sql.plan import PlanNode


def lineage(sinks: Iterable[tuple[str, PlanNode]]) -> str:
    """Return a line for each written column, with the source columns of its values."""
    lines = []
    for name, plan in sinks:
        found = plan.origins()
        for column in plan.columns:
            of = ", ".join(f"{table}.{each}" for table, each in sorted(found[column.name]))
            lines.append(f"  {name}.{column.name} from {of or 'no column'}")
    return "".join(f"{line}\n" for line in (["Lineage of columns:", *lines] if lines else []))
