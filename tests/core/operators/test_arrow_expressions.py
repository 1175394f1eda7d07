"""Masks that Arrow evaluates have the same values as those of Polars."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from polars import col

from rheos.core.operators.arrow_expressions import arrow_mask

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("small", pa.int8()),
        ("size", pa.uint64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("flag", pa.bool_()),
        ("bid", pa.struct([("n", pa.int64()), ("deep", pa.struct([("s", pa.string())]))])),
    ]
)
NUMBERS = [None, -1, 0, 3, 3, 2**62, -(2**63)]
STRINGS = [None, "", "a", "é", "\U0001f600", "\uffff", "b"]
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "n": number,
            "m": other,
            "small": None if number is None else number % 100,
            "size": 3,
            "s": string,
            "x": float("nan"),
            "flag": [None, True, False][at % 3],
            "bid": None if at == 2 else {"n": other, "deep": None if at == 3 else {"s": string}},
        }
        for at, (number, other, string) in enumerate(
            zip(NUMBERS, [*NUMBERS[3:], *NUMBERS[:3]], STRINGS, strict=True)
        )
    ],
    SCHEMA,
)
PRICE = col("bid").struct.field("n")
WORD = col("bid").struct.field("deep").struct.field("s")


@pytest.mark.parametrize(
    "mask",
    [
        col("bid").is_null(),
        col("bid").is_not_null(),
        WORD.is_null(),
        ~col("s").is_null(),
        col("flag"),
        ~col("flag") | col("n").is_null(),
        col("n") == 3,
        pl.lit(3) < col("n"),
        col("n") == pl.lit(3, pl.Int32).cast(pl.Int64),
        col("n") == pl.lit(None, pl.Int64),
        col("n") <= col("m"),
        (col("n") != col("m")) & col("flag"),
        (col("n") > 0) | (col("m") >= 3) | col("flag"),
        col("small") == 3,
        col("n") == pl.lit(3).cast(pl.Int64),
        col("n") == pl.lit(3, pl.Int64),
        PRICE >= 0,
        WORD == "a",
        col("s") < "\uffff",
        col("s") > WORD,
        col("n").is_in([3, 2**62, None]),
        ~col("s").is_in(["a", "b"]),
        WORD.is_in(pl.Series(["\U0001f600", "b"]).implode()),
        col("n").is_in(pl.Series([], dtype=pl.Int64).implode()),
        pl.any_horizontal(col("n").is_null(), col("flag")),
        pl.all_horizontal(col("n").is_not_null(), col("flag"), col("s") != "a"),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(3, 1), ROWS.slice(2, 4)], ids=["all", "one", "some"])
def test_values_equal_those_of_polars(mask: pl.Expr, rows: pa.RecordBatch) -> None:
    evaluate = arrow_mask(mask, SCHEMA)
    assert evaluate is not None
    assert evaluate(rows).to_pylist() == pl.DataFrame(rows).select(mask).to_series().to_list()


@pytest.mark.parametrize(
    "mask",
    [
        pl.lit(True),
        col("x") == col("x"),
        col("size") == col("size"),
        col("size") > 3,
        col("small") == 300,
        col("n") == pl.lit(3, pl.UInt64),
        col("s") == pl.lit(3).cast(pl.Int64),
        col("n") == 2**70,
        col("small") == col("n"),
        col("n") + 1 > 3,
        (col("n") == 3) & (col("x") > 1),
        col("small").is_in([3, 300]),
        col("x").is_in([1.0]),
        col("n").is_in([1, None], nulls_equal=True),
        col("n").is_in(col("m").implode()),
        col("n").is_in(pl.lit(None, pl.List(pl.Int64))),
        col("n").is_in(pl.Series([[1], [2]])),
        col("n").is_in(pl.lit(3)),
        col("n") == pl.lit([3]),
        (col("n") + 1).is_null(),
        col("n") == 1.5,
        col("n") & 1 == 1,
    ],
    ids=str,
)
def test_polars_evaluates_other_masks(mask: pl.Expr) -> None:
    assert arrow_mask(mask, SCHEMA) is None
