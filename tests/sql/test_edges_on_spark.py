"""Every expression of SQL over values at the edges of its types, compared bit for bit with Spark.

A new function or cast has no entry in `EXPRESSIONS`, so the first test fails. Spark computes a
hundred expressions in one statement. The suite has one random expression for each entry; the
others take minutes: `-m slow`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.spark.versions import arrow_table
from rheos.core.errors import RheosError
from rheos.sql.expressions import MODULES
from rheos.sql.expressions.table import HANDLERS, NAMED
from tests.spark_versions import frame_of, is_since
from tests.sql.edges import DIFFERENT, EXPRESSIONS, REFUSED, TO_A_FEW_BITS, drawn, table

AT_ONCE = 100
"""Expressions in a statement."""
Values = dict[str, tuple[pa.DataType, list[Any]]]


def test_every_expression_of_sql_has_a_case() -> None:
    assert MODULES
    assert {*HANDLERS, *NAMED} == {*EXPRESSIONS}


# --- Rheos --------------------------------------------------------------------------------------------


def _query(expressions: Sequence[str]) -> str:
    columns = [f"{text} AS v{place}" for place, text in enumerate(expressions)]
    return f"SELECT k, {', '.join(columns)} FROM edges"


def _at_once(expressions: Sequence[str]) -> list[Sequence[str]]:
    return [expressions[begin : begin + AT_ONCE] for begin in range(0, len(expressions), AT_ONCE)]


def _environment(edges: pa.Table) -> rh.Environment:
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(edges), name="edges"))
    return env


def _found_by_rheos(edges: pa.Table, expressions: Sequence[str]) -> Values:
    env = _environment(edges)
    statements = _at_once(expressions)
    for place, some in enumerate(statements):
        env.sql(_query(some)).collect(f"{place}")
    found = env.execute("edges").collected
    values: Values = {}
    for place, some in enumerate(statements):
        values |= _values(found[f"{place}"], some)
    return values


def _values(found: pa.Table, expressions: Sequence[str]) -> Values:
    columns = found.sort_by("k").columns[1:]
    return {
        text: (_plain(column.type), _numbers(column).to_pylist())
        for text, column in zip(expressions, columns, strict=True)
    }


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without the differences between the engines' forms of it."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as numbers, because Python has no year 10000."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column


def test_times_outside_the_calendar_end_no_job() -> None:
    """Polars panics outside its calendar."""
    edges = table(1, far=True)
    of_times = [text for text in drawn(1, 1, 2) if {"d", "e", "t", "u", "n"} & {*_names(text)}]
    assert len(of_times) > 90
    found = _found_by_rheos(edges, of_times)
    assert all(len(values) == len(edges) for _, values in found.values())


def _names(text: str) -> Iterator[str]:
    word = ""
    for char in f"{text} ":
        if char.isalnum() or char == "_":
            word += char
        else:
            yield word
            word = ""


@pytest.mark.parametrize("text", REFUSED)
def test_an_unsupported_expression_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(RheosError) as raised:
        _environment(table(0)).sql(f"SELECT {text} AS v FROM edges")
    assert "^" in str(raised.value)


# --- and Spark ----------------------------------------------------------------------------------------


def _found_by_spark(spark: Any, edges: pa.Table, expressions: Sequence[str]) -> Values:
    known = frame_of(spark, edges).coalesce(1)
    known = known.withColumn("n", known["n"].cast("timestamp_ntz"))
    known.createOrReplaceTempView("edges")
    values: Values = {}
    for some in _at_once(expressions):
        values |= _values(arrow_table(spark.sql(_query(some))), some)
    return values


_SINCE = {
    "TRY_TO_DATE": "4.1",
    **dict.fromkeys(("NULLIFZERO", "ZEROIFNULL", "TRY_MOD", "TRY_URL_DECODE"), "4.0"),
    "TRY_MAKE_TIMESTAMP": "4.0",
    **dict.fromkeys(("IS_VALID_UTF8", "MAKE_VALID_UTF8", "VALIDATE_UTF8", "TRY_VALIDATE_UTF8"), "4.0"),
    "QUOTE": "4.1",
    **dict.fromkeys(("JARO_WINKLER", "HMAC", "TO_BASE32", "FROM_BASE32"), "4.3"),
    **dict.fromkeys(("CAST(VARIANT_", "CAST(TRY_VARIANT_"), "4.3"),
    **dict.fromkeys(("VECTOR_", "IS_VALID_VARIANT"), "4.2"),
    **dict.fromkeys(("SCHEMA_OF_VARIANT", "REVERSE(z)", "DAYNAME", "MONTHNAME", "TO_CHAR(t"), "4.0"),
    **dict.fromkeys(("SHIFTLEFT(i8, 2) <<", "i <<", "l <<", "i >>", "l >>"), "4.0"),
}
"""Version of Spark that has functions, by what their names begin with."""
_NEWER = {
    "SPLIT(s, '', 2)": "4.1",
    "ASINH(": "4.2",
    **dict.fromkeys(("ACOSH(", "ARRAY_UNION(ARRAY(x, y)", "TRY_TO_NUMBER(REGEXP_REPLACE("), "4.0"),
    **dict.fromkeys(("INITCAP(s)", "MASK(", "REGEXP_INSTR(s"), "4.0"),
}
"""Version of Spark whose result is ours, for expressions that begin with these words."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "draws", "most"),
    [(0, 1, 1), *(pytest.param(seed, 12, 1000, marks=pytest.mark.slow) for seed in range(1, 6))],
)
def test_expressions_agree_with_spark(unansi: Any, seed: int, draws: int, most: int) -> None:
    edges, expressions = table(seed), drawn(seed, draws, most)
    earlier = tuple(words for words, since in _NEWER.items() if not is_since(since))
    missing = tuple(name for name, since in _SINCE.items() if not is_since(since)) + earlier
    expressions = {text: of for text, of in expressions.items() if not text.startswith(missing)}
    ours = _found_by_rheos(edges, [*expressions])
    theirs = _found_by_spark(unansi, edges, [*expressions])
    wrong = []
    for text, of in expressions.items():
        bits = 4 if of in TO_A_FEW_BITS else 0
        (kind, values), (their_kind, their_values) = ours[text], theirs[text]
        if kind != their_kind:
            wrong.append(f"{text} is {kind}, of Spark {their_kind}")
        for row, (one, other) in enumerate(zip(values, their_values, strict=True)):
            if not _same(one, other, bits):
                wrong.append(f"{text} in row {row} is {one!r}, of Spark {other!r}")
                break
    assert not wrong, "\n".join(wrong)


def _same(one: Any, other: Any, bits: int) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        if one == other:
            return math.copysign(1, one) == math.copysign(1, other)
        return abs(one - other) <= bits * math.ulp(max(abs(one), abs(other)))
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(*pair, bits) for pair in pairs)
    return type(one) is type(other) and bool(one == other)


@pytest.mark.spark
def test_documented_differences_from_spark_still_exist(unansi: Any) -> None:
    """docs/sql-reference.md must not list a difference that no longer exists."""
    edges = table(0).slice(0, 1)
    ours = _found_by_rheos(edges, [*DIFFERENT])
    theirs = _found_by_spark(unansi, edges, [*DIFFERENT, *REFUSED])
    for text, value in DIFFERENT.items():
        assert ours[text][1] == [value], text
        assert theirs[text][1] != [value], text
