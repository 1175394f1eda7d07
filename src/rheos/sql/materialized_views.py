"""Materialized views: CREATE MATERIALIZED VIEW v (PRIMARY KEY (page) NOT ENFORCED) AS SELECT ...

The job keeps the rows of such a view as state, from which `rheos.runtimes.views` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.api.kept_views import keep_view
from rheos.core.graph.changelog import OP
from rheos.core.operators.view import ViewColumn, ViewSpec
from rheos.core.state.key_groups import is_key_type
from rheos.core.state.parts import GROUP
from rheos.sql.nullable_keys import not_null, selected
from rheos.sql.plan import PlanNode
from rheos.sql.ranking import check_result
from rheos.sql.text import SqlText
from rheos.sql.unused_names import unused_name

if TYPE_CHECKING:
    from rheos.api.time_to_live import TimeToLive
    from rheos.sql.lowering import Lowering


@dataclass(frozen=True, eq=False)
class MaterializedView:
    """A view whose rows the job keeps."""

    sql: SqlText
    node: exp.Expr
    name: str
    plan: PlanNode
    key: tuple[str, ...]
    """Columns by which a row replaces another one; empty if the view has no key."""
    ttl: TimeToLive
    """Time to live of the state that folds changes by the key of the view."""

    def write(self, lowering: Lowering, plan: PlanNode) -> None:
        """Keep the rows of the plan after pushdown."""
        rows = lowering.stream(plan)
        schema = rows.schema
        names = [column.name for column in plan.columns]
        columns = tuple(
            ViewColumn(name, name in self.key, str(schema.field(name).type)) for name in names
        )
        routed = self.key or tuple(name for name in names if is_key_type(schema.field(name).type))
        if not routed:
            # Nested columns cannot be keys, so one subtask keeps all rows.
            routed = (unused_name("all rows", {*names}),)
            every = [*map(pl.col, names), pl.lit(False).alias(routed[0])]
            rows = selected(rows, every, rows.transformation.type.changes)
        changes = rows.transformation.type.changes
        # The rows are retracted by the key of the changes before they are folded by another key.
        former = () if changes is None else changes.key
        of = not_null(rows, tuple(dict.fromkeys((*routed, *former))))
        keys = of.of_keys(routed)
        own = keys if self.key else ()
        made = lowering.folded(of.stream, plan, self.name, own, self.ttl)
        changes = made.transformation.type.changes
        # A nullable column by which rows are routed is stored only as its two columns.
        gone = {OP, *({*of.of} & {*routed}), *({*of.keys} - {*keys} - {*names})}
        kept = [pl.col(name) for name in made.schema.names if name not in gone]
        made = selected(made, kept, changes)
        spec = ViewSpec(own if changes is not None or self.key else None, columns)
        keep_view(self.name, made, keys, spec)


def materialized_view(
    sql: SqlText,
    node: exp.Create,
    name: str,
    plan: PlanNode,
    declared: exp.PrimaryKey | None,
    ttl: TimeToLive,
) -> MaterializedView:
    """Return the view of a statement. `declared` is its PRIMARY KEY; by default the key is that of the
    query's changes. Raise ProgramError or SchemaError at its place in the SQL."""
    check_result(sql, plan)
    names = {column.name.casefold(): column.name for column in plan.columns}
    for reserved in (OP, GROUP):
        if reserved in names.values():
            raise sql.error(
                f"a materialized view cannot have a column {reserved!r}: Rheos adds one of that name",
                node.this,
                f"name it otherwise: SELECT {reserved} AS {reserved}_",
            )
    if declared is None:
        key = () if plan.changes is None else plan.changes.key
        return MaterializedView(sql, node, name, plan, key, ttl)
    key = ()
    for part in declared.expressions:
        if part.name.casefold() not in names:
            raise sql.unknown("column", part.name, part, names.values(), "the columns are")
        key = (*key, names[part.name.casefold()])
    return MaterializedView(sql, node, name, plan, key, ttl)


def split_key(columns: list[exp.Expr]) -> tuple[list[exp.Expr], exp.PrimaryKey | None]:
    """Return the names of a view's columns, and its PRIMARY KEY."""
    keys = [each for each in columns if isinstance(each, exp.PrimaryKey)]
    names = [each for each in columns if not isinstance(each, exp.PrimaryKey)]
    return names, keys[-1] if keys else None
