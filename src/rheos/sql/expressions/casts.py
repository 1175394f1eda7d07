"""CAST, and the types that it names."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.text import SqlText, as_sql

_KINDS = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": pl.Int8(),
    "SMALLINT": pl.Int16(),
    "INT": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": pl.Float32(),
    "DOUBLE": types.DOUBLE,
    "TEXT": types.TEXT,
    "VARCHAR": types.TEXT,
    "BINARY": pl.Binary(),
    "VARBINARY": pl.Binary(),
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMPTZ": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP,
    "TIMESTAMPNTZ": pl.Datetime("us"),
}

_UNITS = {"0": "ms", "3": "ms", "6": "us", "9": "ns"}


def named_type(sql: SqlText, node: exp.DataType) -> pl.DataType:
    """Return the type that a node names. Raises ProgramError."""
    sql.only(node, ("this", "expressions", "nested"))
    word = node.this.name if hasattr(node.this, "name") else str(node.this)
    parameters = [each.name for each in node.expressions]
    if word == "DECIMAL":
        said = [int(each) for each in parameters] or [10]
        digits, scale = said if len(said) == 2 else (said[0], 0)
        if not 1 <= digits <= types.MOST_DIGITS or scale > digits:
            raise sql.error(
                f"DECIMAL({digits}, {scale}) is not a valid type", node, "write DECIMAL(10, 2)"
            )
        return pl.Decimal(digits, scale)
    if word == "ARRAY" and len(node.expressions) == 1:
        return pl.List(named_type(sql, node.expressions[0]))
    kind = _KINDS.get(word)
    if kind is None:
        raise sql.error(
            f"unknown type {as_sql(node)}",
            node,
            "the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(10, "
            "2), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ and ARRAY<...>",
        )
    if parameters and types.is_timestamp(kind):
        unit = _UNITS.get(parameters[0])
        if unit is None:
            raise sql.error("the precision of a time must be 3, 6 or 9", node, "write TIMESTAMP(3)")
        assert isinstance(kind, pl.Datetime)
        return pl.Datetime(unit, kind.time_zone)  # type: ignore[arg-type]
    return kind


@computes(exp.Cast, exp.TryCast)
def cast(compiler: Compiler, node: exp.Cast) -> Typed:
    compiler.sql.only(node, ("this", "to", "safe", "requires_string"))
    value, to = compiler.compile(node.this), named_type(compiler.sql, node.to)
    if isinstance(to, pl.List):
        raise compiler.sql.error("a cast to ARRAY is not computed yet", node)
    if types.is_timestamp(to) or to == types.DATE:
        value = compiler.cast_text(value, to)
    made = _tried(value, to) if node.args.get("safe") else None
    if made is None:
        # The cast of a constant stays, even to its own type: arithmetic takes a bare constant of
        # decimals and integers for one of as few digits as it has.
        made = value.expr.cast(to) if value.type == to else types.cast(value.expr, value.type, to)
    if made is None:
        raise compiler.sql.wrong_type(
            f"{types.name(value.type)} cannot be cast to {types.name(to)}", node, "leave out the cast"
        )
    return Typed(made, to, node)


def _tried(value: Typed, to: pl.DataType) -> pl.Expr | None:
    """Return the result of TRY_CAST if it differs from CAST: it drops no digits and does not wrap."""
    if not types.is_integer(to):
        return None
    if value.type == types.TEXT:
        return types.whole_number_of(value.expr, r"\d+").cast(to, strict=False)
    if types.is_integer(value.type):
        return value.expr.cast(to, strict=False)
    if types.is_floating(value.type):
        return pl.when(value.expr.is_finite()).then(
            value.expr.cast(types.DOUBLE).cast(to, strict=False)
        )
    return None
