"""Infinities and NaN are constants like others: they are written, shipped and evaluated."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.plan.physical import PhysicalPlan

X = [1.0, math.inf, None, -math.inf]
WRITTEN: dict[str, tuple[Callable[[rh.DataStream], rh.DataStream], list[float | None]]] = {
    "filter": (lambda rows: rows.filter(col("x") < math.inf), [1.0, -math.inf]),
    "SQL": (lambda rows: rows.filter("x = 'inf'::double"), [math.inf]),
    "is_in": (lambda rows: rows.filter(col("x").is_in([math.inf, math.nan])), [math.inf]),
    "when": (
        lambda rows: rows.select(x=pl.when(col("x") > 1).then(math.nan).otherwise(col("x"))),
        [1.0, math.nan, None, -math.inf],
    ),
    "fill_null": (
        lambda rows: rows.select(col("x").fill_null(math.inf)),
        [1.0, math.inf, math.inf, -math.inf],
    ),
    "clip": (lambda rows: rows.select(col("x").clip(0, math.inf)), [1.0, math.inf, None, 0.0]),
    "value": (lambda rows: rows.select(x=math.inf), [math.inf] * 4),
    "struct": (
        lambda rows: rows.select(x=pl.lit({"a": -math.inf}).struct.field("a") + col("x")),
        [-math.inf, math.nan, None, -math.inf],
    ),
    "list": (
        lambda rows: rows.select(
            x=pl.concat_list(col("x"), math.inf).list.eval(pl.element() / 2).list.last()
        ),
        [math.inf] * 4,
    ),
}


@pytest.mark.parametrize("where", WRITTEN)
def test_an_infinite_literal_is_treated_like_other_literals(where: str) -> None:
    write, wanted = WRITTEN[where]
    env = rh.Environment(parallelism=1, runtime="simulated")
    write(env.from_source(rh.collection(pa.table({"x": X})))).collect("out")
    assert str(env.execute().collected["out"]["x"].to_pylist()) == str(wanted)


def test_an_infinite_literal_reaches_the_workers() -> None:
    env = rh.Environment(parallelism=1, runtime="simulated")
    rows = env.from_source(rh.collection(pa.table({"x": X})))
    rows.filter(col("x") < math.inf).select(x=-math.inf).collect("out")
    shipped: PhysicalPlan = pickle.loads(pickle.dumps(env.plan()))
    _, kept, made, _ = shipped.chains[0].operators
    assert "inf" in str(kept.spec)
    assert "-inf" in str(made.spec)
