"""String literals that take the type of the values around them, as in PostgreSQL: n = '3'."""

from __future__ import annotations

import re

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.text import SqlText

UNTYPED = "untyped"
"""Key of a literal's metadata: whether it takes the type of the values around it."""

_WHOLE = re.compile(r"\s*([+-]?)(\d+)\s*")
_NUMBER = re.compile(r"\s*([+-]?)(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)\s*")


def read_as(sql: SqlText, node: exp.Expr, kind: pl.DataType) -> exp.Expr:
    """Return an untyped literal next to values of a type as a literal of this type, and other nodes
    unchanged. Raise SchemaError if it is no number."""
    if not node.meta.get(UNTYPED) or not (types.is_number(kind) or kind == types.BOOLEAN):
        return node
    if kind == types.BOOLEAN or node.name.strip().casefold() in ("nan", "infinity", "-infinity"):
        made: exp.Expr = exp.Cast(
            this=exp.Literal.string(node.name.strip()),
            to=exp.DataType.build("boolean" if kind == types.BOOLEAN else "double"),
        )
    else:
        found = (_WHOLE if types.is_integer(kind) else _NUMBER).fullmatch(node.name)
        if found is None:
            raise sql.wrong_type(
                f"{node.name!r} is not a valid {types.name(kind)}", node, "write a number"
            )
        made = exp.Literal.number(found[2])
        if found[1] == "-":
            made = exp.Neg(this=made)
    for each in made.walk():
        each.meta.update({name: value for name, value in node.meta.items() if name != UNTYPED})
    return made
