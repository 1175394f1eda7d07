"""The logical plan of a query as a string: its nodes, their columns, and their changelog mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.needed_columns import read_of_tables
from rheos.sql.plan import PlanNode, Scan


def explained(plan: PlanNode) -> str:
    """Return a line for each node, with its inputs below it. For a table, the line has the columns that
    are read."""
    return "\n".join(_lines(plan, 0, read_of_tables(plan))) + "\n"


def _lines(plan: PlanNode, depth: int, read: Mapping[str, Sequence[str]]) -> Iterator[str]:
    columns = ", ".join(f"{column.name} {types.name(column.type)}" for column in plan.columns)
    of_it = ""
    if isinstance(plan, Scan) and len(read[plan.name]) < len(plan.columns):
        of_it = f", reads columns {', '.join(read[plan.name])}"
    yield f"{'  ' * depth}{plan.summary()}{of_it}"
    yield f"{'  ' * depth}  emits {row_mode(plan.changes)}: {columns}"
    for each in plan.upstream():
        yield from _lines(each, depth + 1, read)


def row_mode(changes: Changes | None) -> str:
    """Return the changelog mode of rows."""
    if changes is None:
        return "append-only"
    kind = "retractions" if changes.retracts else "upserts"
    return f"{kind} by {', '.join(changes.key)}" if changes.key else kind
