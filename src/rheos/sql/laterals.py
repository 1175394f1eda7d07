"""Tables computed from each row: LATERAL TABLE(f(x)), UNNEST(list), LATERAL VIEW EXPLODE(list).

Without tables before it, such a table is computed from one row: FROM GENERATE_SERIES(1, 5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.calls import with_call
from rheos.sql.expressions.array_functions import inner_type
from rheos.sql.expressions.generators import GENERATORS, RowsOfCall, named
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.functions import FunctionKind, UserCall
from rheos.sql.plan import (
    Explode,
    PlanNode,
    SqlColumn,
    ValueRows,
    filtered,
    projected,
    retracting,
    with_keys,
)
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.text import SqlText, as_sql, kind
from rheos.sql.unused_names import unused_name

_ELEMENT = "element"
_ORDINALITY = "ordinality"
_EXAMPLE = "write FROM t, LATERAL TABLE(words(t.text)) AS w, or FROM t, UNNEST(t.items) AS i(item)"


def one_row() -> SqlRelation:
    """Return one row without columns for queries; a table has at least one."""
    one = pa.table({"one": [1]})
    columns = (SqlColumn("one", types.BIGINT),)
    return SqlRelation(ValueRows(one, columns), (TableInSight(None, ()),))


def is_lateral(node: exp.Expr) -> bool:
    """Return whether a table of FROM is computed from each row of the tables before it."""
    return isinstance(node, exp.Lateral | exp.Unnest) or (
        isinstance(node, exp.Table) and _returns_rows(_call(node))
    )


def _returns_rows(call: exp.Expr) -> bool:
    if isinstance(call, UserCall):
        return call.function.kind is FunctionKind.TABLE
    return isinstance(call, exp.Anonymous) and call.name.casefold() in GENERATORS


def _call(node: exp.Expr) -> exp.Expr:
    """Return the call of a table function: UNNEST(list), and f(x) of TABLE(f(x))."""
    call: exp.Expr = node.this
    of = call if isinstance(call, exp.Unnest) else node
    if isinstance(of, exp.Unnest):
        call = exp.Anonymous(this="UNNEST", expressions=[each.copy() for each in of.expressions])
        call.meta.update(of.meta)
    if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
        [call] = call.expressions
    return call


def lateral_join(sql: SqlText, left: SqlRelation, node: exp.Join) -> SqlRelation:
    """Join each row with the table computed from it. Raise ProgramError."""
    sql.only(node, ("this", "on", "side", "kind"), " of LATERAL")
    side, on = str(node.args.get("side") or ""), node.args.get("on")
    if side not in ("", "LEFT"):
        raise sql.error(f"LATERAL does not support {side} JOIN", node.this, "write JOIN or LEFT JOIN")
    is_true = on is None or (isinstance(on, exp.Boolean) and on.this)
    if side and not is_true:
        raise sql.error("LEFT JOIN LATERAL must be joined ON TRUE", on, "move the condition to WHERE")
    made = lateral(sql, left, node.this, outer=bool(side))
    if is_true:
        return made
    assert on is not None
    condition = Compiler(sql, NameScope(sql, made.tables)).condition(on, "ON")
    return replace(made, plan=filtered(made.plan, condition.expr))


@dataclass(frozen=True)
class _Names:
    """Names of a table of FROM."""

    table: str | None
    columns: list[str]
    is_numbered: bool
    """Whether it has the column of WITH ORDINALITY."""
    at: exp.Expr
    """The names in the query."""

    @staticmethod
    def of(sql: SqlText, node: exp.Expr) -> _Names:
        match node:
            case exp.Unnest():
                sql.only(node, ("expressions", "alias", "offset"))
            case exp.Lateral():
                sql.only(node, ("this", "alias", "view", "outer", "ordinality"))
            case _:
                sql.only(node, ("this", "alias", "ordinality"), " of a table function")
        alias = node.args.get("alias")
        table = None if alias is None else alias.name or None
        listed = [] if alias is None else [*(alias.args.get("columns") or [])]
        for each in listed:
            if not isinstance(each, exp.Identifier):
                raise sql.error("a table function has its own types", each, f"write {each.name}")
        place = node.args.get("offset") or node.args.get("ordinality")
        names = [each.name for each in listed]
        if isinstance(place, exp.Identifier):
            names.append(place.name)
        return _Names(table, names, bool(place), node if alias is None else alias)

    def given(self, sql: SqlText, rows: RowsOfCall, function: str) -> RowsOfCall:
        """Return the rows with these names. Raise ProgramError."""
        columns, place = self.columns, _ORDINALITY
        own = [each.name for each in rows.columns]
        is_whole = rows.may_be_whole and len(columns) == 2
        if self.is_numbered and (len(columns) > len(own) or is_whole):
            *columns, place = columns
        if not columns and self.table is not None and own == [function]:
            columns = [self.table]  # As in PostgreSQL.
        rows = named(sql, rows, columns, self.at)
        return rows.numbered(place) if self.is_numbered else rows


def elements_of(compiler: Compiler, node: exp.Unnest) -> tuple[RowsOfCall, str | None]:
    """Return the rows of UNNEST in FROM, with their names in the query, and the name of the table.
    Raise ProgramError or SchemaError."""
    names, call = _Names.of(compiler.sql, node), _call(node)
    function = call.name.casefold()
    assert isinstance(call, exp.Anonymous)
    return names.given(compiler.sql, GENERATORS[function](compiler, call), function), names.table


def lateral(sql: SqlText, left: SqlRelation, node: exp.Expr, *, outer: bool) -> SqlRelation:
    """Return each row once for every row of its table; with `outer`, once if the table is empty."""
    names, call = _Names.of(sql, node), _call(node)
    plan, rows, function = _rows(sql, left, call)
    rows = names.given(sql, rows, function)
    plan, [values] = with_keys(plan, [rows.list], f"in {as_sql(call)}")
    list_column = SqlColumn(values, rows.list.type)
    plan, element = exploded(plan, list_column, outer=outer or rows.is_outer)
    columns = [column for column in plan.columns if column.name != element]
    exprs = [pl.col(column.name) for column in columns]
    taken, made = {column.name for column in columns}, []
    for each in rows.columns:
        unique = unused_name(each.name, taken, f" of {names.table or function}")
        taken.add(unique)
        exprs.append(each.of(pl.col(element)).alias(unique))
        columns.append(SqlColumn(unique, each.type))
        made.append(Named(each.name, columns[-1]))
    tables = (*left.tables, TableInSight(names.table, tuple(made)))
    plan = projected(plan, tuple(exprs), tuple(columns))
    return SqlRelation(plan, (*tables, *_by_alias(tables, names.table)))


def _by_alias(tables: tuple[TableInSight, ...], alias: str | None) -> list[TableInSight]:
    """Return the only column of the last table under the table's name, unless another column has it."""
    [*_, last] = tables
    taken = {each.name.casefold() for table in tables for each in table.columns}
    if alias is None or len(last.columns) != 1 or alias.casefold() in taken:
        return []
    return [TableInSight(None, (Named(alias, last.columns[0].column),), hidden=True)]


def _rows(sql: SqlText, left: SqlRelation, call: exp.Expr) -> tuple[PlanNode, RowsOfCall, str]:
    """Return the rows with those of the call, and the name of its function."""
    compiler = Compiler(sql, NameScope(sql, left.tables))
    name = call.name.casefold()
    if name in GENERATORS and isinstance(call, exp.Anonymous):
        return left.plan, GENERATORS[name](compiler, call), name
    if not isinstance(call, UserCall):
        raise sql.error(f"{kind(call)} is not a table function", call, _EXAMPLE)
    of = call.function
    if of.kind is FunctionKind.PROCESS:
        raise call.misplaced(sql)
    if of.kind is not FunctionKind.TABLE:
        raise sql.error(
            f"{kind(call)} returns one value per row, not a table",
            call,
            "call it in SELECT; or annotate its result as `-> Iterator[Word]`",
        )
    plan, made = with_call(left.plan, of, of.arguments(compiler, call), as_sql(call))
    values = Typed(pl.col(made.name), made.type, call)
    is_wide = isinstance(inner_type(values), pl.Struct)
    return plan, RowsOfCall.of_fields(values) if is_wide else RowsOfCall.of(values, of.name), of.name


def exploded(plan: PlanNode, values: SqlColumn, *, outer: bool) -> tuple[PlanNode, str]:
    """Return a row for each element of a list, and the name of the element's column."""
    element = unused_name(_ELEMENT, {column.name for column in plan.columns})
    list_type = values.type
    assert isinstance(list_type, pl.List)
    inner = list_type.inner
    assert isinstance(inner, pl.DataType)
    # A struct of one field, so that a struct within stays whole.
    wrapped = pl.col(values.name).list.eval(pl.struct(pl.element().alias(element)))
    if outer:
        nothing = pl.concat_list(pl.struct(pl.lit(None, dtype=inner).alias(element)))
        there = pl.col(values.name).list.len() > 0
        wrapped = pl.when(there).then(wrapped).otherwise(nothing)
    if plan.changes is not None:
        plan = retracting(plan)
    lists = "lists of elements"
    exprs = [pl.col(column.name) for column in plan.columns]
    wide = pl.List(pl.Struct({element: inner}))
    columns = (*plan.columns, SqlColumn(lists, wide))
    plan = projected(plan, (*exprs, wrapped.alias(lists)), columns)
    changes = None if plan.changes is None else Changes((), retracts=True)
    left = (*(column for column in plan.columns if column.name != lists), SqlColumn(element, inner))
    return Explode(plan, lists, left, changes), element
