"""Clauses of SELECT that are rewritten before they are planned: QUALIFY, GROUP BY ALL, FETCH."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.grouping import calls_in
from rheos.sql.plan import PlanNode
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_ROWS = " rows that qualify"
"""Name that no query can contain."""


def with_plain_clauses(sql: SqlText, node: exp.Expr) -> None:
    """Rewrite FETCH FIRST to LIMIT, and GROUP BY ALL and GROUP BY (a, b) to their keys. Raise
    ProgramError."""
    fetch = node.args.get("limit")
    if isinstance(fetch, exp.Fetch):
        options = fetch.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise sql.error("FETCH takes a number of rows", fetch, "write FETCH FIRST 10 ROWS ONLY")
        count = fetch.args.get("count") or exp.Literal.number(1)
        node.set("limit", exp.Limit(expression=count, limit_options=options))
    elif fetch is not None and _is_all(fetch.expression):
        node.set("limit", None)
    group = node.args.get("group")
    if group is not None and any(isinstance(key, exp.Tuple) for key in group.expressions):
        rows = [key.expressions if isinstance(key, exp.Tuple) else [key] for key in group.expressions]
        group.set("expressions", [key for row in rows for key in row])
    if isinstance(node, exp.Select) and group is not None and group.args.get("all"):
        keys = [each.unalias() for each in node.expressions if next(calls_in(each), None) is None]
        group.set("expressions", [key.copy() for key in keys if not isinstance(key, exp.Literal)])
        group.set("all", None)
        if not group.expressions:
            node.set("group", None)
    elif group is not None and group.expressions == [exp.Tuple()]:
        node.set("group", None)  # GROUP BY (): one group of all rows.


def _is_all(limit: exp.Expr) -> bool:
    """Return whether a limit is ALL or NULL."""
    return isinstance(limit, exp.Null) or limit.name.upper() == "ALL"


def read_aliases(scope: NameScope, node: exp.Select) -> None:
    """Replace names in HAVING that only SELECT creates by their expressions."""
    having = node.args.get("having")
    made = {each.alias.casefold(): each.unalias() for each in node.expressions if each.alias}
    for column in [] if having is None else [*having.find_all(exp.Column)]:
        value = made.get(column.name.casefold())
        if value is not None and not column.table and scope.find(column) is None:
            column.replace(value.copy())


def qualified(planner: Planner, node: exp.Select) -> PlanNode:
    """Plan a query with QUALIFY: a filter on its OVER columns. Raise ProgramError or SchemaError."""
    sql, condition = planner.sql, node.args["qualify"].this.copy()
    within = node.copy()
    within.set("qualify", None)
    within.set("with_", None)
    aliases = {each.alias_or_name.casefold() for each in within.expressions}
    written = {each.unalias().sql("spark"): each.alias for each in within.expressions if each.alias}
    has_star = any(each.is_star for each in within.expressions)
    hidden: list[str] = []

    def replaced(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and (part.name.casefold() in aliases or has_star):
            return exp.column(part.this.copy())
        if not isinstance(part, exp.Window | exp.Column):
            return part
        name = written.get(part.sql("spark"))
        if name is None:
            name = f" qualify {len(hidden)}"
            hidden.append(name)
            within.append("expressions", exp.alias_(part.copy(), name, quoted=True))
        return exp.column(name, quoted=True)

    if isinstance(condition, exp.Window):
        raise sql.error(
            "QUALIFY takes a condition", condition, "write QUALIFY ROW_NUMBER() OVER (...) = 1"
        )
    condition = condition.transform(replaced)
    plan = planner.query(within)
    names = [exp.column(each.name, quoted=True) for each in plan.columns if each.name not in hidden]
    rows = exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
    outer = exp.select(*names).from_(rows).where(condition)
    return replace(planner, ctes={**planner.ctes, _ROWS.casefold(): plan}).query(outer)
