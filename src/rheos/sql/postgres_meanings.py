"""Meanings of a query in PostgreSQL, in nodes that are compiled (`dialect_meanings`)."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rheos.sql.expressions.generators import ROWS
from rheos.sql.expressions.intervals import CALENDAR, WHOLE_DAYS
from rheos.sql.expressions.postgres_casts import PostgresCast
from rheos.sql.expressions.postgres_json import returns_json
from rheos.sql.expressions.row_order import STANDARD_NULLS, values_of_row
from rheos.sql.expressions.untyped_literals import UNTYPED
from rheos.sql.json_parser import JsonArrow, JsonObject
from rheos.sql.postgres_parser import call
from rheos.sql.postgres_patterns import java_pattern
from rheos.sql.postgres_values import interval_of
from rheos.sql.stars import COUNTS_ROWS
from rheos.sql.text import SqlText, as_sql
from rheos.sql.values import COLUMN_STEM

Meaning = Callable[[SqlText, exp.Expr], tuple[exp.Expr, str] | None]
"""Return the node with Spark's words for the meaning, and a note, which is empty if Spark refuses
the node; None if the meanings are equal."""


def whole_division(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    return node, "/ of two whole numbers is a whole number"


# --- numbers and times --------------------------------------------------------------------------------


def _log(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if node.args.get("expression") is not None:
        return None
    return call("log10", node.this.copy(), of=node), "LOG of one number is to the base 10"


def _day_of_week(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    part = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    if not isinstance(part, exp.Expr) or part.name.upper() != "DOW":
        return None
    one = exp.Literal.number(1)
    return exp.paren(exp.Sub(this=node.copy(), expression=one)), "DOW is 0 on Sunday"


def _named(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    match node.name.upper(), node.expressions:
        case "DATE_PART", [_, *_]:
            return _day_of_week(sql, node)
        case (("GENERATE_SERIES" | "JSON_OBJECT_KEYS"), _):
            return _rows(node)
        case "TIMEZONE", [zone, time]:
            return exp.AtTimeZone(this=time.copy(), zone=zone.copy()), ""
    return None


def _rows(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Mark the calls that return rows here, and arrays elsewhere."""
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


def _at_time_zone(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    zone = node.args["zone"]
    if isinstance(zone, exp.Literal) and zone.name.upper() in ("UTC", "GMT", "Z"):
        zone.set("this", zone.name.upper())
    return None


def _difference(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    node.meta[WHOLE_DAYS] = True
    if returns_json(node.this):
        return call("pg.json_delete", node.this.copy(), node.expression.copy(), of=node), ""
    return None


def _overlaps(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    sides = [side.expressions for side in (node.this, node.expression)]
    if [*map(len, sides)] != [2, 2]:
        return None
    return call("pg.overlaps", *(each.copy() for side in sides for each in side), of=node), ""


# --- casts --------------------------------------------------------------------------------------------

_ROUNDED = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)


def _has_months(interval: str) -> bool:
    """Return whether an interval has months, so that its length depends on a time."""
    return interval_of(interval) is None


def _interval(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return INTERVAL '2 hours ago' and INTERVAL 'P1D' as casts."""
    text = node.this
    if CALENDAR in node.meta:
        return None
    if node.args.get("unit") is not None or not isinstance(text, exp.Literal) or _has_months(text.name):
        made = node.copy()
        made.meta[CALENDAR] = True
        return made, ""
    made = PostgresCast(this=text.copy(), to=exp.DataType(this=exp.DType.INTERVAL))
    made.meta.update(node.meta)
    return made, ""


def _cast(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    to, value = node.args["to"], node.this
    if to.this == exp.DType.INTERVAL and isinstance(value, exp.Literal) and _has_months(value.name):
        interval = exp.Interval(this=value.copy())
        interval.meta.update({**node.meta, CALENDAR: True})
        return interval, ""
    if to.this == exp.DType.ARRAY and isinstance(value, exp.Array) and not value.expressions:
        value = exp.Literal.string("{}")
    made = PostgresCast(this=value.copy(), to=to.copy())
    made.meta.update(node.meta)
    for kind in made.args["to"].find_all(exp.DataType):
        if kind.this == exp.DType.TIMESTAMP:
            kind.set("this", exp.DType.TIMESTAMPNTZ)
    rounds = to.this in _ROUNDED and not isinstance(value, exp.Literal)
    return made, "a cast to an integer rounds" if rounds else ""


# --- strings ------------------------------------------------------------------------------------------


def _concat(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    nothing = exp.Literal.string("")
    text = exp.DataType.build("text")
    parts = [
        exp.Coalesce(this=PostgresCast(this=each.copy(), to=text.copy()), expressions=[nothing.copy()])
        for each in node.expressions
    ]
    made = exp.Concat(expressions=parts, safe=True, coalesce=False)
    made.meta.update(node.meta)
    return made, "CONCAT leaves out nulls"


def _pipe(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if returns_json(node.this) or returns_json(node.expression):
        return call("pg.json_concat", node.this.copy(), node.expression.copy(), of=node), ""
    return None


def _substring(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or (isinstance(start, exp.Literal) and start.name.isdecimal() and int(start.name)):
        return None
    if isinstance(start, exp.Literal) and start.is_string:
        escape = None if length is None else length.copy()
        return call("pg.substring", node.this.copy(), start.copy(), escape, of=node), ""
    one = exp.Literal.number(1)
    node.set("start", exp.Greatest(this=start.copy(), expressions=[one.copy()]))
    if length is not None:
        before = exp.Sub(this=exp.Least(this=start.copy(), expressions=[one.copy()]), expression=one)
        left = exp.Add(this=exp.paren(length.copy()), expression=exp.paren(before))
        node.set("length", exp.Greatest(this=left, expressions=[exp.Literal.number(0)]))
    return node, "SUBSTRING counts positions before the first character"


def _pattern(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and pattern.is_string:
        pattern.set("this", java_pattern(pattern.name))
    return None


def _collation(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    return (node.this.copy(), "") if node.expression.name in ("C", "POSIX", "default") else None


# --- literals -----------------------------------------------------------------------------------------


def _literal(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if node.is_string:
        node.meta[UNTYPED] = True
    return None


# --- rows ---------------------------------------------------------------------------------------------


def _values(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    node.meta[COLUMN_STEM] = "column"
    return None


def _count(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return the number of rows of a table: outer joins add rows without one."""
    of = node.this
    if not (isinstance(of, exp.Column) and isinstance(of.this, exp.Star)):
        return None
    note = f"{as_sql(node)} counts rows, also those with nulls"
    select = node.find_ancestor(exp.Select)
    joins = [] if select is None else select.args.get("joins") or []
    if any(each.args.get("side") for each in joins):
        node.meta[COUNTS_ROWS] = True
    else:
        node.set("this", exp.Star())
    return node, note


# --- arrays and JSON ----------------------------------------------------------------------------------


def _bracket(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    if node.args.get("offset") is not None or len(node.expressions) != 1:
        return None
    [place] = node.expressions
    if isinstance(place, exp.Slice):
        first, last = place.this, place.expression
        bounds = [exp.Null() if each is None else each.copy() for each in (first, last)]
        return call("pg.slice", node.this.copy(), *bounds, of=node), ""
    if returns_json(node.this):
        return JsonArrow(this=node.this.copy(), expression=place.copy(), as_text=False), ""
    return call("pg.element", node.this.copy(), place.copy(), of=node), "list[1] is the first element"


def _json_object(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    given = node.expressions
    is_array = [
        isinstance(each, exp.Array | exp.Cast) or (each.is_string and each.name.startswith("{"))
        for each in given
    ]
    if not given or not all(is_array):
        return None
    return call("jsonb_object", *(each.copy() for each in given), of=node), ""


MEANINGS: dict[type[exp.Expr], Meaning] = {
    exp.Div: whole_division,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between), _row_with_nulls),
    exp.Log: _log,
    exp.Extract: _day_of_week,
    exp.Anonymous: _named,
    exp.AtTimeZone: _at_time_zone,
    exp.Sub: _difference,
    exp.Overlaps: _overlaps,
    exp.Interval: _interval,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Concat: _concat,
    exp.DPipe: _pipe,
    exp.Substring: _substring,
    exp.RegexpLike: _pattern,
    exp.RegexpILike: _pattern,
    exp.Collate: _collation,
    exp.Values: _values,
    exp.Literal: _literal,
    exp.Count: _count,
    exp.Bracket: _bracket,
    JsonObject: _json_object,
}
"""By the kind of node: what differs from Spark."""
