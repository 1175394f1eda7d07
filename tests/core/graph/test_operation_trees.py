"""The type of an operation is the same by the types of its operands as by its whole tree."""

from __future__ import annotations

import json

import polars as pl
import pytest
from polars import col, lit

from rheos.core.graph import operation_trees
from rheos.core.graph.expression_trees import Tree, types_of

FRAME = pl.LazyFrame(
    schema={
        "i": pl.Int8,
        "n": pl.Int64,
        "f": pl.Float32,
        "d": pl.Decimal(9, 2),
        "s": pl.String,
        "t": pl.Datetime("us", "UTC"),
        "e": pl.Enum(["a", "b"]),
        "l": pl.List(pl.Int16),
        "r": pl.Struct({"a": pl.Int64}),
    }
)
EXPRESSIONS = [
    col("i") + 1,
    col("i") + 1000,
    1.5 * col("i"),
    col("f") + 1,
    col("i") + col("n"),
    col("d") * col("n"),
    col("i").cast(pl.Int32) + lit(1).cast(pl.Int8),
    pl.when(col("i") > 3).then(col("f")).otherwise(1),
    pl.when(col("i") > 3).then(None).otherwise(col("s")),
    pl.coalesce(col("i"), col("n"), 7),
    col("s").str.len_chars() * 2,
    col("t") - col("t"),
    col("t") + pl.duration(days=col("n")),
    col("e") == "a",
    col("l").list.get(0) + col("i"),
    col("r").struct.field("a") + col("i"),
    pl.max_horizontal("i", "f"),
    col("i").is_in([1, 2]),
    col("n").pow(2),
    col("s").str.to_date("%Y-%m-%d", strict=False),
]


def tree(expr: pl.Expr) -> Tree:
    return json.loads(expr.meta.serialize(format="json"))


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_operands_determine_the_type(expr: pl.Expr) -> None:
    placed: list[Tree] = []
    kinds: list[pl.DataType] = []
    for operand in operation_trees.operands(tree(expr)):
        if "Literal" in operand:
            placed.append(operand)
        else:
            placed.append(operation_trees.placeholder(len(kinds)))
            kinds += types_of(operand, FRAME)
    assert [operation_trees.result_type(tree(expr), placed, tuple(kinds))] == types_of(
        tree(expr), FRAME
    )


def test_numbers_without_a_type_and_null_are_open() -> None:
    assert all(operation_trees.is_open_literal(tree(lit(value))) for value in (1, 1.5, None))
    assert not operation_trees.is_open_literal(tree(lit(1, pl.Int8)))
    assert not operation_trees.is_open_literal(tree(lit("a")))
    assert operation_trees.literal_type(tree(lit(1))) == pl.Int32


def test_a_refused_operation_has_no_type() -> None:
    refused = tree(col("t") + col("t"))
    placed = [operation_trees.placeholder(number) for number in range(2)]
    instant = pl.Datetime("us", "UTC")
    assert operation_trees.result_type(refused, placed, (instant, instant)) is None
