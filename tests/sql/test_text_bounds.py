"""Functions that make long strings from short ones: each is bounded, whatever the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import InputError, RheosError
from rheos.sql import text_bounds
from tests.sql.edges import drawn, table

LONG = 1000
"""Characters of each string in a row."""
TIMES = 1_000_000
"""Each whole number in a row."""
MOST = 1 << 19
"""The bound on one result while a test runs. What is not bounded makes several times more."""
LINEAR = 32
"""Bytes of a result for each byte of a row: so much any function may make without a bound."""

BOUNDED = (
    *("REPEAT", "LPAD", "RPAD", "REPLACE", "REGEXP_REPLACE", "CONCAT_WS", "ARRAY_JOIN"),
    "ARRAY_REPEAT",
    *("TRANSFORM(", "ZIP_WITH", "AGGREGATE", "REDUCE"),
)
"""Functions that are bounded. Results of others are at most `LINEAR` times longer than a row."""


def _long_rows() -> pa.Table:
    rows = table(1).slice(0, 2)
    for place, field in enumerate(rows.schema):
        kind, value = field.type, None
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            value = "a" * LONG
        elif pa.types.is_integer(kind) and kind.bit_width >= 32 and field.name != "k":
            value = TIMES
        elif pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
            value = ["a"] * LONG
        if value is not None:
            rows = rows.set_column(place, field, pa.array([value] * rows.num_rows, kind))
    return rows


def _query(expressions: Sequence[str]) -> str:
    columns = [f"{expression} AS v{place}" for place, expression in enumerate(expressions)]
    return f"SELECT {', '.join(columns)} FROM edges"


def _computed(rows: pa.Table | list[dict[str, Any]], text: str) -> pa.Table:
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(rows)))
    env.sql(text).collect("found")
    return env.execute("bounds").collected["found"]


def test_no_function_makes_a_string_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every expression of SQL that makes strings, over rows of long strings and large numbers."""
    monkeypatch.setattr(text_bounds, "MOST_TEXT_BYTES", MOST)
    rows = _long_rows()
    of_a_row = rows.nbytes // rows.num_rows
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(rows)))
    fine, refused = [], set()
    expressions = list(drawn(seed=1, draws=1))
    kinds = env.sql(_query(expressions)).schema.types
    for expression, kind in zip(expressions, kinds, strict=True):
        if not str(kind).startswith(("string", "large_string", "list", "large_list")):
            continue
        if not expression.startswith(BOUNDED):
            fine.append(expression)
            continue
        try:
            _computed(rows, _query([expression]))
        except InputError as error:
            assert f"bytes, but the maximum is {MOST:,}" in str(error), expression  # noqa: PT017
            refused.add(expression.partition("(")[0])
        else:
            fine.append(expression)
    assert refused == {"REPEAT", "LPAD", "RPAD", "REPLACE", "ARRAY_JOIN", "TRANSFORM", "ARRAY_REPEAT"}
    assert len(fine) > 50
    found = pl.DataFrame(_computed(rows, _query(fine)))
    for expression, column in zip(fine, found, strict=True):
        texts = column
        while isinstance(texts.dtype, pl.List):
            texts = texts.explode()
        if texts.dtype != pl.String:
            continue
        made = int(texts.str.len_bytes().sum()) // rows.num_rows
        assert made <= max(MOST, LINEAR * of_a_row), expression


ROWS = [{"s": "a" * LONG, "n": 2_000_000_000, "parts": [""] * LONG}] * 3
SQUARES = {
    "REPEAT(s, n)": "2,000,000,000,000",
    "LPAD(s, n, 'x')": "1,999,999,000",
    "RPAD(s, n)": "1,999,999,000",
    "REPLACE(s, 'a', REPEAT(s, 100))": "100,000,000",
    "CONCAT_WS(REPEAT(s, 100), parts)": "99,900,000",
    f"REGEXP_REPLACE(REPEAT(s, 100), 'a', '{'x' * 999}')": "100,000,000",
    f"REGEXP_REPLACE(REPEAT(s, 1000), '(a+)', '{'$1' * 100}')": "101,000,400",
}


@pytest.mark.parametrize("expression", SQUARES)
def test_a_string_that_is_too_long_is_an_error_with_the_row(expression: str) -> None:
    with pytest.raises(InputError) as error:
        _computed(
            [{"s": "", "n": -1, "parts": ["x"]}, *ROWS], f"SELECT n\n, {expression}\nAS v FROM edges"
        )
    assert f"{expression[:35]}" in str(error.value)
    assert f"would create a string of {SQUARES[expression]}" in str(error.value)
    assert "record: {" in str(error.value)
    assert "LEAST(n, 1000)" in str(error.value)


def test_strings_that_are_too_large_together_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_bounds, "MOST_BATCH_BYTES", 10_000)
    rows = [{"s": "ab", "n": n} for n in range(100)]
    assert _computed(rows, "SELECT REPEAT(s, n) AS v FROM edges").num_rows == 100
    with pytest.raises(
        InputError, match=r"REPEAT\(s, 2 \* n\) would create [\d,]+ bytes for the 100 rows of a"
    ):
        _computed(rows, "SELECT REPEAT(s, 2 * n) AS v FROM edges")


def test_a_too_large_constant_length_is_refused_in_the_query() -> None:
    with pytest.raises(RheosError, match="REPEAT returns strings of at most 67,108,864 bytes"):
        _computed(ROWS, "SELECT REPEAT(s, 67108865) AS v FROM edges")


@given(
    st.lists(st.none() | st.text("aé\0😀", max_size=8), max_size=9),
    st.none() | st.text("aé\0😀", max_size=2),
    st.none() | st.text("aé\0😀", max_size=2),
)
def test_constants_replace_as_columns_do(
    texts: list[str | None], old: str | None, new: str | None
) -> None:
    text = pl.Series("text", texts, pl.String)
    constants = [pl.Series([each], dtype=pl.String) for each in (old, new)]
    columns = [each.new_from_index(0, len(text)) for each in constants]
    found = text_bounds.replaced([text, *constants], written="REPLACE")
    assert found.name == "text"
    assert found.to_list() == [
        None if None in (each, old, new) else each.replace(old, new) if old else each for each in texts
    ]
    if len(text) > 1:
        assert found.to_list() == text_bounds.replaced([text, *columns], written="REPLACE").to_list()
