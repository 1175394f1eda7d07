"""Pruning of columns: plans without the columns that no later step reads.

    join on auction                            join on auction
      bids (auction, price, channel, ts)  =>     project auction, price
                                                   bids
      sales                                      ...

Fewer columns are then sent between subtasks, and fewer are buffered in joins. Columns that identify an
operator's state are kept: the keys and aggregates of groups, and all columns of DISTINCT rows. So are
columns that order rows with equal times in a frame or in the first rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from rheos.sql.joined_plans import JoinPlan
from rheos.sql.plan import Filter, Names, PlanNode, Project, Scan, names_of, with_inputs
from rheos.sql.plan_numbers import PlanNumbers


def narrowed(roots: Sequence[PlanNode]) -> list[PlanNode]:
    """Return the queries without unread columns. They may share parts: a part with several readers has
    the columns of all."""
    narrowing = _Narrowing(roots)
    return [narrowing.made(root) for root in roots]


def read_of_tables(root: PlanNode) -> dict[str, list[str]]:
    """Return the columns that a query reads from each table, in the table's order."""
    narrowing = _Narrowing([root])
    found: dict[str, list[str]] = {}
    for scan in _scans(root):
        needed = narrowing.needed(scan) | {*found.get(scan.name, ())}
        found[scan.name] = [column.name for column in scan.columns if column.name in needed]
    return found


def _scans(plan: PlanNode) -> list[Scan]:
    if isinstance(plan, Scan):
        return [plan]
    return [scan for each in plan.upstream() for scan in _scans(each)]


class _Narrowing:
    def __init__(self, roots: Sequence[PlanNode]) -> None:
        self._numbers = PlanNumbers()
        self._needed: dict[int, Names] = {}
        self._made: dict[int, PlanNode] = {}
        for root in roots:
            self._need(root, names_of(root))

    def needed(self, plan: PlanNode) -> Names:
        return self._needed[self._numbers.number(plan)]

    def _need(self, plan: PlanNode, names: Names) -> None:
        """Record that these columns of a plan are read."""
        number = self._numbers.number(plan)
        known = self._needed.get(number, frozenset())
        if known and names <= known:
            return
        self._needed[number] = names | known
        for each, wanted in zip(plan.upstream(), self._wanted(plan), strict=True):
            self._need(each, wanted)

    def _wanted(self, plan: PlanNode) -> list[Names]:
        """Return the columns that a plan reads of each of its inputs."""
        looked_at = plan.looked_at(self.needed(plan))
        return [
            _select_names(each, names) for each, names in zip(plan.upstream(), looked_at, strict=True)
        ]

    def made(self, plan: PlanNode) -> PlanNode:
        number = self._numbers.number(plan)
        if number not in self._made:
            self._made[number] = self._narrow(plan)
        return self._made[number]

    def _narrow(self, plan: PlanNode) -> PlanNode:
        if isinstance(plan, Project):
            return self._projected(plan)
        inputs = [self.made(each) for each in plan.upstream()]
        if not isinstance(plan, Filter):
            inputs = [
                _carrying(each, wanted) for each, wanted in zip(inputs, self._wanted(plan), strict=True)
            ]
        return _narrow_step(plan, inputs)

    def _projected(self, plan: Project) -> PlanNode:
        needed = self.needed(plan)
        kept = [
            (expr, column)
            for expr, column in zip(plan.exprs, plan.columns, strict=True)
            if column.name in needed
        ]
        exprs, columns = tuple(expr for expr, _ in kept), tuple(column for _, column in kept)
        input = self.made(plan.input)
        plain = all(expr.meta.is_column() for expr in exprs)
        if plain and columns == input.columns and plan.changes == input.changes:
            return input
        return replace(plan, input=input, exprs=exprs, columns=columns)


def _select_names(plan: PlanNode, names: Names) -> Names:
    """Return these columns of a plan, and those that identify its changes; at least one column."""
    found = names & names_of(plan)
    if plan.changes is not None:
        found |= {*plan.changes.key}
    return found or frozenset([plan.columns[0].name])


def _carrying(plan: PlanNode, wanted: Names) -> PlanNode:
    """Return the rows with only the wanted columns, if a step passes all its columns through."""
    columns = tuple(column for column in plan.columns if column.name in wanted)
    if len(columns) == len(plan.columns):
        return plan
    return Project(plan, tuple(pl.col(column.name) for column in columns), columns, plan.changes)


def _narrow_step(plan: PlanNode, inputs: Sequence[PlanNode]) -> PlanNode:
    """Return the step over narrowed inputs: it passes their columns through, and adds its own."""
    before = {column.name for each in plan.upstream() for column in each.columns}
    left = {column.name for each in inputs for column in each.columns}
    gone = before - left
    made = with_inputs(plan, inputs)
    columns = tuple(column for column in plan.columns if column.name not in gone)
    if isinstance(made, JoinPlan):
        width = sum(column.name not in gone for column in plan.columns[: made.width])
        return replace(made, columns=columns, width=width)
    return replace(made, columns=columns)
