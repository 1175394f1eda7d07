"""Filters as near to the sources as the meaning of a query allows.

    filter price > 3                      join
      join                        =>        filter price > 3
        bids                                  bids
        sales                               sales

A filter stays above what gives other rows where some of its input are left out: groups and sides of
joins that it says more of than their keys, numbers of rows, frames, patterns, versions. It stays above
what others read, too, so that what several queries ask for is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import polars as pl

from rheos.core.graph.expression_trees import Tree, expression_of, tree_of
from rheos.sql.plan import (
    Aggregate,
    AsOfTime,
    CallPlan,
    Distinct,
    Explode,
    Filter,
    JoinPlan,
    LookupPlan,
    MatchPlan,
    OverPlan,
    Plan,
    Project,
    Ranked,
    Retract,
    Scan,
    TopN,
    Union,
    ValueRows,
    Windowed,
    filtered,
    inputs_of,
    names_of,
    with_inputs,
)
from rheos.sql.sharing import PlanNumbers


def filters_down(roots: Sequence[Plan]) -> list[Plan]:
    """The same queries, which may share parts."""
    pushing = _Pushing(roots)
    return [pushing.made(root) for root in roots]


class _Pushing:
    def __init__(self, roots: Sequence[Plan]) -> None:
        self._numbers = PlanNumbers()
        self._made: dict[int, Plan] = {}
        self._readers: dict[int, set[int]] = {}
        """The numbers of the plans that read one; of the roots those of nobody."""
        for place, root in enumerate(roots, 1):
            self._note(root, -place)

    def _note(self, plan: Plan, reader: int) -> None:
        number = self._numbers.number(plan)
        known = self._readers.setdefault(number, set())
        seen = bool(known)
        known.add(reader)
        if not seen:
            for each in inputs_of(plan):
                self._note(each, number)

    def made(self, plan: Plan) -> Plan:
        number = self._numbers.number(plan)
        if number not in self._made:
            self._made[number] = self._pushed(plan)
        return self._made[number]

    def _pushed(self, plan: Plan) -> Plan:
        lower = self._lower(plan) if isinstance(plan, Filter) else None
        if lower is not None:
            return self.made(lower)
        return with_inputs(plan, [self.made(each) for each in inputs_of(plan)])

    def _lower(self, plan: Filter) -> Plan | None:
        """The filter below what it filters; None where it stays above."""
        of = plan.input
        shared = len(self._readers.get(self._numbers.number(of), ())) > 1
        if plan.pinned or shared or plan.changes != of.changes:
            return None
        if isinstance(of, Filter):
            # Both are asked of the same rows, in whichever order.
            lower = self._lower(replace(plan, input=of.input, changes=of.input.changes))
            return None if lower is None else with_inputs(of, [lower])
        return _below(of, plan.condition)


def _below(plan: Plan, condition: pl.Expr) -> Plan | None:
    """Return the plan with the filter applied to its input; None if the filter cannot be moved
    there.
    """
    read = {*condition.meta.root_names()}
    match plan:
        case Project():
            lower = _renamed(condition, read, plan)
            return None if lower is None else _filtering(plan, 0, lower)
        case Union():
            return with_inputs(plan, [filtered(each, condition) for each in plan.inputs])
        case Distinct():
            return _filtering(plan, 0, condition)
        case Aggregate():
            of_keys = read and read <= {*plan.keys}
            return _filtering(plan, 0, condition) if of_keys else None
        case Windowed() | CallPlan() | Explode() | LookupPlan():
            return _filtering(plan, 0, condition) if read <= names_of(plan.input) else None
        case JoinPlan():
            return _below_join(plan, condition, read) if read else None
        case Scan() | ValueRows() | Filter() | Retract() | TopN() | Ranked() | OverPlan() | MatchPlan():
            return None
        case _:
            assert_never(plan)


def _below_join(plan: JoinPlan, condition: pl.Expr, read: set[str]) -> Plan | None:
    """Into the side that all of its columns are of, where that side is not filled up with nulls."""
    if read <= names_of(plan.left) and plan.how in ("inner", "left"):
        return _filtering(plan, 0, condition)
    if read <= names_of(plan.right) and plan.how in ("inner", "right"):
        # The version of a time is that of all rows.
        return None if isinstance(plan.meeting, AsOfTime) else _filtering(plan, 1, condition)
    return None


def _filtering(plan: Plan, place: int, condition: pl.Expr) -> Plan | None:
    """The plan with one of its inputs filtered. Rows that change are so where no state is needed to say
    what they were."""
    inputs = [*inputs_of(plan)]
    before = inputs[place]
    after = filtered(before, condition)
    if isinstance(after, Filter) and after.input is not before:
        return None
    if before.changes is not None and not isinstance(plan, Project):
        return None
    inputs[place] = after
    return with_inputs(plan, inputs)


# --- names --------------------------------------------------------------------------------------------


def _renamed(condition: pl.Expr, read: set[str], plan: Project) -> pl.Expr | None:
    """The condition by the columns that the projection hands on; None where it reads one that is
    computed."""
    names = {
        column.name: expr.meta.root_names()[0]
        for expr, column in zip(plan.exprs, plan.columns, strict=True)
        if column.name in read and expr.meta.undo_aliases().meta.is_column()
    }
    if names.keys() != read:
        return None
    if all(name == before for name, before in names.items()):
        return condition
    tree = tree_of(condition)
    # A tree does not hold every literal.
    if tree is None or not expression_of(tree).meta.eq(condition):
        return None
    return expression_of(_with_names(tree, names))


def _with_names(tree: Tree, names: Mapping[str, str]) -> Tree:
    match tree:
        case {"Column": str(name)}:
            return {"Column": names[name]}
        case {"Literal": _}:
            return tree
        case dict():
            return {part: _with_names(branch, names) for part, branch in tree.items()}
        case list():
            return [_with_names(branch, names) for branch in tree]
    return tree
