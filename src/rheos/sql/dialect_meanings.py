"""Differences in meaning between the SQL of Spark, Flink and PostgreSQL.

A query has Spark's meaning. `SET dialect = flink` or `postgres` selects the meaning that it has
there: the functions of `MEANINGS` rewrite what differs, and quotes, division and the order of nulls are
attributes of the parsers in `dialect`.
"""

from __future__ import annotations

from sqlglot import exp

from rheos.sql import postgres_meanings
from rheos.sql.expressions.periods import WITH_ENDS
from rheos.sql.java_patterns import UnknownPatternError
from rheos.sql.postgres_meanings import Meaning, whole_division
from rheos.sql.postgres_parser import call
from rheos.sql.text import WRITTEN_NAME, SourceDialect, SqlText

CHANGED = "changed meaning"
"""Key of a node's metadata: what its meaning is, where Spark's is another one."""


def with_meanings(sql: SqlText, statement: exp.Expr, dialect: SourceDialect) -> exp.Expr:
    """Return the statement in Spark's words. Raise ProgramError at what has no such words."""
    meanings = MEANINGS[dialect]
    for node in reversed([*statement.find_all(*meanings)]) if meanings else ():
        meaning = meanings.get(type(node))
        try:
            found = None if meaning is None else meaning(sql, node)
        except UnknownPatternError as error:
            raise sql.error(f"this is not a valid pattern: {error}", node) from None
        if found is None:
            continue
        made, note = found
        if note:
            made.meta[CHANGED] = f"{note}, as in {dialect.value}"
        if made is not node:
            node.replace(made)
    return statement


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


def _from_one(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Count the elements of an array from 1. MAP['a', 1], and map['a'], stay as they are."""
    if len(node.expressions) != 1 or node.expressions[0].is_string or node.args.get("offset"):
        return None
    node.set("offset", 1)
    return node, "list[1] is the first element"


def _whole_number(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    unit = node.this.name.upper()
    if unit not in ("SECOND", "EPOCH"):
        return None
    return exp.cast(node.copy(), "BIGINT"), f"EXTRACT({unit} ...) is a whole number"


def _with_ends(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    node.meta[WITH_ENDS] = True
    return node, "the ends of periods belong to them in OVERLAPS"


def _named_call(sql: SqlText, node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Change calls that sqlglot has no nodes for."""
    name, given = node.name.upper(), [each.copy() for each in node.expressions]
    if name == "FROM_BASE64" and len(given) == 1:
        return exp.cast(node.copy(), "STRING"), "FROM_BASE64 returns a string"
    if name == "STR_TO_MAP" and len(given) == 1:
        made = node.copy()
        made.set("expressions", [*given, exp.Literal.string(","), exp.Literal.string("=")])
        return made, "STR_TO_MAP separates keys from values by ="
    if name == "TO_TIMESTAMP_LTZ" and len(given) == 1:
        made = call("flink.to_timestamp_ltz", *given, of=node)
        made.meta[WRITTEN_NAME] = name
        return made, "TO_TIMESTAMP_LTZ of a number takes milliseconds"
    return None


MEANINGS: dict[SourceDialect, dict[type[exp.Expr], Meaning]] = {
    SourceDialect.SPARK: {},
    SourceDialect.FLINK: {
        exp.Div: whole_division,
        exp.RegexpExtract: _whole_match,
        exp.Bracket: _from_one,
        exp.Extract: _whole_number,
        exp.Anonymous: _named_call,
        exp.Greatest: _null_if_any,
        exp.Least: _null_if_any,
        exp.Overlaps: _with_ends,
    },
    SourceDialect.POSTGRES: postgres_meanings.MEANINGS,
}
"""By the kind of node: what differs from Spark."""
