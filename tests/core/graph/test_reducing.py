"""Expressions in the place of aggregates, over decimals."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

import rheos as rh
from rheos import col
from rheos.core.aggregates import count
from rheos.core.graph.reducing import reducing, with_exact_decimals

WIDE = pa.decimal128(38, 18)
LINES = pa.table(
    {
        "item": ["tea", "tea", "jam"],
        "price": pa.array(map(Decimal, ("1.5", "0.0000001", "99999999999999999999")), WIDE),
        "qty": pa.array(map(Decimal, ("2", "0.0000001", "0")), WIDE),
        "at": pa.array([datetime(2026, 3, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
    }
)


def test_expressions_of_decimals_in_windows_are_exact() -> None:
    env = rh.Environment(parallelism=2, runtime="simulated")
    watermark = rh.Watermark.bounded_out_of_orderness("1m", on="at")
    lines = env.from_source(rh.collection(LINES), watermark=watermark)
    lines.key_by("item").window(rh.Tumbling("1h")).aggregate(
        total=(col("price") * col("qty")).sum(),
        each=col("price").max() / col("qty").max(),
        twice=2 * col("price").filter(col("qty") > 1).sum(),
    ).collect("out")
    out = env.execute("lines").collected["out"]
    kinds = {name: out.schema.field(name).type for name in ("total", "each", "twice")}
    assert kinds == {
        "total": pa.decimal128(38, 6),
        "each": pa.decimal128(38, 6),
        "twice": pa.decimal128(38, 16),
    }
    rows = {row["item"]: (row["total"], row["each"], row["twice"]) for row in out.to_pylist()}
    assert rows == {
        "tea": (Decimal(3), Decimal("0.75"), Decimal(3)),
        "jam": (Decimal(0), None, Decimal(0)),
    }


def test_expressions_without_decimals_are_unchanged() -> None:
    schema = pa.schema([("n", pa.int64())])
    of_count, of_expression = count(), reducing(col("n").max() * 2)
    assert with_exact_decimals(of_count, schema) is of_count
    assert with_exact_decimals(of_expression, schema) == of_expression
