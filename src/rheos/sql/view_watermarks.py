"""Event time of a view: CREATE VIEW v (WATERMARK FOR at AS at - INTERVAL '5' SECOND) AS SELECT ..."""

from __future__ import annotations

from sqlglot import exp

from rheos.sql.create_table import watermark_of
from rheos.sql.plan import EventTimePlan, PlanNode
from rheos.sql.statement_parser import WatermarkFor
from rheos.sql.text import SqlText


def with_watermark(sql: SqlText, plan: PlanNode, node: WatermarkFor) -> PlanNode:
    """Return the rows of a view with a watermark. Raise ProgramError or SchemaError."""
    if plan.changes is not None:
        raise sql.error(
            "a watermark needs append-only rows, but those of this view are updated",
            node.this,
            "set the watermark on its table, or on a view without GROUP BY",
        )
    watermark = watermark_of(sql, node, {column.name: column.type for column in plan.columns})
    return EventTimePlan.of(plan, watermark)


def split_watermark(columns: list[exp.Expr]) -> tuple[list[exp.Expr], WatermarkFor | None]:
    """Return the names of a view's columns, and its watermark."""
    marks = [each for each in columns if isinstance(each, WatermarkFor)]
    return [each for each in columns if not isinstance(each, WatermarkFor)], marks[
        -1
    ] if marks else None
