"""Stream expressions: Polars expressions over the columns of one row, checked when they are written.

The division of rows into batches is an implementation detail, so an expression may read only its own
row. `col("v").mean()` or `.shift()` would return a result per batch, so these are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.api.comparisons import misfits
from rheos.api.row_separable import check_row_separable, shallow_tree
from rheos.api.sql_text import read_sql
from rheos.core.callables import check_callable
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.exact_decimals import exact
from rheos.core.graph.expression_trees import FAILURES, spell_expression
from rheos.core.graph.types import empty_frame, from_polars
from rheos.core.graph.validate import check_columns, unknown_column

ExprLike: TypeAlias = pl.Expr | str
"""A Polars expression, the name of a column, or an SQL string such as `"status < 400"`."""

Op: TypeAlias = Literal["filter", "select", "with_columns"]
Method: TypeAlias = Op | Literal["where", "until"]
"""Methods that take expressions. The conditions of a pattern are checked like those of a filter."""

_CONDITIONS = ("filter", "where", "until")


def compile_expressions(
    op: Method, given: Sequence[Any], named: Mapping[str, Any], schema: pa.Schema
) -> tuple[tuple[pl.Expr, ...], pa.Schema]:
    """Return the checked expressions of an operator, and the schema of its output.

    Raise SchemaError for unknown columns and wrong types, and ProgramError for anything that is not one
    expression per row.
    """
    exprs = [_expression(item, schema, op) for item in _flatten(given)]
    exprs += [_expression(item, schema, op, literal=True).alias(name) for name, item in named.items()]
    if not exprs:
        raise ProgramError(f"{op}() needs an expression", hint=_example(op))
    frame = empty_frame(schema).lazy()
    outputs: list[list[str]] = []
    for expr in exprs:
        spelled = spell_expression(expr)
        tree = shallow_tree(expr, spelled)
        typed = _typed(frame, expr, schema)
        check_row_separable(tree, spelled, frame)
        if op in _CONDITIONS and not typed:
            raise SchemaError(
                f"{op}() needs a condition, and {spelled} selects no column",
                hint="the columns here are " + ", ".join(schema.names),
            )
        if op in _CONDITIONS and any(kind != pl.Boolean for kind in typed.dtypes()):
            raise SchemaError(
                f"{op}() needs a condition, and {spelled} is {typed.dtypes()[0]}",
                hint='compare it with something, as in col("status") < 400',
            )
        for compared, error in misfits(tree, frame):
            raise _misfit(compared, error, schema)
        outputs.append(typed.names())
    if op in _CONDITIONS:
        several = (expr.meta.has_multiple_outputs() for expr in exprs)
        return tuple(
            pl.all_horizontal(expr) if all_hold else expr
            for expr, all_hold in zip(exprs, several, strict=True)
        ), schema
    _check_distinct([name for names in outputs for name in names], op)
    computing = exact(exprs, frame)
    typed = (
        frame.select(computing) if op == "select" else frame.with_columns(computing)
    ).collect_schema()
    # A plain column is passed through unchanged.
    computed = {
        name
        for expr, names in zip(exprs, outputs, strict=True)
        for name in names
        if not expr.meta.is_column()
    }
    made = from_polars(pl.Schema({name: typed[name] for name in typed if name in computed}))
    result = pa.schema([(made if name in computed else schema).field(name) for name in typed])
    check_columns(result)
    return tuple(exprs), result


def check_gap(gap: Any, schema: pa.Schema) -> None:
    """Return the gap of a session with gaps per row: an expression of a duration, or of whole ms.

    A function is checked only when it is called with rows. Raise SchemaError or ProgramError.
    """
    if not isinstance(gap, pl.Expr):
        check_callable(gap, "Session", ["a record"])
        return
    _, typed = compile_expressions("select", [gap], {}, schema)
    kinds = typed.types
    if len(kinds) != 1 or not (pa.types.is_integer(kinds[0]) or pa.types.is_duration(kinds[0])):
        raise SchemaError(
            "the gap of a session must be a duration or an integer number of ms, but "
            f"{spell_expression(gap)} is {', '.join(map(str, kinds))}",
            hint='write rh.Session(gap=rh.col("gap_s") * 1000)',
        )


def _flatten(given: Sequence[Any]) -> list[Any]:
    return [item for one in given for item in (one if isinstance(one, list | tuple) else [one])]


def _expression(item: Any, schema: pa.Schema, op: Method, *, literal: bool = False) -> pl.Expr:
    if isinstance(item, pl.Expr):
        return item
    if isinstance(item, str):
        if item in schema.names:
            return pl.col(item)
        if re.fullmatch(r"\w+", item):
            raise unknown_column(item, schema)
        return read_sql(item, schema.names, _example(op))
    if literal and (item is None or isinstance(item, bool | int | float | bytes | Decimal)):
        return pl.lit(item)
    raise ProgramError(f"{op}() takes expressions, not {item!r}", hint=_example(op))


def _example(op: Method) -> str:
    return {
        "filter": 'write .filter(col("status") < 400)',
        "where": 'write .where(col("price") > 10)',
        "until": 'write .until(col("price") > 10)',
        "select": 'write .select("user", total=col("price") * col("n"))',
        "with_columns": 'write .with_columns(total=col("price") * col("n"))',
    }[op]


def _typed(frame: pl.LazyFrame, expr: pl.Expr, schema: pa.Schema) -> pl.Schema:
    try:
        return frame.select(exact([expr], frame)).collect_schema()
    except pl.exceptions.ColumnNotFoundError as error:
        name = re.search(r'"([^"]*)"', str(error))
        if name is None:
            raise SchemaError(f"{spell_expression(expr)}: {_first_line(error)}") from None
        raise unknown_column(name.group(1), schema, f" in {spell_expression(expr)}") from None
    except FAILURES as error:
        raise _misfit(expr, error, schema) from None


def _misfit(expr: pl.Expr, error: Exception, schema: pa.Schema) -> SchemaError:
    return SchemaError(
        f"{spell_expression(expr)} does not fit the columns: {_first_line(error)}",
        hint="the columns here are " + ", ".join(f"{f.name}: {f.type}" for f in schema),
    )


def _check_distinct(names: list[str], op: Method) -> None:
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(
                f"{op}() returns two columns named {name!r}",
                hint=f'rename one of them: .{op}(total=col("price") * col("n"))',
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
