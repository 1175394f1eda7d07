"""Tables computed from each row: LATERAL TABLE(f(x)), UNNEST(list), LATERAL VIEW EXPLODE(list)."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.core.graph.changelog import Changes
from rheos.sql.calls import with_call
from rheos.sql.expressions.json_functions import json_tuple
from rheos.sql.expressions.table import Compiler
from rheos.sql.functions import FunctionKind, UserCall
from rheos.sql.plan import Explode, PlanNode, SqlColumn, projected, retracting, with_keys
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.text import SqlText, as_sql, kind
from rheos.sql.unused_names import unused_name

_ELEMENT = "element"
_EXAMPLE = "write FROM t, LATERAL TABLE(words(t.text)) AS w, or FROM t, UNNEST(t.items) AS i(item)"


def lateral_join(sql: SqlText, left: SqlRelation, node: exp.Join) -> SqlRelation:
    """Join each row with the table computed from it. Raise ProgramError."""
    sql.only(node, ("this", "on", "side", "kind"), " of LATERAL")
    side, on = str(node.args.get("side") or ""), node.args.get("on")
    if side not in ("", "LEFT"):
        raise sql.error(f"LATERAL does not support {side} JOIN", node.this, "write JOIN or LEFT JOIN")
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        raise sql.error("LATERAL must be joined ON TRUE", on, "move the condition to WHERE")
    return lateral(sql, left, node.this, outer=side == "LEFT")


def lateral(sql: SqlText, left: SqlRelation, node: exp.Expr, *, outer: bool) -> SqlRelation:
    """Return each row once for every row of its table; with `outer`, once if the table is empty."""
    plan, values, names, fields = _list(sql, left, node)
    list_type = values.type
    assert isinstance(list_type, pl.List)
    inner = list_type.inner
    assert isinstance(inner, pl.DataType)
    alias = node.args.get("alias")
    aliases = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
    if not fields and aliases and isinstance(inner, pl.Struct) and len(aliases) > 1:
        fields = True
    kinds = dict(inner.to_schema()) if fields and isinstance(inner, pl.Struct) else {names: inner}
    if aliases and len(aliases) != len(kinds):
        raise sql.error(f"there are {len(kinds)} columns, but {len(aliases)} names for them", alias)
    plan, element = exploded(plan, values, outer=outer)
    whole = pl.col(element)
    exprs = [pl.col(column.name) for column in plan.columns if column.name != element]
    columns = [column for column in plan.columns if column.name != element]
    taken, made = {column.name for column in columns}, []
    for place, (name, of) in enumerate(kinds.items()):
        shown = aliases[place] if aliases else name
        unique = unused_name(shown, taken, f" of {alias.name if alias is not None else names}")
        taken.add(unique)
        value = whole.struct.field(name) if fields and isinstance(inner, pl.Struct) else whole
        exprs.append(value.alias(unique))
        assert isinstance(of, pl.DataType)
        columns.append(SqlColumn(unique, of))
        made.append(Named(shown, columns[-1]))
    plan = projected(plan, tuple(exprs), tuple(columns))
    table = TableInSight((alias.name or None) if alias is not None else None, tuple(made))
    return SqlRelation(plan, (*left.tables, table))


def _list(sql: SqlText, left: SqlRelation, node: exp.Expr) -> tuple[PlanNode, SqlColumn, str, bool]:
    """Return the rows with the list to unnest, its column, the names of its elements, and whether their
    fields become columns."""
    call = node.this
    if isinstance(node, exp.Unnest):
        sql.only(node, ("expressions", "alias"))
        if len(node.expressions) != 1:
            raise sql.error("UNNEST takes one ARRAY", node, _EXAMPLE)
        return (*_array(sql, left, node.expressions[0], "UNNEST"), "element", True)
    sql.only(node, ("this", "alias", "view", "outer"))
    if isinstance(call, exp.Explode):
        sql.only(call, ("this",))
        return (*_array(sql, left, call.this, "EXPLODE"), "col", False)
    if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
        [call] = call.expressions
    if isinstance(call, exp.Anonymous) and call.name.casefold() == "json_tuple":
        row = json_tuple(Compiler(sql, NameScope(sql, left.tables)), call)
        plan, [name] = with_keys(left.plan, [row], f"in {as_sql(call)}")
        return plan, SqlColumn(name, row.type), "json_tuple", True
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
    given = of.arguments(Compiler(sql, NameScope(sql, left.tables)), call)
    return (*with_call(left.plan, of, given, as_sql(call)), of.name, True)


def _array(sql: SqlText, left: SqlRelation, node: exp.Expr, what: str) -> tuple[PlanNode, SqlColumn]:
    compiler = Compiler(sql, NameScope(sql, left.tables))
    value = compiler.compile(node)
    if not isinstance(value.type, pl.List):
        raise compiler.wrong_type(f"{what} takes an ARRAY", value, "name a list", at=node)
    plan, [name] = with_keys(left.plan, [value], f"in {as_sql(node)}")
    return plan, SqlColumn(name, value.type)


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
