"""Each function and operator that cannot fail on a row is listed under its Polars name.

Spark's readers receive no filter that contains an unlisted name, so a new name would silently switch
pushdown off. `test_pushdown.py` compares the filters that are passed with Spark."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from polars import col

from rheos.core.graph.expression_trees import subtrees, tree_of
from rheos.runtimes.batch.pushdown import _SAFE_FUNCTIONS, _SAFE_OPS, _cannot_fail, _function_name

SCHEMA = pa.schema({"x": pa.float64(), "y": pa.float64(), "s": pa.string(), "t": pa.timestamp("us")})
X, Y, S, T = (col(name) for name in SCHEMA.names)

SAFE = [
    *(X == 1, X != 1, X.lt(1), X <= 1, X > 1, X >= 1, X.eq_missing(Y), X.ne_missing(Y)),
    *(
        X + 1,
        X - 1,
        X * 1,
        X / 2,
        X // 2,
        X % 2,
        (X > 1) & (X < 2),
        (X > 1) | (X < 2),
        (X > 1) ^ (Y > 1),
    ),
    *(
        X.is_null(),
        X.is_not_null(),
        X.is_nan(),
        X.is_not_nan(),
        X.is_finite(),
        X.is_infinite(),
        ~(X > 1),
    ),
    *(
        X.is_in([1.0]),
        X.is_between(1, 2),
        pl.all_horizontal(X > 1, Y > 1),
        pl.any_horizontal(X > 1, Y > 1),
    ),
    *(X.fill_null(0), -X, X.abs(), S.str.starts_with("a"), S.str.ends_with("a"), S.str.contains("ab")),
    *(S.str.to_lowercase(), S.str.to_uppercase(), S.str.len_bytes(), S.str.len_chars()),
    *(T.dt.year(), T.dt.month(), T.dt.day(), T.dt.hour(), T.dt.minute(), T.dt.second(), T.dt.weekday()),
    *(
        T.dt.ordinal_day(),
        X.cast(pl.Int64, strict=False),
        pl.when(X > 1).then(1).otherwise(Y),
        X.alias("z"),
    ),
    pl.sql_expr("x > 1 and s like 'a%' or x in (1, 2)"),
]


@pytest.mark.parametrize("expr", SAFE, ids=str)
def test_safe_expressions_are_recognised(expr: pl.Expr) -> None:
    assert _cannot_fail(expr, SCHEMA)


@pytest.mark.parametrize(
    "expr", [X.cast(pl.Int64), S.str.to_datetime("%Y"), S.str.contains("a(")], ids=str
)
def test_expressions_that_may_fail_are_not_safe(expr: pl.Expr) -> None:
    assert not _cannot_fail(expr, SCHEMA)


def test_all_listed_names_exist_in_polars() -> None:
    parts = [part for expr in SAFE for part in subtrees(tree_of(expr)) if isinstance(part, dict)]
    assert {part["BinaryExpr"]["op"] for part in parts if "BinaryExpr" in part} == _SAFE_OPS
    functions = {_function_name(part["Function"]["function"]) for part in parts if "Function" in part}
    assert functions - {"Contains"} == _SAFE_FUNCTIONS
