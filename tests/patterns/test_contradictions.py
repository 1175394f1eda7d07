"""Conditions that can never hold: some are detected, and no row fulfils a detected one."""

from __future__ import annotations

import math
from random import Random

import polars as pl
import pytest
from polars import col, lit

from rheos.core.operators.pattern.contradictions import never_holds


@pytest.mark.parametrize(
    "exprs",
    [
        [lit(False)],
        [lit(None, pl.Boolean)],
        [~lit(True)],
        [(col("n") == 0) & (col("n") == 1)],
        [col("n") == 0, col("n") == 1],
        [(col("n") == 0) & (col("n") != 0)],
        [(col("n") > 5) & (col("n") < 5)],
        [(col("n") > 5) & (col("n") <= 5)],
        [(lit(5) < col("n")) & (col("n") <= 3)],
        [(col("n") >= 5) & (col("n") <= 4)],
        [(col("n") > 5) & ~(col("n") > 3)],
        [col("n").is_between(1, 3) & (col("n") > 3)],
        [~col("n").is_between(1, 3) & (col("n") == 2)],
        [(col("n") == 1) & ((col("n") == 2) | (col("n") == 3))],
        [~((col("n") != 1) | (col("n") != 2))],
        [(col("x") > 1.5) & (col("x") < 1.5)],
        [(col("s") == "a") & (col("s") == "b")],
        [(col("s") == "a") & ~(col("s") == "a")],
        [col("b") & ~col("b")],
        [pl.all_horizontal(col("n") == 1, col("n") == 2)],
        [~pl.any_horizontal(col("n") == 1, col("n") != 1)],
        [col("n").is_null() & (col("n") > 1)],
        [(col("n").is_null() & col("n").is_not_null()).alias("never")],
    ],
    ids=str,
)
def test_contradictions_are_detected(exprs: list[pl.Expr]) -> None:
    assert never_holds(exprs)


@pytest.mark.parametrize(
    "exprs",
    [
        [],
        [(col("n") == 0) | (col("n") == 1)],
        [(col("n") == 0) & (col("m") == 1)],
        [(col("n") >= 5) & (col("n") <= 5)],
        [(col("n") > 5) & (col("n") < col("m"))],
        [(col("x") > 1) & ~(col("x") < math.inf)],
        # The first two are equal in 32 bits, the next two in 64 bits.
        [(col("x") == 0.1) & (col("x") == 0.10000000001)],
        [(col("n") == 2**53) & (col("n") == 2**53 + 1)],
        # An order of strings that is not alphabetical, as categories have.
        [(col("s") > "b") & (col("s") < "a")],
        [col("n").eq_missing(1) & col("n").eq_missing(2)],
        [(col("n").abs() == 1) & (col("n").abs() == 2)],
    ],
    ids=str,
)
def test_satisfiable_conditions_are_not_contradictions(exprs: list[pl.Expr]) -> None:
    assert not never_holds(exprs)


NUMBERS = [-(2**40), -1, 0, 1, 2, 3, 2**24, 2**24 + 1, 2**53, 2**53 + 1]
FLOATS = [-math.inf, -1.0, -0.0, 0.0, 0.1, 0.1 + 1e-12, 1.0, 1.5, 2.0, 2.0**53, math.inf, math.nan]
ROWS = pl.DataFrame(
    {
        "i8": pl.Series([None, -1, 0, 1, 2, 3] * 2, dtype=pl.Int8),
        "u64": pl.Series(
            [None, 0, 1, 2, 3, 2**24 + 1, 2**53, 2**53 + 1, 2**63, 5, 6, 7], dtype=pl.UInt64
        ),
        "i64": pl.Series([None, *NUMBERS, 4], dtype=pl.Int64),
        "f32": pl.Series([*FLOATS[:-1], None], dtype=pl.Float32),
        "f64": pl.Series(FLOATS, dtype=pl.Float64),
        "dec": pl.Series([None, 0.0, 1.0, 2.0, 3.0, 4.0, -1.0, 1.5, 0.1, 2.5, 7.0, 8.0]).cast(
            pl.Decimal(20, 1)
        ),
        "b": [None, True, False] * 4,
    }
)


def drawn(random: Random, column: str, depth: int = 0) -> pl.Expr:
    """Return a random condition on one column, as a user might write it."""
    if depth < 3 and random.random() < 0.6:
        one, other = (drawn(random, column, depth + 1) for _ in range(2))
        return random.choice([one & other, one & other, one | other, ~one])
    x = col(column)
    if random.random() < 0.1:
        return random.choice([x.is_null(), x.is_not_null()])
    if column == "b":
        return random.choice([x, ~x, x == 1, x == 2, x == lit(True), x > 0])
    one, other = random.choices(NUMBERS if random.random() < 0.6 else FLOATS, k=2)
    if random.random() < 0.15:
        return x.is_between(one, other, closed=random.choice(["both", "left", "right", "none"]))
    return random.choice([x == one, x != one, x < one, x <= one, x > one, x >= one, lit(one) < x])


@pytest.mark.parametrize("seed", range(8))
def test_no_row_fulfils_a_detected_contradiction(seed: int) -> None:
    random = Random(f"contradictions {seed}")
    never = 0
    for _ in range(400):
        column = random.choice(ROWS.columns)
        exprs = [drawn(random, column) for _ in range(random.randint(1, 3))]
        if never_holds(exprs):
            never += 1
            held = ROWS.filter(pl.all_horizontal(exprs))
            assert held.is_empty(), f"{list(map(str, exprs))} hold for {held[column].to_list()}"
    assert never > 40
