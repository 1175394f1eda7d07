"""CAST, and the types that it names."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_types, types, variants
from rheos.sql.expressions.table import ANY, Compiler, Typed, computes, computes_named
from rheos.sql.json_values import checked
from rheos.sql.jsonb_values import canonical_text
from rheos.sql.text import SqlText, as_sql
from rheos.sql.value_functions import of_values

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
    "VARIANT": types.VARIANT,
    "JSON": types.TEXT,
    "JSONB": types.TEXT,
}

_UNITS = {"0": "ms", "3": "ms", "6": "us", "9": "ns"}


def named_type(sql: SqlText, node: exp.DataType, at: exp.Expr | None = None) -> pl.DataType:
    """Return the type that is written. Raise ProgramError, at another place if the type is part of a
    string.
    """
    if at is None:
        sql.only(node, ("this", "expressions", "nested"))
    at = at or node
    word = node.this.name if hasattr(node.this, "name") else str(node.this)
    parameters = [each.name for each in node.expressions]
    if word == "DECIMAL":
        numbers = [int(each) for each in parameters] or [10]
        digits, scale = numbers if len(numbers) == 2 else (numbers[0], 0)
        if not 1 <= digits <= types.MOST_DIGITS or scale > digits:
            raise sql.error(
                f"DECIMAL({digits}, {scale}) is not a valid type", at, "write DECIMAL(10, 2)"
            )
        return pl.Decimal(digits, scale)
    if word == "ARRAY" and len(node.expressions) == 1:
        return pl.List(named_type(sql, node.expressions[0], at))
    if word == "STRUCT" and node.expressions:
        return _struct(sql, node, at)
    if word == "MAP" and len(node.expressions) == 2:
        return pl.Map(*(named_type(sql, each, at) for each in node.expressions))
    kind = _KINDS.get(word)
    if kind is None:
        raise sql.error(
            f"unknown type {node.sql()}",
            at,
            "the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(10, "
            "2), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, ARRAY<...>, MAP<...> and "
            "STRUCT<...>",
        )
    if parameters and types.is_timestamp(kind):
        unit = _UNITS.get(parameters[0])
        if unit is None:
            raise sql.error("the precision of a time must be 3, 6 or 9", at, "write TIMESTAMP(3)")
        assert isinstance(kind, pl.Datetime)
        return pl.Datetime(unit, kind.time_zone)  # type: ignore[arg-type]
    return kind


def _struct(sql: SqlText, node: exp.DataType, at: exp.Expr) -> pl.DataType:
    fields: dict[str, pl.DataType] = {}
    for field in node.expressions:
        to = field.args.get("kind")
        if not isinstance(to, exp.DataType) or field.name in fields:
            raise sql.error(
                f"{as_sql(field)} is not a field with a type", at, "write 'a INT, b STRING'"
            )
        fields[field.name] = named_type(sql, to, at)
    return pl.Struct(fields)


@computes(exp.Cast, exp.TryCast)
def cast(compiler: Compiler, node: exp.Cast) -> Typed:
    compiler.sql.only(node, ("this", "to", "safe", "requires_string"))
    value = compiler.compile(node.this)
    if node.to.this in (exp.DType.JSON, exp.DType.JSONB):
        # As in PostgreSQL, equal documents are equal strings as JSONB; JSON stays as it is written.
        read = canonical_text if node.to.this == exp.DType.JSONB else checked
        text = compiler.text(node.this, "JSON").expr
        return Typed(of_values(read, [text], types.TEXT), types.TEXT, node)
    to = named_type(compiler.sql, node.to)
    if value.type == types.VARIANT:
        return Typed(cast_variant(compiler, value, to, node), to, node)
    if to == types.VARIANT:
        return Typed(variant_of(value), to, node)
    if isinstance(to, pl.Struct) and not isinstance(value.type, pl.Struct):
        raise compiler.sql.error(f"a cast to {types.name(to)} is not computed yet", node)
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


@computes_named("typeof")
def typeof(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (ANY,))
    return Typed(pl.lit(types.ddl(value.type)), types.TEXT, node)


def cast_variant(compiler: Compiler, value: Typed, to: pl.DataType, at: exp.Expr) -> pl.Expr:
    """Return a VARIANT as another type, with null where it does not fit. Raise SchemaError."""
    if to == types.VARIANT:
        return value.expr
    if not json_types.has_json_form(to):
        raise compiler.sql.wrong_type(
            f"VARIANT cannot be cast to {types.name(to)}", at, "cast it to STRING"
        )
    return of_columns(partial(json_types.cast_variants, kind=to), [variants.documents(value.expr)], to)


def variant_of(value: Typed) -> pl.Expr:
    """Return a value of another type as VARIANT."""
    return variants.of_documents(of_columns(variants.documents_of, [value.expr], types.TEXT))


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
