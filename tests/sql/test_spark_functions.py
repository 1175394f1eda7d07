"""Results of aggregates and table functions that Spark has and DuckDB lacks, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError
from tests.spark_versions import needs_spark
from tests.sql.compare import counted, rows_of
from tests.sql.spark_examples import Example, Verdict, judged


def result(query: str) -> list[Any]:
    env = rh.Environment(runtime="simulated")
    env.sql(query, state_ttl="forever").collect("found")
    return [*rows_of(env.execute("functions").collected["found"]).elements()]


AGGREGATES = {
    "HEX(SUBSTRING(BITMAP_CONSTRUCT_AGG(n), 1, 2)) FROM VALUES (0), (9), (9), (NULL) t(n)": "0102",
    "BITMAP_COUNT(BITMAP_OR_AGG(b)) FROM VALUES (X '10'), (X '2001'), (NULL) t(b)": 3,
    "HEX(SUBSTRING(BITMAP_AND_AGG(b), 1, 2)) FROM VALUES (X'10'), (X'3001') t(b)": "1000",
    "BITMAP_COUNT(BITMAP_AND_AGG(b)) FROM VALUES (CAST(NULL AS BINARY)) t(b)": 32768,
    "VECTOR_SUM(v) FROM VALUES (ARRAY(1F, 2F)), (NULL), (ARRAY(3F, 5F)) t(v)": (4, 7),
    "VECTOR_AVG(v) FROM VALUES (ARRAY(1F, NULL)), (ARRAY(3F, 5F)) t(v)": (3, 5),
    "VECTOR_AVG(v) FROM VALUES (CAST(NULL AS ARRAY<FLOAT>)) t(v)": None,
    "COLLECT_UNION(v) FROM VALUES (ARRAY(2, 1, NULL)), (NULL), (ARRAY(1, 5)) t(v)": (1, 2, 5),
    "SCHEMA_OF_VARIANT_AGG(PARSE_JSON(j)) FROM VALUES ('{\"a\": 1}'), ('{\"b\": [1.5]}') t(j)": (
        "OBJECT<a: BIGINT, b: ARRAY<DECIMAL(2,1)>>"
    ),
    "TRY_SUM(n) FROM VALUES (9223372036854775807), (1) t(n)": None,
    "TRY_SUM(n) FROM VALUES (1.5), (NULL), (2.5) t(n)": 4,
    "TRY_SUM(n) FROM VALUES (NULL) t(n)": None,
    "APPROX_TOP_K(s, 2) FROM VALUES ('a'), ('b'), ('c'), ('c'), (NULL) t(s)": (("c", 2), ("a", 1)),
    "SUM(n) FROM VALUES (NULL), (NULL) t(n)": None,
    "REGR_COUNT(y, x) FROM VALUES (1, NULL) t(y, x)": 0,
}


def test_aggregates_have_sparks_results() -> None:
    found = {query: result(f"SELECT {query}") for query in AGGREGATES}
    assert found == {query: [*counted([(value,)])] for query, value in AGGREGATES.items()}


def test_a_variant_is_exploded_into_rows() -> None:
    query = 'SELECT * FROM VARIANT_EXPLODE(input => PARSE_JSON(\'{"b": [1], "a": null}\'))'
    assert sorted(result(query)) == [(0, "a", ("null",)), (1, "b", ("[1]",))]
    assert result("SELECT * FROM VARIANT_EXPLODE(PARSE_JSON('1'))") == []


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("VARIANT_SET(PARSE_JSON('{\"a\": 1}'), '$.a.b', 2)", "applies the key 'b' of its path"),
        (
            "VARIANT_INSERT(PARSE_JSON('{\"a\": 1}'), '$.a', 2)",
            "inserts the key 'a', which the object has",
        ),
        ("VARIANT_ARRAY_APPEND(PARSE_JSON('{\"a\": 1}'), '$.a', 2)", "appends to a value that is not"),
        (
            "VARIANT_SET(PARSE_JSON('[]'), '$[100001]', 2)",
            "an index of VARIANT_SET() is at most 100,000",
        ),
        ("VARIANT_DELETE(PARSE_JSON('{}'), '$')", "changes a part of a document, not the whole"),
        ("VECTOR_INNER_PRODUCT(ARRAY(1F), ARRAY(1F, 2F))", "received vectors of 1 and of 2 elements"),
        ("VECTOR_NORM(ARRAY(1F), 3F)", "takes the degree 1, 2 or infinity"),
        ("OVERLAY(X'01' PLACING 'a' FROM 1)", "takes only STRING or only BINARY"),
        ("LPAD(X'01', 3, 'a')", "LPAD of a BINARY takes a BINARY"),
        ("BITMAP_CONSTRUCT_AGG(n) FROM VALUES (32768) t(n)", "received the position 32768"),
        ("KLL_SKETCH_GET_N_BIGINT(1)", "returns a sketch in a format of Spark"),
        ("n FROM VALUES (NULL) t(n)", "the column 'n' is always NULL, so it has no type"),
    ],
)
def test_what_cannot_be_computed_is_an_error(query: str, error: str) -> None:
    with pytest.raises(RheosError, match=re.escape(error)):
        result(f"SELECT {query}")


@pytest.mark.spark
@needs_spark("4.0", "PARSE_JSON and LISTAGG")
def test_examples_of_spark_are_judged(spark: Any) -> None:
    def verdict(function: str, sql: str) -> Verdict:
        return judged(spark, Example(function, "group", sql))[0]

    assert verdict("parse_json", "SELECT PARSE_JSON('{\"a\":1}')") is Verdict.AGREES
    assert verdict("factorial", "SELECT FACTORIAL(5)") is Verdict.AGREES
    assert verdict("listagg", "SELECT LISTAGG(s) FROM VALUES ('a'), ('b') t(s)") is Verdict.DIFFERS
    assert verdict("split", "SELECT SPLIT('abc', 'b*')") is Verdict.REFUSED
    assert verdict("rand", "SELECT RAND()") is Verdict.LEFT_OUT
    assert verdict("measure", "SELECT * FROM nothing") is Verdict.LEFT_OUT
