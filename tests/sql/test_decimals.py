"""Decimals of SQL: an oracle checks types and values for random types, and Spark SQL over a table."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import rheos as rh
from rheos.connectors.spark.versions import arrow_table
from tests.core.graph.decimal_oracle import computed, result_type
from tests.core.graph.test_exact_decimals import columns, operands
from tests.spark_versions import frame_of, needs_spark
from tests.sql.decimal_cases import EXPRESSIONS, TABLE


def found(query: str, table: pa.Table) -> pa.Table:
    env = rh.Environment(parallelism=1, runtime="simulated")
    env.register("t", env.from_source(rh.collection(table)))
    env.sql(query).collect("out")
    return env.execute("decimals").collected["out"]


SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%"}


@settings(max_examples=12, deadline=None)
@given(columns(), operands())
def test_arithmetic_has_the_types_and_values_of_spark(one: Any, other: Any) -> None:
    table = pa.table({"a": one[0].to_arrow(), "b": other[0].to_arrow()})
    query = ", ".join(f"a {sign} b AS c{place}" for place, sign in enumerate(SIGNS))
    made = found(f"SELECT a, b, {query} FROM t", table)
    for place, sign in enumerate(SIGNS):
        kind = result_type(sign, one[1], other[1])
        column = made[f"c{place}"]
        assert column.type == pa.decimal128(*kind)
        pairs = zip(made["a"].to_pylist(), made["b"].to_pylist(), strict=True)
        plain = [[None if each is None else Decimal(each) for each in pair] for pair in pairs]
        assert column.to_pylist() == [computed(sign, left, right, kind) for left, right in plain], sign


@pytest.mark.spark
@needs_spark("4.0", "common types of decimals that keep all digits before the point")
def test_decimal_expressions_agree_with_spark(spark: Any) -> None:
    query = ", ".join(f"{each} AS c{place}" for place, each in enumerate(EXPRESSIONS))
    said = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        # Compiling code takes longer than a few rows do.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in said}
    try:
        for name, value in said.items():
            spark.conf.set(name, value)
        frame_of(spark, TABLE).createOrReplaceTempView("t")
        theirs = arrow_table(spark.sql(f"SELECT k, {query} FROM t")).sort_by("k")
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    ours = found(f"SELECT k, {query} FROM t", TABLE).sort_by("k")
    different = []
    for place, each in enumerate(EXPRESSIONS):
        one, other = ours[f"c{place}"], theirs[f"c{place}"]
        if one.type != other.type or one.to_pylist() != other.to_pylist():
            different.append((each, one.type, other.type, one.to_pylist(), other.to_pylist()))
    assert not different, "\n".join(map(str, different))


AGGREGATES = {
    "SUM(b)": pa.decimal128(22, 4),
    "SUM(w)": pa.decimal128(38, 18),
    "AVG(b)": pa.decimal128(16, 8),
    "AVG(w)": pa.decimal128(38, 22),
    "MIN(n)": pa.decimal128(38, 0),
    "MAX(u)": pa.decimal128(38, 38),
    "SUM(DISTINCT w)": pa.decimal128(38, 18),
    "COUNT(DISTINCT n)": pa.int64(),
    "SUM(w * 2)": pa.decimal128(38, 16),
    "MAX_BY(n, w)": pa.decimal128(38, 0),
}
"""Aggregates of wide decimals, and the types of their results in Spark."""


def aggregated() -> dict[str, Any]:
    query = ", ".join(f"{each} AS c{place}" for place, each in enumerate(AGGREGATES))
    made = found(f"SELECT {query} FROM t WHERE k <> 4", TABLE)
    last = made.slice(made.num_rows - 1)
    return {each: last[f"c{place}"] for place, each in enumerate(AGGREGATES)}


def test_aggregates_have_the_types_of_spark() -> None:
    assert {each: column.type for each, column in aggregated().items()} == AGGREGATES


@pytest.mark.spark
@needs_spark("4.0", "common types of decimals that keep all digits before the point")
def test_aggregates_of_decimals_agree_with_spark(spark: Any) -> None:
    frame_of(spark, TABLE).createOrReplaceTempView("t")
    query = ", ".join(f"{each} AS c{place}" for place, each in enumerate(AGGREGATES))
    theirs = arrow_table(spark.sql(f"SELECT {query} FROM t WHERE k <> 4"))
    for place, (each, column) in enumerate(aggregated().items()):
        other = theirs[f"c{place}"]
        assert (column.type, column.to_pylist()) == (other.type, other.to_pylist()), each


ORDERS: dict[str, Callable[[tuple[int, Decimal | None]], Any]] = {
    "v, n": lambda row: (row[1] is not None, row[1] or 0, row[0]),
    "v DESC, n": lambda row: (row[1] is None, -Fraction(row[1] or 0), row[0]),
    "v NULLS LAST, n DESC": lambda row: (row[1] is None, row[1] or 0, -row[0]),
    "n DESC, v": lambda row: -row[0],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [pa.decimal128(12, 3), pa.decimal128(38, 18), pa.decimal128(38, 38)])
def test_rows_are_ordered_by_decimals(kind: pa.DataType, order: str) -> None:
    most = 10**kind.precision - 1
    units = [None, 0, -250, 125, most, -1, -most, 1, -250, None, 10 ** (kind.precision - 1)]
    numbers = [None if each is None else Decimal(f"{each}E-{kind.scale}") for each in units]
    values = pa.array(numbers, kind)
    ranked = f"SELECT n, ROW_NUMBER() OVER (ORDER BY {order}) AS rank FROM t"
    rows = found(
        f"SELECT n, rank FROM ({ranked}) WHERE rank <= 99",
        pa.table({"n": range(len(units)), "v": values}),
    ).to_pylist()
    ranks = {row["rank"]: row["n"] for row in rows if row["op"] in ("insert", "update_after")}
    expected = sorted(enumerate(values.to_pylist()), key=ORDERS[order])
    assert [ranks[rank] for rank in sorted(ranks)] == [n for n, _ in expected]


def decimals(values: list[str], *digits: int) -> pa.Array:
    return pa.array([Decimal(each) for each in values], pa.decimal128(*digits))


def test_joins_and_unions_use_the_common_decimal_type() -> None:
    env = rh.Environment(parallelism=2, runtime="simulated")
    left = pa.table({"k": decimals(["1.5", "2.25", "7"], 10, 2), "x": [1, 2, 3]})
    right = pa.table({"k": decimals(["1.5000", "2.2501", "7"], 20, 4), "y": [1, 2, 3]})
    whole = pa.table({"k": [7, 8], "z": [1, 2]})
    for name, table in {"a": left, "b": right, "c": whole}.items():
        env.register(name, env.from_source(rh.collection(table)))
    env.sql("SELECT x, y FROM a JOIN b ON a.k = b.k", state_ttl="forever").collect("joined")
    env.sql("SELECT x, z FROM a JOIN c ON a.k = c.k", state_ttl="forever").collect("whole")
    env.sql("SELECT k FROM a UNION ALL SELECT k FROM b").collect("union")
    env.sql("SELECT x FROM a WHERE k IN (SELECT k FROM b)", state_ttl="forever").collect("within")
    made = env.execute("meet").collected
    assert sorted(map(tuple, map(dict.values, made["joined"].to_pylist()))) == [(1, 1), (3, 3)]
    assert [tuple(row.values()) for row in made["whole"].to_pylist()] == [(3, 1)]
    assert made["union"].schema.field("k").type == pa.decimal128(20, 4)
    assert sorted(row["x"] for row in made["within"].to_pylist()) == [1, 3]


def test_decimal_keys_are_compared_by_value() -> None:
    env = rh.Environment(parallelism=2, runtime="simulated")
    rows = pa.table(
        {
            "k": decimals(["1.5", "1.50", "-0", "0", "2"], 38, 18),
            "v": decimals(["3", "1", "7", "-7", "2"], 12, 3),
        }
    )
    stream = env.from_source(rh.collection(rows))
    stream.key_by("k").running(n=rh.agg.count(), most=rh.agg.max("v")).collect("running")
    stream.key_by("k").dedup().collect("first")
    stream.key_by("k").top_n(1, by="v").collect("top")
    other = env.from_source(rh.collection(rows.rename_columns(["k", "w"])))
    stream.key_by("k").join(other.key_by("k"), ttl="forever").collect("joined")
    made = env.execute("keys").collected
    last = {row["k"]: (row["n"], row["most"]) for row in made["running"].to_pylist()}
    assert last == {Decimal("1.5"): (2, 3), Decimal(0): (2, 7), Decimal(2): (1, 2)}
    assert made["first"].num_rows == 3
    assert made["joined"].num_rows == 2 * 2 + 2 * 2 + 1
    best = {
        row["k"]: row["v"] for row in made["top"].to_pylist() if row["op"] in ("insert", "update_after")
    }
    assert best == {Decimal("1.5"): 3, Decimal(0): 7, Decimal(2): 2}


def test_streams_with_keys_of_different_decimals_are_refused() -> None:
    env = rh.Environment(parallelism=1, runtime="simulated")
    left = env.from_source(rh.collection(pa.table({"k": decimals(["1.5"], 10, 2)})))
    right = env.from_source(rh.collection(pa.table({"k": decimals(["1.5"], 20, 4)})))
    with pytest.raises(rh.SchemaError, match="keys of different types"):
        left.key_by("k").join(right.key_by("k"), ttl="forever")
