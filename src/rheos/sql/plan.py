"""The logical plan of a query: its operations with typed columns and changelog modes.

A plan is a tree of frozen nodes, each with its output `columns` and its changelog mode: append-only
(`changes` is None), upserts, or changes with retractions. `lowering` turns the plan into streams. Nodes
are compared by identity; `sharing` finds equivalent ones.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.core.graph.changelog import Changes
from rheos.core.graph.expression_trees import spell_expression, with_columns_named
from rheos.core.graph.types import columns_read
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.call import CallSpec

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.expressions.table import Typed
    from rheos.sql.lowering import Lowering


SET_EVENT_TIME = (
    "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND in CREATE TABLE, or set watermark= on the "
    "source; if its rows are results that have an event time, name its column: "
    '.with_event_time(rh.Watermark.bounded_out_of_orderness("1m", on="at"))'
)
"""Hint for a table that lacks the event time which a query needs."""


class ColumnRole(Enum):
    """Special role of a column."""

    PLAIN = auto()
    EVENT_TIME = auto()
    """The event time of the rows."""
    PROCESSING_TIME = auto()
    """Processing time: windows may use it, but its value cannot be read."""
    WINDOW_START = auto()
    WINDOW_END = auto()
    """End of the row's window."""
    WINDOW_TIME = auto()
    """Last time in the row's window."""
    RANK = auto()
    """Row number, which a filter must bound."""


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


Names: TypeAlias = frozenset[str]
"""Names of columns."""
Origin: TypeAlias = tuple[str, str]
"""Table, and a column of it."""
Origins: TypeAlias = Mapping[str, frozenset[Origin]]
"""Origins of each column."""

NO_ORIGIN: frozenset[Origin] = frozenset()


class PlanNode(ABC):
    """A node of the plan. Each kind is a frozen dataclass that implements these methods."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    columns: Columns
    changes: Changes | None

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    """Names of the fields that hold the inputs."""
    filters_pass: ClassVar[bool] = False
    """Whether a filter on columns of the input may be applied to the input."""
    calls_user: ClassVar[bool] = False
    """Whether it calls a user's function, which may count: two such nodes are never computed as one."""

    def upstream(self) -> tuple[PlanNode, ...]:
        """Return the inputs."""
        return tuple(getattr(self, name) for name in self.input_names)

    def on_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        """Return the same node with other inputs, which have the columns that it reads."""
        return replace(self, **dict(zip(self.input_names, inputs, strict=True)))

    @abstractmethod
    def summary(self) -> str:
        """Return the node as `explain` shows it."""

    @abstractmethod
    def origins(self) -> Origins:
        """Return the source columns of the values of each column, without those of conditions that
        choose rows."""

    @abstractmethod
    def lowered(self, lowering: Lowering) -> DataStream:
        """Return the stream that computes the node. `lowering` has the streams of its inputs."""

    def looked_at(self, needed: Names) -> list[Names]:
        """Return the columns that the node reads or passes on, for each input.

        Args:
            needed: columns of the node that are read downstream.
        """
        return [names_of(each) for each in self.upstream()]

    def may_be_null(self, name: str) -> bool:
        """Return whether a column may be null. It may, unless it is declared NOT NULL or filtered."""
        return True

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        """Return the node with a filter applied to its input. None if the result would be another one:
        the filter stays above.

        Args:
            condition: the condition on the node's rows.
            read: columns that it reads.
        """
        passes = self.filters_pass and read <= names_of(self.upstream()[0])
        return self.with_filtered_input(0, condition) if passes else None

    def with_filtered_input(self, place: int, condition: pl.Expr) -> PlanNode | None:
        """Return the node with one of its inputs filtered. None if the filter needs state to know what
        the rows were before."""
        inputs = [*self.upstream()]
        before = inputs[place]
        after = filtered(before, condition)
        if isinstance(after, Filter) and after.input is not before:
            return None
        if before.changes is not None and not isinstance(self, Project):
            return None
        inputs[place] = after
        return self.on_inputs(inputs)


def names_of(plan: PlanNode) -> Names:
    """Return the names of the plan's columns."""
    return frozenset(column.name for column in plan.columns)


def may_be_null(plan: PlanNode, expr: pl.Expr) -> bool:
    """Return whether an expression of a plan's columns may be null."""
    if expr.meta.undo_aliases().meta.is_column():
        return plan.may_be_null(expr.meta.root_names()[0])
    return bool(expr.meta.root_names()) or bool(pl.select(expr).to_series().null_count())


def with_inputs(plan: PlanNode, inputs: Sequence[PlanNode]) -> PlanNode:
    """Return the plan with other inputs, or the plan itself if they are the same."""
    same = all(one is other for one, other in zip(plan.upstream(), inputs, strict=True))
    return plan if same else plan.on_inputs(inputs)


def origins_of(of: Origins, columns: Iterable[str]) -> frozenset[Origin]:
    """Return the origins of several columns."""
    return frozenset(origin for each in columns for origin in of.get(each, NO_ORIGIN))


def origins_of_time(plan: PlanNode) -> frozenset[Origin]:
    """Return the origins of the rows' event time, which need not be one of their columns any more."""
    for each in plan.columns:
        if each.role in (ColumnRole.EVENT_TIME, ColumnRole.WINDOW_TIME):
            return plan.origins()[each.name]
    return frozenset(origin for each in plan.upstream() for origin in origins_of_time(each))


@dataclass(frozen=True, eq=False)
class Scan(PlanNode):
    """The rows of a named stream."""

    name: str
    stream: DataStream
    columns: Columns
    changes: Changes | None
    input_names: ClassVar[tuple[str, ...]] = ()

    def summary(self) -> str:
        return f"table {self.name}"

    def may_be_null(self, name: str) -> bool:
        return bool(self.stream.schema.field(name).nullable)

    def origins(self) -> Origins:
        return {each.name: frozenset([(self.name, each.name)]) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return self.stream


@dataclass(frozen=True, eq=False)
class ValueRows(PlanNode):
    """Rows that the SQL contains."""

    table: pa.Table
    columns: Columns
    changes: None = None
    input_names: ClassVar[tuple[str, ...]] = ()

    def summary(self) -> str:
        return f"values ({self.table.num_rows} rows)"

    def origins(self) -> Origins:
        return dict.fromkeys((each.name for each in self.columns), NO_ORIGIN)

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.values(self)


def _spelled(expr: pl.Expr) -> str:
    """Return an expression for `explain`, with plain names of columns."""
    return re.sub(r'col\("([^"]*)"\)', r"\1", spell_expression(expr))


@dataclass(frozen=True, eq=False)
class Filter(PlanNode):
    """The rows that fulfil a condition."""

    input: PlanNode
    condition: pl.Expr
    columns: Columns
    changes: Changes | None
    pinned: bool = False
    """Whether it calls a user's function, so that it may not be moved to other rows."""

    def summary(self) -> str:
        return f"filter {_spelled(self.condition)}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed.union(self.condition.meta.root_names())]

    def may_be_null(self, name: str) -> bool:
        is_checked = self.condition.meta.eq(pl.col(name).is_not_null())
        return not is_checked and self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.stream(self.input).filter(self.condition)


@dataclass(frozen=True, eq=False)
class Project(PlanNode):
    """New columns, each an expression over one row."""

    input: PlanNode
    exprs: tuple[pl.Expr, ...]
    """Expressions, in the order of the columns."""
    columns: Columns
    changes: Changes | None

    def summary(self) -> str:
        computed = [
            f"{column.name} = {_spelled(expr)}"
            for expr, column in zip(self.exprs, self.columns, strict=True)
            if not expr.meta.is_column() or expr.meta.output_name() != column.name
        ]
        return f"project {', '.join(computed)}".rstrip()

    def looked_at(self, needed: Names) -> list[Names]:
        named = zip(self.exprs, self.columns, strict=True)
        exprs = [expr for expr, column in named if column.name in needed]
        return [columns_read(exprs, names_of(self.input))]

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        """The filter stays above if it reads a column that is computed."""
        names = {
            column.name: expr.meta.root_names()[0]
            for expr, column in zip(self.exprs, self.columns, strict=True)
            if column.name in read and expr.meta.undo_aliases().meta.is_column()
        }
        lower = with_columns_named(condition, names) if names.keys() == read else None
        return None if lower is None else self.with_filtered_input(0, lower)

    def may_be_null(self, name: str) -> bool:
        places = [column.name for column in self.columns]
        return may_be_null(self.input, self.exprs[places.index(name)])

    def origins(self) -> Origins:
        of, named = self.input.origins(), zip(self.columns, self.exprs, strict=True)
        return {column.name: origins_of(of, expr.meta.root_names()) for column, expr in named}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.projected(self)


@dataclass(frozen=True, eq=False)
class CallPlan(PlanNode):
    """An additional column, computed by a user's function."""

    input: PlanNode
    spec: CallSpec
    columns: Columns
    changes: Changes | None

    filters_pass: ClassVar[bool] = True
    calls_user: ClassVar[bool] = True

    def summary(self) -> str:
        return f"call {self.spec.summary()}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed.union(self.spec.arguments)]

    def may_be_null(self, name: str) -> bool:
        return name not in names_of(self.input) or self.input.may_be_null(name)

    def origins(self) -> Origins:
        of = self.input.origins()
        made = origins_of(of, self.spec.arguments)
        return {each.name: of.get(each.name, made) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.called(self)


@dataclass(frozen=True, eq=False)
class Explode(PlanNode):
    """A row for each element of a list, whose structs become columns."""

    input: PlanNode
    column: str
    columns: Columns
    changes: Changes | None

    filters_pass: ClassVar[bool] = True

    def summary(self) -> str:
        return f"explode {self.column}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed | {self.column}]

    def origins(self) -> Origins:
        of = self.input.origins()
        return {each.name: of.get(each.name, of[self.column]) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.exploded(self)


@dataclass(frozen=True, eq=False)
class Retract(PlanNode):
    """Upserts with the previous version of each row."""

    input: PlanNode
    columns: Columns
    changes: Changes

    def summary(self) -> str:
        return "add the retracted version of each changed row"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed.union(self.changes.key)]

    def may_be_null(self, name: str) -> bool:
        return name not in names_of(self.input) or self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.retracted(self)


@dataclass(frozen=True, eq=False)
class EventTimePlan(PlanNode):
    """Rows with a new event time. Filters stay above it, because its input decides the watermark."""

    input: PlanNode
    watermark: Watermark
    columns: Columns
    changes: Changes | None

    @staticmethod
    def of(plan: PlanNode, watermark: Watermark) -> EventTimePlan:
        """Return the rows with event time and watermarks by a column."""
        columns = tuple(
            replace(each, role=ColumnRole.EVENT_TIME)
            if each.name == watermark.on
            else plain_column(each)
            if each.role is ColumnRole.EVENT_TIME
            else each
            for each in plan.columns
        )
        return EventTimePlan(plan, watermark, columns, plan.changes)

    def summary(self) -> str:
        return f"event time from {self.watermark.on}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed | {str(self.watermark.on)}]

    def may_be_null(self, name: str) -> bool:
        return self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.stream(self.input).with_event_time(self.watermark)


@dataclass(frozen=True, eq=False)
class Union(PlanNode):
    """The rows of all inputs, which have the same columns."""

    inputs: tuple[PlanNode, ...]
    columns: Columns
    changes: Changes | None

    def upstream(self) -> tuple[PlanNode, ...]:
        return self.inputs

    def on_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        return replace(self, inputs=tuple(inputs))

    def summary(self) -> str:
        return "union all"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed] * len(self.inputs)

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        return with_inputs(self, [filtered(each, condition) for each in self.inputs])

    def origins(self) -> Origins:
        found: dict[str, frozenset[Origin]] = {}
        for of in (each.origins() for each in self.inputs):
            found |= {name: found.get(name, NO_ORIGIN) | from_ for name, from_ in of.items()}
        return found

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.united(self)


# --- nodes that see to what changes -------------------------------------------------------------------


def filtered(input: PlanNode, condition: pl.Expr, *, pinned: bool = False) -> Filter:
    """Return a filter. For upserts, a condition on more than their key also reads the previous
    versions."""
    changes = input.changes
    if changes is not None and not set(condition.meta.root_names()) <= set(changes.key):
        input = retracting(input)
        changes = Changes(changes.key, retracts=True, filtered=True)
    return Filter(input, condition, input.columns, changes, pinned)


def projected(input: PlanNode, exprs: tuple[pl.Expr, ...], columns: Columns) -> PlanNode:
    """Return new columns. Changes keep their key as long as all its columns are kept."""
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


def retracting(input: PlanNode) -> PlanNode:
    """Return the same table as append-only rows, or as changes that contain previous rows."""
    changes = input.changes
    if changes is None or changes.retracts:
        return input
    return Retract(input, input.columns, Changes(changes.key, retracts=True))


def rekeyed(input: PlanNode, keys: Sequence[str]) -> PlanNode:
    """Return rows that are exchanged by these keys. A row that may move to another key is retracted at
    the old one."""
    changes = input.changes
    same = changes is None or not changes.key or {*keys} <= {*changes.key}
    return input if same else retracting(input)


def renamed(input: PlanNode, names: tuple[str, ...]) -> PlanNode:
    """Return the same columns under other names."""
    if names == tuple(column.name for column in input.columns):
        return input
    columns = tuple(
        SqlColumn(name, column.type, column.role)
        for name, column in zip(names, input.columns, strict=True)
    )
    return projected(input, tuple(pl.col(column.name) for column in input.columns), columns)


def with_keys(input: PlanNode, keys: Sequence[Typed], what: str) -> tuple[PlanNode, tuple[str, ...]]:
    """Return the rows with a column for each key, and the names of these columns. `what` is the prefix
    of the computed ones."""
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
