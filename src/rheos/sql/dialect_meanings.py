"""Differences in meaning between the SQL of Spark, Flink and PostgreSQL.

A query has Spark's meaning. `SET dialect = flink` or `postgres` selects the meaning that it has
there: the functions of `MEANINGS` rewrite what differs, and quotes, division and the order of nulls are
attributes of the parsers in `dialect`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rheos.sql.expressions.generators import ROWS
from rheos.sql.expressions.row_order import STANDARD_NULLS, values_of_row
from rheos.sql.text import WRITTEN_NAME, SourceDialect, SqlText

CHANGED = "changed meaning"
"""Key of a node's metadata: what its meaning is, where Spark's is another one."""


Meaning = Callable[[SqlText, exp.Expr], tuple[exp.Expr, str] | None]
"""Return the node with Spark's words for the meaning, and a note; None if the meanings are equal."""


def with_meanings(sql: SqlText, statement: exp.Expr, dialect: SourceDialect) -> exp.Expr:
    """Return the statement in Spark's words. Raise ProgramError at what has no such words."""
    meanings = MEANINGS[dialect]
    for node in reversed([*statement.find_all(*meanings)]) if meanings else ():
        found = meanings[type(node)](sql, node)
        if found is None:
            continue
        made, note = found
        made.meta[CHANGED] = f"{note}, as in {dialect.value}"
        if made is not node:
            node.replace(made)
    return statement


def _whole_division(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    return node, "/ of two whole numbers is a whole number"


def _log(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if node.args.get("expression") is not None:
        return None
    return _call("log10", node, node.this), "LOG of one number is to the base 10"


def _call(name: str, of: exp.Expr, *arguments: exp.Expr) -> exp.Expr:
    made = exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])
    made.meta.update(of.meta)
    made.meta[WRITTEN_NAME] = name
    return made


def _day_of_week(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    is_part = isinstance(node, exp.Anonymous) and node.name.upper() == "DATE_PART"
    part = node.expressions[0] if is_part and node.expressions else node.this
    if not isinstance(part, exp.Expr) or part.name.upper() != "DOW":
        return None
    one = exp.Literal.number(1)
    return exp.paren(exp.Sub(this=node.copy(), expression=one)), "DOW is 0 on Sunday"


def _of_name(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return the meaning of a function that has no class of nodes."""
    return _rows(node) or _day_of_week(sql, node)


def _rows(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Mark the calls that return arrays elsewhere, where they stand for rows."""
    if node.name.casefold() not in ("generate_series", "json_object_keys"):
        return None
    if isinstance(node.parent, exp.Func | exp.Table | exp.Lateral):
        return None
    node.meta[ROWS] = True
    return node, f"{node.name.upper()} returns rows"


def _row_with_nulls(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Mark comparisons of rows."""
    if not values_of_row(node.this):
        return None
    node.meta[STANDARD_NULLS] = True
    return node, "a comparison of rows with a null is null"


def _concat(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    nothing = exp.Literal.string("")
    parts = [
        exp.Coalesce(this=exp.cast(each.copy(), "STRING"), expressions=[nothing.copy()])
        for each in node.expressions
    ]
    made = exp.Concat(expressions=parts, safe=True, coalesce=False)
    made.meta.update(node.meta)
    return made, "CONCAT leaves out nulls"


def _substring(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or (isinstance(start, exp.Literal) and start.name.isdecimal() and int(start.name)):
        return None
    one = exp.Literal.number(1)
    node.set("start", exp.Greatest(this=start.copy(), expressions=[one.copy()]))
    if length is not None:
        before = exp.Sub(this=exp.Least(this=start.copy(), expressions=[one.copy()]), expression=one)
        left = exp.Add(this=exp.paren(length.copy()), expression=exp.paren(before))
        node.set("length", exp.Greatest(this=left, expressions=[exp.Literal.number(0)]))
    return node, "SUBSTRING counts positions before the first character"


def _every_match(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    flags = node.args.get("position") or node.args.get("modifiers")
    if flags is None or flags.name != "g":
        raise sql.error(
            "REGEXP_REPLACE of postgres replaces the first match, which is not computed",
            node,
            "write REGEXP_REPLACE(name, '[0-9]+', '#', 'g') to replace all of them",
        )
    node.set("position", None)
    node.set("modifiers", None)
    return None


def _no_power(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    raise sql.error("^ is a power in postgres", node, "write POWER(a, b)")


def _whole_match(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if node.args.get("group") is not None:
        return None
    node.set("group", exp.Literal.number(0))
    return node, "REGEXP_EXTRACT without a group returns the whole match"


def _null_if_any(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    values = [node.this, *node.expressions]
    nulls = [exp.Is(this=each.copy(), expression=exp.Null()) for each in values]
    made = exp.Case(ifs=[exp.If(this=each, true=exp.Null()) for each in nulls], default=node.copy())
    return made, f"{node.key.upper()} of a null is null"


MEANINGS: dict[SourceDialect, dict[type[exp.Expr], Meaning]] = {
    SourceDialect.SPARK: {},
    SourceDialect.FLINK: {
        exp.Div: _whole_division,
        exp.RegexpExtract: _whole_match,
        exp.Greatest: _null_if_any,
        exp.Least: _null_if_any,
    },
    SourceDialect.POSTGRES: {
        exp.Div: _whole_division,
        exp.Log: _log,
        exp.Extract: _day_of_week,
        exp.Anonymous: _of_name,
        exp.Concat: _concat,
        exp.Substring: _substring,
        exp.RegexpReplace: _every_match,
        exp.BitwiseXor: _no_power,
        **dict.fromkeys(
            (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between), _row_with_nulls
        ),
    },
}
"""By the kind of node: what differs from Spark."""
