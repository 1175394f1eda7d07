"""A row's value, computed alone, equals that which Polars computes among many rows."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

from rheos.core.operators.single_rows import SingleRow

COLUMNS: dict[str, pl.DataType] = {
    "i": pl.Int64(),
    "j": pl.Int64(),
    "small": pl.Int32(),
    "x": pl.Float64(),
    "y": pl.Float64(),
    "s": pl.String(),
    "b": pl.Boolean(),
    "at": pl.Datetime("us", "UTC"),
    "all": pl.List(pl.Int64()),
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "i": [None, 0, 1, -7, 2**63 - 1, -(2**63)],
    "j": [None, 0, 2, 3, 2**62],
    "small": [None, -1, 0, 9],
    "x": [None, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e308],
    "y": [None, 0.0, 2.0, math.nan, -3.25],
    "s": [None, "", "a", "ö"],
    "b": [None, True, False],
    "at": [None, NOON, NOON + timedelta(microseconds=1)],
    "all": [None, [], [1, None, 3]],
}


class _Drawn:
    def __init__(self, random: Random) -> None:
        self._random = random

    def condition(self, depth: int) -> pl.Expr:
        random = self._random
        if depth == 0:
            return random.choice([pl.col("b"), pl.col("s").is_null(), pl.col("all").is_not_null()])
        match random.randint(0, 5):
            case 0:
                return self.condition(depth - 1) & self.condition(depth - 1)
            case 1:
                return self.condition(depth - 1) | self.condition(depth - 1)
            case 2:
                return ~self.condition(depth - 1)
            case 3:
                return self._compared(self.whole(depth - 1), self.whole(depth - 1))
            case 4:
                return self._compared(self.real(depth - 1), self.real(depth - 1))
        column = random.choice(["s", "at", "b"])
        return self._compared(pl.col(column), pl.col(column))

    def _compared(self, one: pl.Expr, other: pl.Expr) -> pl.Expr:
        made = [one == other, one != other, one < other, one <= other, one > other, one >= other]
        return self._random.choice(made)

    def whole(self, depth: int) -> pl.Expr:
        random = self._random
        if depth == 0:
            return random.choice(
                [pl.col("i"), pl.col("j"), pl.lit(5, pl.Int64()), pl.col("small").cast(pl.Int64())]
            )
        one, other = self.whole(depth - 1), self.whole(depth - 1)
        condition = pl.when(self.condition(depth - 1)).then(one).otherwise(other)
        return random.choice(
            [one + other, one - other, one * other, condition, pl.col("all").list.sum()]
        )

    def real(self, depth: int) -> pl.Expr:
        random = self._random
        if depth == 0:
            return random.choice(
                [pl.col("x"), pl.col("y"), pl.lit(0.5), pl.col("i").cast(pl.Float64())]
            )
        one, other = self.real(depth - 1), self.real(depth - 1)
        none = pl.when(other != 0).then(one / other)
        return random.choice([one + other, one - other, one * other, none, pl.col("all").list.mean()])


@pytest.mark.parametrize("seed", range(20))
def test_single_rows_agree_with_polars(seed: int) -> None:
    random = Random(f"single rows {seed}")
    draw = _Drawn(random)
    rows = [{name: random.choice(VALUES[name]) for name in COLUMNS} for _ in range(12)]
    frame = pl.DataFrame(rows, schema=COLUMNS)
    for _ in range(12):
        expr = random.choice([draw.condition, draw.whole, draw.real])(random.randint(0, 3))
        expected = frame.select("i", expr.alias("v"))["v"].to_list()
        single = SingleRow(expr, COLUMNS)
        found = [single.value(row) for row in rows]
        assert list(map(_shown, found)) == list(map(_shown, expected)), str(expr)


def _shown(value: Any) -> str:
    """Return a value without the sign of zero: Polars computes -x as 0 - x."""
    return repr(value + 0.0) if isinstance(value, float) else repr(value)
