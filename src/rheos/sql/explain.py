"""The logical plan of a query as a string: its nodes, their columns, and their changelog mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from rheos.core.graph.changelog import Changes
from rheos.core.graph.render import spell_expression
from rheos.sql import types
from rheos.sql.columns_needed import read_of_tables
from rheos.sql.plan import (
    Aggregate,
    AllRows,
    AsOfTime,
    CallPlan,
    CloseInTime,
    Distinct,
    Explode,
    Filter,
    InOneWindow,
    JoinPlan,
    LookupPlan,
    MatchPlan,
    Meeting,
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


def explained(plan: Plan) -> str:
    """A line for each node, its inputs below it; of a table which of its columns are read."""
    return "\n".join(_lines(plan, 0, read_of_tables(plan))) + "\n"


def _lines(plan: Plan, depth: int, read: Mapping[str, Sequence[str]]) -> Iterator[str]:
    columns = ", ".join(f"{column.name} {types.name(column.type)}" for column in plan.columns)
    of_it = ""
    if isinstance(plan, Scan) and len(read[plan.name]) < len(plan.columns):
        of_it = f", of which are read {', '.join(read[plan.name])}"
    yield f"{'  ' * depth}{_node(plan)}{of_it}"
    yield f"{'  ' * depth}  gives {row_mode(plan.changes)}: {columns}"
    for each in inputs_of(plan):
        yield from _lines(each, depth + 1, read)


def row_mode(changes: Changes | None) -> str:
    """Return the changelog mode of rows."""
    if changes is None:
        return "append"
    kind = "retract" if changes.retracts else "upsert"
    return f"{kind} by {', '.join(changes.key)}" if changes.key else kind


def _node(plan: Plan) -> str:
    match plan:
        case Scan():
            return f"table {plan.name}"
        case ValueRows():
            return f"values ({plan.table.num_rows} rows)"
        case Filter():
            return f"filter {spell_expression(plan.condition)}"
        case Project():
            named = zip(plan.exprs, plan.columns, strict=True)
            computed = [
                f"{column.name} = {spell_expression(expr)}"
                for expr, column in named
                if not expr.meta.is_column() or expr.meta.output_name() != column.name
            ]
            return f"project {', '.join(computed)}".rstrip()
        case CallPlan():
            return f"call {plan.spec.summary()}"
        case Explode():
            return f"explode {plan.column}"
        case Retract():
            return "say what rows were"
        case Union():
            return "union all"
        case Windowed():
            return f"windows {plan.window!r} by {plan.time}"
        case Aggregate():
            of = ", ".join(f"{name} = {agg}" for name, agg in plan.aggregates)
            window = "" if plan.window is None else f" in {plan.window!r}"
            return f"aggregate by {', '.join(plan.keys) or 'nothing'}{window}: {of}"
        case Distinct():
            return "distinct"
        case Ranked() | TopN():
            n = "" if isinstance(plan, Ranked) else f" {plan.n}"
            return f"first{n} by {', '.join(plan.keys) or 'nothing'}"
        case OverPlan():
            return f"over {plan.frame} by {', '.join(plan.keys)}: {plan.over}"
        case JoinPlan():
            pairs = zip(plan.keys.left, plan.keys.right, strict=True)
            on = ", ".join(f"{one} = {other}" for one, other in pairs)
            return f"{plan.how} join {_meeting(plan.meeting)} on {on or 'nothing'}"
        case LookupPlan():
            return f"{plan.how} lookup in {plan.lookup.describe()} by {', '.join(plan.on)}"
        case MatchPlan():
            return f"match by {', '.join(plan.keys)}: {plan.pattern}"
        case _:
            assert_never(plan)


def _distance(distance: timedelta) -> str:
    """Python writes a minute back as a day back and 23:59:00 on."""
    return f"{'-' if distance < timedelta(0) else ''}{abs(distance)}"


def _meeting(meeting: Meeting) -> str:
    match meeting:
        case CloseInTime():
            return f"in time ({_distance(meeting.lower)} to {_distance(meeting.upper)})"
        case InOneWindow():
            return "in one window"
        case AsOfTime():
            return "as of the time"
        case AllRows():
            return f"of all rows (kept {meeting.ttl})"
        case _:
            assert_never(meeting)
