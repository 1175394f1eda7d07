"""Calls of the user's functions in a query: each is computed as a column before the expression that
contains it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.sql.calls import with_call
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.functions import FunctionKind, UserCall
from rheos.sql.grouping import GroupedColumns, calls_in, spelled
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.text import SqlText, as_sql


def user_calls(node: exp.Expr) -> Iterator[UserCall]:
    """Yield the calls of the user's functions, inner calls first."""
    if isinstance(node, exp.Query | exp.Subquery):
        return
    for inner in node.iter_expressions():
        yield from user_calls(inner)
    if isinstance(node, UserCall) and node.function.kind is FunctionKind.SCALAR:
        yield node


def named_by_text(node: exp.Select) -> None:
    """Name the columns of SELECT that have such calls by their SQL, before the calls are replaced."""
    for item in [*node.expressions]:
        if not isinstance(item, exp.Alias) and next(user_calls(item), None) is not None:
            item.replace(exp.alias_(item.copy(), as_sql(item), quoted=True))


def with_calls(
    sql: SqlText,
    relation: SqlRelation,
    nodes: Iterable[exp.Expr],
    other: SqlRelation | None = None,
) -> tuple[SqlRelation, list[exp.Expr]]:
    """Return the rows with a column for each call in some expressions, and the expressions that read
    these columns.

    Calls on values that only groups have are kept; so are, for one side of a join, calls that read the
    `other` side. Raise ProgramError.
    """
    left = []
    for node in nodes:
        now = node
        for call in [*user_calls(node)]:
            if next(calls_in(call), None) is not None:
                continue
            if other is not None and not _reads(sql, relation, other, call):
                continue
            relation, column = _computed(sql, relation, call)
            if call is now:
                now = column
            if call.parent is not None:
                call.replace(column)
        left.append(now)
    return relation, left


def _reads(sql: SqlText, relation: SqlRelation, other: SqlRelation, call: UserCall) -> bool:
    """Return whether a call reads columns of the relation, and no others."""
    columns = [*call.find_all(exp.Column)]
    mine, theirs = (
        [NameScope(sql, side.tables).find(column) is not None for column in columns]
        for side in (relation, other)
    )
    return bool(columns) and all(mine) and not any(theirs)


def _computed(sql: SqlText, relation: SqlRelation, call: UserCall) -> tuple[SqlRelation, exp.Expr]:
    scope = NameScope(sql, relation.tables)
    text = spelled(scope, call)
    column = exp.column(exp.to_identifier(text, quoted=True))
    column.this.meta.update(call.meta)
    if scope.find(column) is None:
        given = call.function.arguments(Compiler(sql, scope), call)
        plan, made = with_call(relation.plan, call.function, given, text)
        hidden = TableInSight(None, (Named(text, made),), hidden=True)
        relation = SqlRelation(plan, (*relation.tables, hidden))
    return relation, column


def with_calls_of_groups(
    sql: SqlText, sight: GroupedColumns, nodes: Iterable[exp.Expr]
) -> GroupedColumns:
    """Return the groups with a column for each call on their values."""
    for node in nodes:
        for call in user_calls(node):
            text = spelled(sight.scope, call)
            if text in sight.found:
                continue
            given = call.function.arguments(sight.compiler, call)
            plan, made = with_call(sight.plan, call.function, given, text)
            value = Typed(pl.col(made.name), made.type, call)
            sight = replace(sight, plan=plan, found={**sight.found, text: value})
    return sight
