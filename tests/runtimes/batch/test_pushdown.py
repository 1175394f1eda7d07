"""Filters that Spark's readers receive: they never drop a matching row, and common filters are
passed on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from rheos import col
from rheos.runtimes.batch.pushdown import PushColumn, superset
from rheos.runtimes.batch.sources import _READING

pytestmark = pytest.mark.spark

UTC = dt.UTC
NAN = float("nan")
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int16(),
        "u": pa.uint32(),
        "x": pa.float64(),
        "y": pa.float32(),
        "s": pa.string(),
        "b": pa.bool_(),
        "d": pa.date32(),
        "t": pa.timestamp("us", tz="UTC"),
        "n": pa.timestamp("us"),
        "m": pa.timestamp("ms", tz="UTC"),
    }
)
VALUES: dict[str, list[Any]] = {
    "i": [None, -(2**63), -1, 0, 1, 7, 2**53, 2**53 + 1, 2**63 - 1],
    "j": [None, -(2**15), -1, 0, 1, 7, 2**15 - 1],
    "u": [None, 0, 1, 7, 2**31, 2**32 - 1],
    "x": [None, NAN, -0.0, 0.0, 1.0, 0.1, -1.5, float("inf"), float("-inf"), 2.0**53],
    "y": [None, NAN, -0.0, 0.0, 1.0, float(np.float32(0.1)), -1.5, float("inf")],
    "s": [None, "", "a", "ab", "b", "ba", "a.b", "A", "é", "\U0001f600", "%", "_"],
    "b": [None, True, False],
    "d": [None, dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
}
TIMES = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 10, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1000),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1500),
    dt.datetime(2026, 3, 29, 2, 30),
]
VALUES["t"] = [None, *(time.replace(tzinfo=UTC) for time in TIMES)]
VALUES["n"] = [None, *TIMES]
WHOLE = [time for time in TIMES if time.microsecond % 1000 == 0]
VALUES["m"] = [None, *(time.replace(tzinfo=UTC) for time in WHOLE)]
CONSTANTS = VALUES | {
    "i": [*VALUES["i"], 0.5, 1.0, 2.0**53],
    "u": [*VALUES["u"], -1, 2**33],
    "j": [*VALUES["j"], 40_000, 7.0],
    "y": [*VALUES["y"], 0.1, 1],
    "x": [*VALUES["x"], 1, 2**53 + 1, pl.lit(1, pl.Int8)],
    "m": VALUES["t"],
}


@dataclass(frozen=True)
class Frames:
    arrow: pl.DataFrame
    spark: DataFrame
    columns: dict[str, PushColumn]


@pytest.fixture(scope="module")
def frames(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    """Return rows in row groups of two, so that statistics and dictionaries exclude part of most
    files."""
    file = tmp_path_factory.mktemp("rows") / "rows.parquet"
    draw = np.random.default_rng(7)
    rows = 240
    table = pa.table(
        {
            name: pa.array([VALUES[name][k] for k in draw.integers(0, len(VALUES[name]), rows)], kind)
            for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
        }
    ).append_column("row", pa.array(range(rows), pa.int64()))
    pq.write_table(table, file, row_group_size=2)
    session = spark.newSession()
    for name, value in _READING.items():
        session.conf.set(name, value)
    frame = session.read.parquet(str(file))
    columns = {field.name: PushColumn(field.type, f.col(field.name)) for field in SCHEMA}
    return Frames(pl.DataFrame(table), frame, columns)


OPS: list[Callable[[Any, Any], pl.Expr]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a.eq_missing(b) if isinstance(a, pl.Expr) else b.eq_missing(a),
    lambda a, b: a.ne_missing(b) if isinstance(a, pl.Expr) else b.ne_missing(a),
]


@st.composite
def leaves(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from(SCHEMA.names))
    constant = st.sampled_from(CONSTANTS[name])
    kind = draw(st.sampled_from(["compare", "null", "in", "between", "text", "other"]))
    here = col(name)
    if kind == "null":
        return draw(st.sampled_from([here.is_null(), here.is_not_null()]))
    if kind == "in":
        among = [each for each in VALUES[name] if draw(st.booleans())]
        return here.is_in(pl.Series(among, dtype=pl.Series([], dtype=_polars(name)).dtype))
    if kind == "between":
        low, high = (draw(st.sampled_from(VALUES[name][1:])) for _ in range(2))
        return here.is_between(
            low, high, closed=draw(st.sampled_from(["both", "left", "right", "none"]))
        )
    if kind == "text":
        text = draw(st.sampled_from(["", "a", "b", "a.b", "é", "%", "_"]))
        return draw(
            st.sampled_from(
                [
                    col("s").str.contains(text, literal=True),
                    col("s").str.contains(text),
                    col("s").str.starts_with(text),
                    col("s").str.ends_with(text),
                ]
            )
        )
    if kind == "other":
        others = [col("b"), col("i") % 2 == 0, col("x").is_nan(), col("i") > col("j"), pl.lit(True)]
        return draw(st.sampled_from(others))
    op, value = draw(st.sampled_from(OPS)), draw(constant)
    value = value if isinstance(value, pl.Expr) else pl.lit(value)
    return op(here, value) if draw(st.booleans()) else op(value, here)


def _polars(name: str) -> Any:
    return pl.from_arrow(pa.array([], SCHEMA.field(name).type)).dtype


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(st.lists(PREDICATES, min_size=40, max_size=40))
def test_spark_keeps_all_matching_rows(frames: Frames, predicates: list[pl.Expr]) -> None:
    """The JVM evaluates a condition over rows in memory as Polars does."""
    told = [superset(each, frames.columns) for each in predicates]
    marks = [f.lit(True) if each is None else each for each in told]
    found = frames.spark.select("row", *(mark.alias(f"p{i}") for i, mark in enumerate(marks))).collect()
    for i, predicate in enumerate(predicates):
        passes = _passing(frames.arrow, predicate)
        kept = {row["row"] for row in found if row[f"p{i}"]}
        assert passes <= kept, str(predicate)


def _passing(rows: pl.DataFrame, predicate: pl.Expr) -> set[int]:
    try:
        return set(rows.filter(predicate)["row"])
    except pl.exceptions.PolarsError:
        return set()


@settings(max_examples=2, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.lists(PREDICATES, min_size=25, max_size=25))
def test_spark_reads_all_matching_rows(frames: Frames, predicates: list[pl.Expr]) -> None:
    """The reader evaluates filters with the statistics and dictionaries of the files."""
    _assert_read(frames, predicates)


@pytest.mark.parametrize("name", ["d", "t", "m", "n", "u", "x"])
def test_spark_reads_the_rows_equal_to_a_value(frames: Frames, name: str) -> None:
    """Each value alone, with each way to name one."""
    kind = pl.Series([], dtype=_polars(name)).dtype
    among = [col(name).is_in(pl.Series([value], dtype=kind)) for value in VALUES[name][1:]]
    equal = [col(name) == pl.lit(value, kind) for value in VALUES[name][1:]]
    _assert_read(frames, among + equal)


def _assert_read(frames: Frames, predicates: list[pl.Expr]) -> None:
    told = [(each, superset(each, frames.columns)) for each in predicates]
    each_read = [
        frames.spark.filter(mark).select(f.lit(i).alias("p"), "row")
        for i, (_, mark) in enumerate(told)
        if mark is not None
    ]
    if not each_read:
        return
    whole = each_read[0]
    for one in each_read[1:]:
        whole = whole.unionAll(one)
    kept: dict[int, set[int]] = {}
    for row in whole.collect():
        kept.setdefault(row["p"], set()).add(row["row"])
    for i, (predicate, mark) in enumerate(told):
        if mark is not None:
            assert _passing(frames.arrow, predicate) <= kept.get(i, set()), str(predicate)


def pushed(frames: Frames, predicate: pl.Expr) -> str:
    """Return the filters that the reader receives, as Spark prints them."""
    told = superset(predicate, frames.columns)
    if told is None:
        return "nothing"
    plan = frames.spark.filter(told)._jdf.queryExecution().executedPlan().toString()
    return str(plan.split("PushedFilters: [")[1].split("], ReadSchema")[0])


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        (col("i") > 3, "IsNotNull(i), GreaterThan(i,3)"),
        (pl.lit(3) < col("i"), "IsNotNull(i), GreaterThan(i,3)"),
        (col("j") == 7, "IsNotNull(j), EqualTo(j,7)"),
        (col("x") < 2.5, "IsNotNull(x), LessThan(x,2.5)"),
        (col("x") > 2.5, ""),
        (col("s") == "a", "IsNotNull(s), EqualTo(s,a)"),
        (col("s").is_in(["a", "b"]), "In(s, [a,b])"),
        (col("s").str.starts_with("a"), "IsNotNull(s), StringStartsWith(s,a)"),
        (col("s").str.contains("ab"), "IsNotNull(s), StringContains(s,ab)"),
        (col("s").str.contains("a.b"), "nothing"),
        (col("b"), "IsNotNull(b), EqualTo(b,true)"),
        (~col("b"), "IsNotNull(b), Not(EqualTo(b,true))"),
        (col("i").is_null(), "IsNull(i)"),
        (col("d") >= dt.date(2026, 1, 1), "IsNotNull(d), GreaterThanOrEqual(d,2026-01-01)"),
        (col("t") < dt.datetime(2026, 1, 1, tzinfo=UTC), "LessThan(t,2026-01-01 00:00:00.0)"),
        (col("n") < dt.datetime(2026, 1, 1), "LessThan(n,2026-01-01T00:00)"),
        (col("i").is_between(1, 5), "GreaterThanOrEqual(i,1), LessThanOrEqual(i,5)"),
        ((col("i") > 3) & (col("i") % 2 == 0), "IsNotNull(i), GreaterThan(i,3)"),
        ((col("i") > 3) | (col("i") % 2 == 0), "nothing"),
        (~((col("i") > 3) | (col("i") % 2 == 0)), "IsNotNull(i), LessThanOrEqual(i,3)"),
        (pl.sql_expr("i > 3 and s like 'a%'"), "GreaterThan(i,3), StringStartsWith(s,a)"),
        (col("d") == dt.date(1582, 10, 10), "nothing"),
        (col("t") == dt.datetime(1582, 10, 10, tzinfo=UTC), "nothing"),
        (col("i") > 2.5, "nothing"),
        (col("j") > 40_000, "nothing"),
        (col("unknown") > 3, "nothing"),
        (col("i") > col("j"), "nothing"),
    ],
)
def test_common_filters_reach_the_reader(frames: Frames, predicate: pl.Expr, told: str) -> None:
    assert told in pushed(frames, predicate)
