"""Event time of a view: CREATE VIEW v (WATERMARK FOR at AS at - INTERVAL '5' SECOND) AS SELECT ..."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.core.graph.watermark import Watermark
from rheos.sql.create_table import watermark_of
from rheos.sql.plan import ColumnRole, Columns, Names, Origins, PlanNode, plain_column
from rheos.sql.statement_parser import WatermarkFor
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.lowering import Lowering


@dataclass(frozen=True, eq=False)
class EventTimeRows(PlanNode):
    """Rows with a new event time. Filters stay above it, because its input decides the watermark."""

    input: PlanNode
    watermark: Watermark
    columns: Columns
    changes: None = None

    @property
    def time(self) -> str:
        """Column of the event time."""
        assert self.watermark.on is not None, "a watermark of SQL is by a column"
        return self.watermark.on

    def summary(self) -> str:
        return f"event time {self.time}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed | {self.time}]

    def may_be_null(self, name: str) -> bool:
        return self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.stream(self.input).with_event_time(self.watermark)


def with_watermark(sql: SqlText, plan: PlanNode, node: WatermarkFor) -> PlanNode:
    """Return the rows of a view with a watermark. Raise ProgramError or SchemaError."""
    if plan.changes is not None:
        raise sql.error(
            "a watermark needs append-only rows, but those of this view are updated",
            node.this,
            "set the watermark on its table, or on a view without GROUP BY",
        )
    watermark = watermark_of(sql, node, {column.name: column.type for column in plan.columns})
    columns = tuple(
        replace(column, role=ColumnRole.EVENT_TIME)
        if column.name == watermark.on
        else plain_column(column)
        if column.role is ColumnRole.EVENT_TIME
        else column
        for column in plan.columns
    )
    return EventTimeRows(plan, watermark, columns)


def split_watermark(columns: list[exp.Expr]) -> tuple[list[exp.Expr], WatermarkFor | None]:
    """Return the names of a view's columns, and its watermark."""
    marks = [each for each in columns if isinstance(each, WatermarkFor)]
    return [each for each in columns if not isinstance(each, WatermarkFor)], marks[
        -1
    ] if marks else None
