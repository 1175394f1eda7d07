"""Lineage of the columns of a query: the source columns of their values, without those of conditions
that choose rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rheos.sql.plan import PlanNode


def origins_of(
    sinks: Iterable[tuple[str, PlanNode]],
) -> Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]:
    """Return, for each written table and each of its columns, the source columns of its values, as
    table and column."""
    written: dict[str, dict[str, Sequence[tuple[str, str]]]] = {}
    for name, plan in sinks:
        found = plan.origins()
        written[name] = {column.name: sorted(found[column.name]) for column in plan.columns}
    return written


def lineage(sinks: Iterable[tuple[str, PlanNode]]) -> str:
    """Return a line for each written column, with the source columns of its values."""
    lines = []
    for name, plan in sinks:
        for column, found in origins_of([(name, plan)])[name].items():
            of = ", ".join(f"{table}.{each}" for table, each in found)
            lines.append(f"  {name}.{column} from {of or 'no column'}")
    return "".join(f"{line}\n" for line in (["Lineage of columns:", *lines] if lines else []))
