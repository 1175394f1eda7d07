"""AVG of decimals: the sum by the count, with four digits more than its values have, in all and behind
the point."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler

_MORE = 4


def with_decimal_means(compiler: Compiler, node: exp.Select) -> None:
    """Writes each AVG of decimals in SELECT and HAVING as a quotient. Raises ProgramError, SchemaError
    at the place in the text."""
    parts = [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]
    for part in parts:
        for mean in [*_means(part)]:
            values = mean.this.expressions[0] if isinstance(mean.this, exp.Distinct) else mean.this
            kind = types.signed(compiler.compile(values).type)
            if isinstance(kind, pl.Decimal):
                _replace(mean, kind)


def _means(node: exp.Expr) -> Iterator[exp.Avg]:
    if isinstance(node, exp.Avg):
        yield node
    elif not isinstance(node, exp.Query | exp.Subquery):
        for inner in node.iter_expressions():
            yield from _means(inner)


def _replace(mean: exp.Avg, kind: pl.Decimal) -> None:
    of: exp.Expr = mean
    while isinstance(of.parent, exp.Filter | exp.Window) and of.parent.this is of:
        of = of.parent
    made = types.decimal(kind.precision + _MORE, kind.scale + _MORE)
    total, number = _instead(of, exp.Sum), _instead(of, exp.Count)
    quotient: exp.Expr = exp.Cast(
        this=exp.Div(this=total, expression=number),
        to=exp.DataType.build(f"DECIMAL({made.precision}, {made.scale})"),
    )
    if isinstance(of.parent, exp.Select):
        quotient = exp.alias_(quotient, of.sql(dialect="spark"), quoted=True)
    of.replace(quotient)


def _instead(of: exp.Expr, call: type[exp.Expr]) -> exp.Expr:
    """The same, with another aggregate in the place of the mean."""
    if isinstance(of, exp.Avg):
        made = call(this=of.this.copy())
        made.meta.update(of.meta)
        return made
    made = of.copy()
    made.set("this", _instead(of.this, call))
    return made
