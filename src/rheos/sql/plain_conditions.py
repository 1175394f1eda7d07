"""Conditions and joins that are other ways to write simpler ones, rewritten before they are planned:
ANY and ALL, comparisons of several values, VALUES, BETWEEN SYMMETRIC, SEMI and ANTI JOIN."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from rheos.sql.expressions.row_order import STANDARD_NULLS, values_of_row

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_QUANTIFIED = (*_COMPARISONS, exp.Like, exp.ILike, exp.RegexpLike)
_NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
_TAKING_ROWS = (
    *(exp.From, exp.Join, exp.Lateral, exp.Table, exp.CTE, exp.DDL, exp.DML, exp.Subquery),
    *(exp.SetOperation, exp.Any, exp.All, exp.Exists, exp.In),
)
"""Nodes whose queries are rows, and not values."""
_FOUND = " found"
_VALUE = " compared value"
_ELEMENT = "element of the array"
"""Names that no query can contain."""


def with_plain_conditions(statement: exp.Expr) -> exp.Expr:
    """Return the statement with simpler conditions in place of those that this module knows."""
    for join in [*statement.find_all(exp.Join)]:
        _replace_semi_join(join)
    # Inner conditions come last in the walk, so that outer ones contain the rewritten ones.
    for node in reversed([*statement.find_all(exp.Between, exp.In, *_QUANTIFIED, *_NULL_SAFE)]):
        _write_rows_alike(node)
        made = _plain(node)
        if made is not None:
            node.replace(made)
    for values in [*statement.find_all(exp.Values)]:
        _replace_values(values)
    return statement


def _replace_values(values: exp.Values) -> None:
    """Replace VALUES as a value by the value, and in EXISTS by true."""
    query = values.parent
    if isinstance(query, exp.Exists):
        query.replace(exp.true())
    if not isinstance(query, exp.Subquery) or query.alias or values.alias:
        return
    value = _single(values.expressions[0])
    is_value = query.parent is not None and not isinstance(query.parent, _TAKING_ROWS)
    if is_value and len(values.expressions) == 1 and not isinstance(value, exp.Tuple):
        query.replace(exp.paren(value.copy()))


def _plain(node: exp.Expr) -> exp.Expr | None:
    """Return a simpler condition with the same meaning; None if the condition is simple."""
    right = node.args.get("expression")
    match node:
        case exp.Between() if node.args.get("symmetric"):
            low, high = node.args["low"], node.args["high"]
            return _any_holds([_is_between(node.this, low, high), _is_between(node.this, high, low)])
        case exp.In() if _is_list(node.expressions, exp.Values):
            rows = node.expressions[0].expressions
            return _is_member(node.this, [_single(row) for row in rows])
        case exp.In() if isinstance(node.this, exp.Tuple) and _is_list(node.expressions, exp.Tuple):
            return _is_member(node.this, node.expressions)
        case exp.In():
            return None
    if isinstance(right, exp.Anonymous) and right.name.upper() == "ALL":
        # A list after ALL looks like a call to sqlglot.
        right = exp.All(this=_list_or_value(right.expressions))
    if isinstance(right, exp.Any | exp.All):
        return _quantified(node, right)
    if isinstance(node.this, exp.Tuple) and isinstance(right, exp.Tuple):
        ours, theirs = node.this.expressions, right.expressions
        if isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ) and len(ours) == len(
            theirs
        ):
            equal = _equal(ours, theirs, standard=bool(node.meta.get(STANDARD_NULLS)))
            return equal if isinstance(node, exp.EQ | exp.NullSafeEQ) else exp.Not(this=equal)
    return None


def _list_or_value(given: list[exp.Expr]) -> exp.Expr:
    """Return the array in parentheses, or the list of several values or of one literal."""
    if len(given) == 1 and not isinstance(given[0], exp.Literal | exp.Values | exp.Neg):
        return given[0]
    return exp.Tuple(expressions=given)


def _is_list(nodes: Sequence[exp.Expr], of: type[exp.Expr]) -> bool:
    return bool(nodes) and all(isinstance(each, of) for each in nodes)


def _single(row: exp.Expr) -> exp.Expr:
    return row.expressions[0] if isinstance(row, exp.Tuple) and len(row.expressions) == 1 else row


def _is_member(value: exp.Expr, rows: Sequence[exp.Expr]) -> exp.Expr | None:
    if not isinstance(value, exp.Tuple):
        return exp.In(this=value.copy(), expressions=[row.copy() for row in rows])
    if any(len(row.expressions) != len(value.expressions) for row in rows):
        return None
    return _any_holds([_equal(value.expressions, row.expressions) for row in rows])


def _is_between(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    return exp.Between(this=value.copy(), low=low.copy(), high=high.copy())


def _any_holds(parts: Sequence[exp.Expr]) -> exp.Expr:
    return exp.paren(_chained(exp.Or, parts))


def _chained(operator: Callable[..., exp.Expr], parts: Sequence[exp.Expr]) -> exp.Expr:
    made = parts[0]
    for part in parts[1:]:
        made = operator(this=made, expression=part)
    return made


def _write_rows_alike(node: exp.Expr) -> None:
    """Write ROW(a, b) as (a, b), if it is an operand of a comparison."""
    for name in ("this", "expression", "low", "high"):
        operand = node.args.get(name)
        if not isinstance(operand, exp.Expr) or isinstance(operand, exp.Tuple):
            continue
        if values := values_of_row(operand):
            row = exp.Tuple(expressions=[each.copy() for each in values])
            row.meta.update(operand.meta)
            node.set(name, row)


def _equal(ours: Sequence[exp.Expr], theirs: Sequence[exp.Expr], *, standard: bool = False) -> exp.Expr:
    """Return whether several values equal as many others. A null equals a null, as in Spark, except
    with `standard`."""
    equals = exp.EQ if standard else exp.NullSafeEQ
    pairs = zip(ours, theirs, strict=True)
    parts = [equals(this=one.copy(), expression=other.copy()) for one, other in pairs]
    return exp.paren(_chained(exp.And, parts))


def _quantified(node: exp.Expr, right: exp.Any | exp.All) -> exp.Expr | None:
    """Return the condition without ANY or ALL; None if these have neither a list nor a query."""
    of, is_any = right.this.unnest(), isinstance(right, exp.Any)
    if isinstance(of, exp.Query):
        return _with_query(node, of, is_any=is_any)
    if isinstance(of, exp.Tuple | exp.Array):
        values = of.expressions
        if _is_list(values, exp.Values):
            values = [_single(row) for row in values[0].expressions]
    elif isinstance(of, exp.Values):
        values = [_single(row) for row in of.expressions]
    elif isinstance(of, exp.Literal):
        values = [of]
    elif is_any and isinstance(node, exp.EQ):
        return exp.ArrayContains(this=of.copy(), expression=node.this.copy())
    elif not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    else:
        element = exp.to_identifier(_ELEMENT)
        holds = exp.Lambda(this=_replace_right(node, element), expressions=[element.copy()])
        if is_any:
            return exp.Exists(this=of.copy(), expression=holds)
        return exp.Anonymous(this="FORALL", expressions=[of.copy(), holds])
    parts = [_replace_right(node, value) for value in values]
    return exp.paren(_chained(exp.Or if is_any else exp.And, parts)) if parts else None


def _replace_right(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    made: exp.Expr = node.copy()
    made.set("expression", value.copy())
    return made


def _with_query(node: exp.Expr, query: exp.Query, *, is_any: bool) -> exp.Expr:
    if is_any and isinstance(node, exp.EQ):
        return exp.In(this=node.this.copy(), query=query.copy())
    if not is_any and isinstance(node, exp.NEQ):
        return exp.Not(this=exp.In(this=node.this.copy(), query=query.copy()))
    if isinstance(node, _COMPARISONS) and not _is_condition_of_where(node):
        quantifier = exp.Any if is_any else exp.All
        return _replace_right(node, quantifier(this=exp.Subquery(this=query.copy())))
    value = exp.to_identifier(_VALUE, quoted=True)
    names = exp.TableAlias(this=exp.to_identifier(_FOUND, quoted=True), columns=[value])
    condition = _replace_right(node, exp.column(value.copy()))
    if not is_any:
        # A comparison with null is not true, either.
        condition = exp.Not(this=exp.Is(this=exp.paren(condition), expression=exp.Boolean(this=True)))
    rows = exp.select("1").from_(exp.Subquery(this=query.copy(), alias=names)).where(condition)
    made = exp.Exists(this=rows)
    return made if is_any else exp.Not(this=made)


def _is_condition_of_where(node: exp.Expr) -> bool:
    """Return whether WHERE keeps only rows for which the condition is true."""
    around = node.parent
    while isinstance(around, exp.And | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where)


# --- joins --------------------------------------------------------------------------------------------


def _replace_semi_join(join: exp.Join) -> None:
    """Replace a SEMI or ANTI JOIN by EXISTS in WHERE. A join that decides for later outer joins, and
    USING with several tables to its left, are kept, and refused later."""
    select, kind = join.parent, join.args.get("kind")
    if kind not in ("SEMI", "ANTI") or not isinstance(select, exp.Select):
        return
    joins = select.args["joins"]
    place = next(n for n, each in enumerate(joins) if each is join)
    condition = join.args.get("on")
    if any(each.args.get("side") in ("RIGHT", "FULL") for each in joins[place:]):
        return
    if (names := join.args.get("using")) is not None:
        left, right = select.args["from_"].this.alias_or_name, join.this.alias_or_name
        if place or not left or not right:
            return
        parts = [
            exp.EQ(this=exp.column(name.copy(), left), expression=exp.column(name.copy(), right))
            for name in names
        ]
        condition = _chained(exp.And, parts)
    rows = exp.select("1").from_(join.this.copy())
    found: exp.Expr = exp.Exists(this=rows if condition is None else rows.where(condition.copy()))
    if kind == "ANTI":
        found = exp.Not(this=found)
    join.pop()
    select.where(found, copy=False)
