"""Expressions that a stream accepts: those whose result depends on their own row only."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from polars import col

from rheos.api.expressions import Op, compile_expressions
from rheos.core.errors import ProgramError, SchemaError

SCHEMA = pa.schema(
    [("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64())), ("at", pa.timestamp("us"))]
)

ROW_WISE = [
    col("n") + 1,
    -(col("n").abs() ** 2),
    pl.when(col("n") > 1).then(pl.lit("x")).otherwise(pl.lit("y")),
    col("n").is_in([1, 2]),
    col("n").is_in(col("l")),
    col("n").cast(pl.Float64).round(1),
    col("s").str.split(","),
    col("s").str.to_datetime("%Y-%m-%d"),
    col("s").replace({"a": "b"}),
    col("at").dt.truncate("1h"),
    col("l").list.eval(pl.element() - pl.element().mean()),
    col("l").list.sum(),
    pl.struct("n", "s").struct.field("n").alias("m"),
    pl.struct("n", "s").struct.with_fields(pl.field("n") + 1),
    pl.coalesce("n", 0),
    pl.max_horizontal("n", pl.lit(3)),
    pl.format("{}-{}", "n", "s"),
    pl.col("n", "l").name.suffix("_2"),
    pl.all().is_null(),
    pl.sql_expr("n * 2 + n % 3"),
    pl.sql_expr("n IN (1, 2) AND upper(s) = 'A'"),
    pl.sql_expr("CASE WHEN n BETWEEN 1 AND 2 THEN round(n / 3, 1) END"),
]

NOT_ROW_WISE = [
    col("n").mean(),
    col("n") - col("n").mean(),
    col("n").sum().cast(pl.Int32) + 1,
    col("n").cum_sum(),
    col("n").shift().cast(pl.Int32),
    col("n").shift() + col("n"),
    col("n").sum().over("s"),
    col("n").rank().cast(pl.Int32),
    col("n").is_duplicated(),
    col("n").fill_null(strategy="forward"),
    col("n").rolling_mean(3),
    col("n").sort(),
    col("n").filter(col("n") > 1) + 1,
    col("l").explode(),
    pl.when(col("n") > col("n").max()).then(1),
    pl.coalesce(col("n"), col("n").first()),
    pl.len().cast(pl.Int64),
    pl.int_range(pl.len()),
    (pl.all().exclude("s", "l", "at") * 2).sum(),
    pl.lit(pl.Series([1, 2])),
    pl.sql_expr("sum(n * 2)"),
    pl.sql_expr("count(*)"),
    pl.sql_expr("row_number() OVER (ORDER BY n)"),
    pl.sql_expr("unnest(l)"),
]


@pytest.mark.parametrize("expr", ROW_WISE, ids=str)
def test_an_expression_of_a_single_row_is_accepted(expr: pl.Expr) -> None:
    compile_expressions("with_columns", [expr], {}, SCHEMA)


@pytest.mark.parametrize("expr", NOT_ROW_WISE, ids=str)
def test_an_expression_of_other_rows_is_refused(expr: pl.Expr) -> None:
    with pytest.raises(
        ProgramError, match=r"its result would differ per batch|one value per row|a Series"
    ):
        compile_expressions("select", [expr], {}, SCHEMA)


def test_unchanged_columns_keep_their_types() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("t", pa.timestamp("s")),
            pa.field("d", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    _, result = compile_expressions("with_columns", [], {"x": col("id") + 1}, schema)
    assert result == schema.append(pa.field("x", pa.int64()))
    _, result = compile_expressions("select", ["t", "d"], {}, schema)
    assert result == pa.schema([schema.field("t"), schema.field("d")])


def test_computed_columns_have_canonical_types() -> None:
    _, result = compile_expressions(
        "select",
        [],
        {
            "s": col("s").str.to_uppercase(),
            "l": col("s").str.split(","),
            "c": col("s").cast(pl.Categorical),
        },
        SCHEMA,
    )
    assert result == pa.schema([("s", pa.string()), ("l", pa.list_(pa.string())), ("c", pa.string())])


def test_a_condition_of_several_columns_holds_if_all_hold() -> None:
    (condition,), _ = compile_expressions("filter", [pl.col("n", "s").is_not_null()], {}, SCHEMA)
    rows = pl.DataFrame({"n": [1, None, 3], "s": ["a", "b", None]})
    assert rows.select(condition).to_series().to_list() == [True, False, False]


@pytest.mark.parametrize("op", ["filter", "select"])
@pytest.mark.parametrize(
    "expr", [col("n") > "x", col("s") == col("n"), col("at") < "2020", col("n").is_in(["x"])], ids=str
)
def test_incomparable_values_are_found_without_rows(op: Op, expr: pl.Expr) -> None:
    with pytest.raises(SchemaError, match="does not fit the columns"):
        compile_expressions(op, [expr], {}, SCHEMA)
