"""The logical plan of a query: its operations with typed columns and changelog modes.

A plan is a tree of frozen nodes, each with its output `columns` and its changelog mode: append-only
(`changes` is None), upserts, or changes with retractions. `lowering` turns the plan into streams. Nodes
are compared by identity; `sharing` finds equivalent ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.aggregates import Agg
from rheos.core.connectors.lookup import Lookup
from rheos.core.graph.changelog import Changes
from rheos.core.graph.patterns import PatternTree
from rheos.core.graph.windows import Window
from rheos.core.operators.call import CallSpec
from rheos.core.operators.over.by_time import OverColumns
from rheos.core.operators.over.frames import FrameSpec

if TYPE_CHECKING:
    from rheos.api.joins import TimeToLive
    from rheos.api.streams import DataStream
    from rheos.sql.expressions.table import Typed


class ColumnRole(Enum):
    """Special role of a column."""

    PLAIN = auto()
    EVENT_TIME = auto()
    """The event time of the rows."""
    PROCESSING_TIME = auto()
    """The time of the clock: windows are made of it, and no value is read."""
    WINDOW_START = auto()
    WINDOW_END = auto()
    """End of the row's window."""
    WINDOW_TIME = auto()
    """The last time of it."""
    RANK = auto()
    """The number of a row, which a filter is to bound."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of the rows between two nodes."""

    name: str
    """Name of the column in the stream."""
    type: pl.DataType
    role: ColumnRole = ColumnRole.PLAIN


Columns: TypeAlias = tuple[SqlColumn, ...]


def plain_column(column: SqlColumn) -> SqlColumn:
    """Return the column with the role PLAIN."""
    return replace(column, role=ColumnRole.PLAIN)


@dataclass(frozen=True, eq=False)
class Scan:
    """The rows of a stream that is known by a name."""

    name: str
    stream: DataStream
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class ValueRows:
    """Rows that the SQL contains."""

    table: pa.Table
    columns: Columns
    changes: None = None


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows for which a condition holds."""

    input: Plan
    condition: pl.Expr
    columns: Columns
    changes: Changes | None
    pinned: bool = False
    """It calls a function of the user: it is asked of the rows that come to it, and of no others."""


@dataclass(frozen=True, eq=False)
class Project:
    """New columns, each an expression over one row."""

    input: Plan
    exprs: tuple[pl.Expr, ...]
    """In the order of the columns."""
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class CallPlan:
    """A column more, which a function of the user gives."""

    input: Plan
    spec: CallSpec
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class Explode:
    """A row for each element of a list, whose structs become columns."""

    input: Plan
    column: str
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class Retract:
    """Upserts, with what each row was before."""

    input: Plan
    columns: Columns
    changes: Changes


@dataclass(frozen=True, eq=False)
class Union:
    """The rows of all inputs, which have the same columns."""

    inputs: tuple[Plan, ...]
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class Windowed:
    """Rows with the windows that they are in: what TUMBLE and its like give."""

    input: Plan
    time: str
    """The column of their event time."""
    window: Window
    keys: tuple[str, ...]
    """Partition keys of sessions."""
    columns: Columns
    """Columns of the input, followed by those of the window."""
    changes: None = None


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A row for each key, or for each key and window."""

    input: Plan
    keys: tuple[str, ...]
    """None: all rows are of one key."""
    aggregates: tuple[tuple[str, Agg | pl.Expr], ...]
    window: Window | None
    columns: Columns
    """The keys, the window's, and the aggregates."""
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class Distinct:
    """Each row once, of rows that stay."""

    input: Plan
    columns: Columns
    changes: None = None


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rows with their numbers in the order of a column, by key. It is not computed: a filter makes
    `TopN` of it."""

    input: Plan
    keys: tuple[str, ...]
    by: str
    smallest: bool
    rank: str
    window: Window | None
    newest: bool
    """Whether they are in the order of event time, the last first."""
    oldest: bool
    """Whether they are rows that stay, in the order of event time."""
    at: exp.Expr
    """Place in the SQL."""
    columns: Columns
    """Columns of the input except `by`, followed by the number."""
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class TopN:
    """The first rows of each key, or of each key and window."""

    input: Plan
    keys: tuple[str, ...]
    by: str
    smallest: bool
    n: int
    rank: str
    window: Window | None
    newest: bool
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class OverPlan:
    """Rows with aggregates over those around them, by key."""

    input: Plan
    keys: tuple[str, ...]
    over: OverColumns
    frame: FrameSpec
    columns: Columns
    changes: Changes | None


@dataclass(frozen=True)
class CloseInTime:
    """Bounds on the time from the left row to the right one."""

    lower: timedelta
    upper: timedelta


@dataclass(frozen=True)
class InOneWindow:
    """Rows of one window meet."""

    window: Window | None
    """None: the windows are over, and their bounds are among the keys."""


@dataclass(frozen=True)
class AsOfTime:
    """A row meets the version that counted at its time."""


@dataclass(frozen=True)
class AllRows:
    """All rows meet, for a while."""

    ttl: TimeToLive


Meeting: TypeAlias = CloseInTime | InOneWindow | AsOfTime | AllRows


@dataclass(frozen=True)
class JoinKeys:
    """Columns that must be equal on both sides."""

    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """Pairs of rows. Nulls are equal to nothing."""

    left: Plan
    right: Plan
    keys: JoinKeys
    how: str
    meeting: Meeting
    columns: Columns
    width: int
    """Number of columns from the left side."""
    changes: Changes | None


@dataclass(frozen=True, eq=False)
class LookupPlan:
    """Rows with what a system outside has for their keys."""

    input: Plan
    lookup: Lookup
    on: tuple[str, ...]
    added: tuple[tuple[str, str], ...]
    """Columns that are added, and what the lookup calls them."""
    how: str
    columns: Columns
    changes: None = None


@dataclass(frozen=True, eq=False)
class MatchPlan:
    """The matches of a pattern: the keys, the rows in their order, and when each was certain."""

    input: Plan
    keys: tuple[str, ...]
    pattern: PatternTree
    number: str | None
    """The column that counts the matches of a key, where it is asked for."""
    columns: Columns
    changes: None = None


Plan: TypeAlias = (
    Scan
    | ValueRows
    | Filter
    | Project
    | CallPlan
    | Explode
    | Retract
    | Union
    | Windowed
    | Aggregate
    | Distinct
    | Ranked
    | TopN
    | OverPlan
    | JoinPlan
    | LookupPlan
    | MatchPlan
)


# --- nodes that see to what changes -------------------------------------------------------------------


def filtered(input: Plan, condition: pl.Expr, *, pinned: bool = False) -> Filter:
    """A filter. Of upserts, one by more than their key looks at what each row was, too."""
    changes = input.changes
    if changes is not None and not set(condition.meta.root_names()) <= set(changes.key):
        input = retracting(input)
        changes = Changes(changes.key, retracts=True, filtered=True)
    return Filter(input, condition, input.columns, changes, pinned)


def projected(input: Plan, exprs: tuple[pl.Expr, ...], columns: Columns) -> Plan:
    """New columns. Changes are known by their key for as long as all of it is there."""
    changes = input.changes
    if changes is not None:
        names: dict[str, str] = {}
        for expr, column in zip(exprs, columns, strict=True):
            if expr.meta.is_column():
                names.setdefault(expr.meta.output_name(), column.name)
        if changes.key and set(changes.key) <= names.keys():
            key = tuple(names[name] for name in changes.key)
            changes = Changes(key, changes.retracts, changes.filtered)
        else:
            input = retracting(input)
            changes = Changes((), retracts=True, filtered=changes.filtered)
    return Project(input, exprs, columns, changes)


def retracting(input: Plan) -> Plan:
    """The same table, as rows that stay or as changes that say what each row was."""
    changes = input.changes
    if changes is None or changes.retracts:
        return input
    return Retract(input, input.columns, Changes(changes.key, retracts=True))


def renamed(input: Plan, names: tuple[str, ...]) -> Plan:
    """The same columns under other names."""
    if names == tuple(column.name for column in input.columns):
        return input
    columns = tuple(
        SqlColumn(name, column.type, column.role)
        for name, column in zip(names, input.columns, strict=True)
    )
    return projected(input, tuple(pl.col(column.name) for column in input.columns), columns)


def with_keys(input: Plan, keys: Sequence[Typed], what: str) -> tuple[Plan, tuple[str, ...]]:
    """The rows with a column of its own for each key, and the names of these: `what` begins those of
    the ones that are computed."""
    exprs = [pl.col(column.name) for column in input.columns]
    columns = [*input.columns]
    names: list[str] = []
    for place, key in enumerate(keys, 1):
        if key.expr.meta.is_column() and key.expr.meta.output_name() not in names:
            names.append(key.expr.meta.output_name())
            continue
        name = f"{what} key {place}"
        exprs.append(key.expr)
        columns.append(SqlColumn(name, key.type))
        names.append(name)
    if len(columns) == len(input.columns):
        return input, tuple(names)
    return projected(input, tuple(exprs), tuple(columns)), tuple(names)


def names_of(plan: Plan) -> frozenset[str]:
    """Return the names of the plan's columns."""
    return frozenset(column.name for column in plan.columns)


def inputs_of(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan() | ValueRows():
            return ()
        case Union(inputs=inputs):
            return inputs
        case JoinPlan():
            return plan.left, plan.right
        case _:
            return (plan.input,)


def with_inputs(plan: Plan, inputs: Sequence[Plan]) -> Plan:
    """The same over other inputs, which have the columns that it reads."""
    if all(one is other for one, other in zip(inputs_of(plan), inputs, strict=True)):
        return plan
    match plan:
        case Scan() | ValueRows():
            return plan
        case Union():
            return replace(plan, inputs=tuple(inputs))
        case JoinPlan():
            left, right = inputs
            return replace(plan, left=left, right=right)
        case _:
            [input] = inputs
            return replace(plan, input=input)
