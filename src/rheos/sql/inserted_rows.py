"""Tables without a connector: statements insert, update and delete their rows.

    CREATE TABLE fruits (name STRING, price INT, PRIMARY KEY (name));
    INSERT INTO fruits VALUES ('kiwi', 2), ('fig', 3);
    UPDATE fruits SET price = price + 1 WHERE name = 'fig';

Rows of VALUES, and of other such tables, are known while the script is read. The rows of other queries
arrive while the job runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import polars as pl
import pyarrow as pa

from rheos.api.time_to_live import FOREVER, TimeToLive
from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE, Changes
from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.types import empty_frame
from rheos.core.protocol.polars_frames import arrow_table
from rheos.sql.plan import (
    ColumnRole,
    Columns,
    Filter,
    Origins,
    PlanNode,
    Project,
    SqlColumn,
    Union,
    ValueRows,
)

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.catalog import DeclaredTable
    from rheos.sql.lowering import Lowering


@dataclass(eq=False)
class InsertedRows:
    """The rows of a table without a connector, and how they came about."""

    schema: pa.Schema
    key: tuple[str, ...]
    """Columns of PRIMARY KEY: a row replaces the earlier one of its key."""
    changing: bool
    """Whether rows may be updated and deleted."""
    current: pl.DataFrame = field(init=False)
    """Rows that are known while the script is read."""
    queries: list[PlanNode] = field(default_factory=list)
    """Queries whose rows arrive while the job runs."""
    is_read: bool = False
    """Whether a query already reads the table."""
    is_lowered: bool = False
    """Whether a stream already has the rows."""
    _changelog: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.current = empty_frame(self.schema)

    @property
    def changes(self) -> Changes | None:
        """Return how the rows change; None if they are append-only."""
        if self.key:
            return Changes(self.key, retracts=False)
        return Changes((), retracts=True) if self.changing else None

    def insert(self, rows: pl.DataFrame) -> None:
        """Add rows, each in place of the earlier one of its key."""
        rows = rows.select(self.current.columns)
        self._record(rows, INSERT)
        self._keep(pl.concat([self.current, rows]))

    def delete(self, which: pl.Series) -> None:
        """Remove the current rows for which the mask is true."""
        self._record(self.current.filter(which), DELETE)
        self._keep(self.current.filter(~which))

    def update(self, which: pl.Series, rows: pl.DataFrame) -> None:
        """Put `rows` in place of the current rows for which the mask is true."""
        before = self.current.filter(which)
        if not self.key:
            self._record(before, UPDATE_BEFORE)
        elif not before.select(self.key).equals(rows.select(self.key)):
            self._record(before, DELETE)
        self._record(rows, UPDATE_AFTER)
        self._keep(pl.concat([self.current.filter(~which), rows]))

    def changelog(self) -> pa.Table:
        """Return all changes in their order; append-only rows without the kind of change."""
        empty = self.current.clear().with_columns(pl.lit(None, dtype=pl.String).alias(OP))
        frame = pl.concat([empty, *self._changelog]).rechunk()
        if self.changes is None:
            return arrow_table(frame.drop(OP)).cast(self.schema)
        return arrow_table(frame).cast(self.schema.append(pa.field(OP, pa.string())))

    def _record(self, rows: pl.DataFrame, op: str) -> None:
        if rows.height:
            self._changelog.append(rows.with_columns(pl.lit(op).alias(OP)))

    def _keep(self, rows: pl.DataFrame) -> None:
        self.current = rows.unique(self.key, keep="last", maintain_order=True) if self.key else rows


@dataclass(frozen=True, eq=False)
class InsertedPlan(PlanNode):
    """The rows of a table without a connector."""

    table: DeclaredTable
    rows: InsertedRows
    columns: Columns
    changes: Changes | None
    input_names: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def of(table: DeclaredTable, rows: InsertedRows) -> InsertedPlan:
        """Return the plan of a table's rows, which statements that follow may still change."""
        time = None if table.watermark is None else table.watermark.on
        kinds = empty_frame(table.schema).schema
        columns = tuple(
            SqlColumn(name, kind, ColumnRole.EVENT_TIME if name == time else ColumnRole.PLAIN)
            for name, kind in kinds.items()
        )
        return InsertedPlan(table, rows, columns, rows.changes)

    def summary(self) -> str:
        return f"table {self.table.name} ({len(self.rows.current)} rows of the script)"

    def may_be_null(self, name: str) -> bool:
        return bool(self.table.schema.field(name).nullable)

    def origins(self) -> Origins:
        return {each.name: frozenset([(self.table.name, each.name)]) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.inserted(self)


def is_known(plan: PlanNode) -> bool:
    """Return whether all rows that a plan reads are known while the script is read, so that its state
    cannot grow without a bound."""
    if isinstance(plan, InsertedPlan):
        return not plan.rows.queries
    inputs: Sequence[PlanNode] = plan.upstream()
    return isinstance(plan, ValueRows) or (bool(inputs) and all(map(is_known, inputs)))


def may_be_kept(plan: PlanNode, ttl: TimeToLive | None) -> bool:
    """Return whether a query may keep all rows: the script contains them, or sets no limit."""
    return ttl == FOREVER or is_known(plan)


def known_rows(plan: PlanNode) -> pl.DataFrame | None:
    """Return the rows of a query that needs no job; None if only a job can compute them."""
    if plan.calls_user or not is_known(plan):
        return None
    match plan:
        case ValueRows():
            return pl.DataFrame(plan.table)
        case InsertedPlan():
            return plan.rows.current
        case Filter():
            rows = known_rows(plan.input)
            return None if rows is None else rows.filter(exact_one(plan.condition, rows.lazy()))
        case Project():
            rows = known_rows(plan.input)
            return None if rows is None else computed(rows, plan.exprs, plan.columns)
        case Union():
            frames = [known_rows(each) for each in plan.inputs]
            found = [each for each in frames if each is not None]
            return pl.concat(found) if len(found) == len(frames) else None
    return None


def computed(rows: pl.DataFrame, exprs: Sequence[pl.Expr], columns: Columns) -> pl.DataFrame:
    """Return new columns of rows."""
    made = [
        exact_one(expr, rows.lazy()).alias(column.name)
        for expr, column in zip(exprs, columns, strict=True)
    ]
    # A constant is repeated for each row.
    return rows.with_columns(made).select(column.name for column in columns)


def tables_read(plan: PlanNode) -> list[InsertedRows]:
    """Return the tables without a connector whose rows a plan reads, also by queries inserted there."""
    if isinstance(plan, InsertedPlan):
        return [plan.rows, *(rows for each in plan.rows.queries for rows in tables_read(each))]
    return [rows for each in plan.upstream() for rows in tables_read(each)]
