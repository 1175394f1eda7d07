"""Lineage of the columns of a query: the source columns of their values, without those of conditions
that choose rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, assert_never

import polars as pl

from rheos.sql.plan import (
    Aggregate,
    CallPlan,
    ColumnRole,
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
    inputs_of,
)
from rheos.sql.windows import WINDOW_COLUMNS

Origin: TypeAlias = tuple[str, str]
"""A table, and a column of it."""
Origins: TypeAlias = Mapping[str, frozenset[Origin]]
"""By column."""

_NONE: frozenset[Origin] = frozenset()


def origins(plan: Plan) -> Origins:
    """Return the origins of each column of a plan."""
    match plan:
        case Scan():
            return {each.name: frozenset([(plan.name, each.name)]) for each in plan.columns}
        case ValueRows():
            return {each.name: _NONE for each in plan.columns}
        case Filter() | Retract() | Distinct():
            return origins(plan.input)
        case Project():
            of = origins(plan.input)
            named = zip(plan.columns, plan.exprs, strict=True)
            return {column.name: _read(of, expr) for column, expr in named}
        case Union():
            return _merged(map(origins, plan.inputs))
        case Windowed():
            of = origins(plan.input)
            return {each.name: of.get(each.name, of[plan.time]) for each in plan.columns}
        case Aggregate():
            of = origins(plan.input)
            found = {key: of[key] for key in plan.keys}
            if plan.window is not None:
                found |= dict.fromkeys((each.name for each in WINDOW_COLUMNS), _of_time(plan.input))
            for name, agg in plan.aggregates:
                columns = agg.meta.root_names() if isinstance(agg, pl.Expr) else agg.columns
                found[name] = _all(of, columns)
            return {each.name: found.get(each.name, _NONE) for each in plan.columns}
        case Ranked() | TopN():
            of = origins(plan.input)
            ranked = _all(of, [*plan.keys, plan.by])
            return {
                each.name: ranked if each.name == plan.rank else of.get(each.name, _NONE)
                for each in plan.columns
            }
        case OverPlan():
            of = dict(origins(plan.input))
            over = zip(plan.over.results, plan.over.arguments, strict=True)
            of |= {result: of[argument] for result, argument in over}
            return {each.name: of.get(each.name, _NONE) for each in plan.columns}
        case JoinPlan():
            sides = [plan.left] * plan.width + [plan.right] * (len(plan.columns) - plan.width)
            # Columns of windows that both sides share are made where they meet.
            return {
                each.name: origins(side).get(each.name, _of_time(side))
                for each, side in zip(plan.columns, sides, strict=True)
            }
        case LookupPlan():
            of = origins(plan.input)
            added = {name: frozenset([(plan.lookup.describe(), theirs)]) for name, theirs in plan.added}
            return {each.name: added.get(each.name) or of[each.name] for each in plan.columns}
        case MatchPlan():
            # The rows of a variable are not distinguished.
            of = origins(plan.input)
            rows = _all(of, of)
            keys = {key: of[key] for key in plan.keys}
            return {each.name: keys.get(each.name, rows) for each in plan.columns}
        case CallPlan():
            of = origins(plan.input)
            made = _all(of, plan.spec.arguments)
            return {each.name: of.get(each.name, made) for each in plan.columns}
        case Explode():
            of = origins(plan.input)
            return {each.name: of.get(each.name, of[plan.column]) for each in plan.columns}
        case _:
            assert_never(plan)


def lineage(sinks: Iterable[tuple[str, Plan]]) -> str:
    """A line for each column that is written, with the columns that it is made of."""
    lines = []
    for name, plan in sinks:
        found = origins(plan)
        for column in plan.columns:
            of = ", ".join(f"{table}.{each}" for table, each in sorted(found[column.name]))
            lines.append(f"  {name}.{column.name} from {of or 'no column'}")
    return "".join(f"{line}\n" for line in (["Lineage of columns:", *lines] if lines else []))


def _of_time(plan: Plan) -> frozenset[Origin]:
    """Return the origins of the rows' event time, which need not be one of their columns any more."""
    of = origins(plan)
    for each in plan.columns:
        if each.role in (ColumnRole.EVENT_TIME, ColumnRole.WINDOW_TIME):
            return of[each.name]
    return frozenset(origin for each in inputs_of(plan) for origin in _of_time(each))


def _read(of: Origins, expr: pl.Expr) -> frozenset[Origin]:
    return _all(of, expr.meta.root_names())


def _all(of: Origins, columns: Iterable[str]) -> frozenset[Origin]:
    return frozenset(origin for each in columns for origin in of.get(each, _NONE))


def _merged(of_each: Iterable[Origins]) -> Origins:
    found: dict[str, frozenset[Origin]] = {}
    for of in of_each:
        for name, from_ in of.items():
            found[name] = found.get(name, _NONE) | from_
    return found
