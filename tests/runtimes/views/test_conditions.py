"""Conditions of a scan have the meaning that they have in SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

from rheos.core.errors import ConfigurationError
from rheos.runtimes.views.conditions import conditions_of

TABLE = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int32()),
        "x": pa.array([0.5, -1.0, 2.0, None]),
        "s": ["a", "it's", None, "d"],
        "b": [True, False, None, True],
        "day": pa.array([date(2026, 3, n) for n in (1, 2, 3, 4)]),
        "at": pa.array([datetime(2026, 3, n, tzinfo=UTC) for n in (1, 2, 3, 4)]),
        "d": pa.array([Decimal(n).scaleb(-1) for n in (5, 15, 25, 35)], pa.decimal128(5, 1)),
        "odd `name`": [1, 2, 3, 4],
        "list": [[1], [2], [3], [4]],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n = 2", [1]),
        ("N >= 2", [1, 3]),
        ("n <> 2", [0, 3]),
        ("n != 2 and x > 0", [0]),
        ("x < -0.5", [1]),
        ("x <= 5e-1", [0, 1]),
        ("s = 'it''s'", [1]),
        ("s > 'a' AND s < 'z'", [1, 3]),
        ("s IS NULL", [2]),
        ("s is not null AND n IS NOT NULL", [0, 1, 3]),
        ("b = TRUE", [0, 3]),
        ("day >= DATE '2026-03-03'", [2, 3]),
        ("day = '2026-03-02'", [1]),
        ("at > TIMESTAMP '2026-03-02T00:00:00Z'", [2, 3]),
        ("at > '2026-03-02 00:00:00'", [2, 3]),
        ("d >= 2.5", [2, 3]),
        ("d = 1.5", [1]),
        ("`odd ``name``` > 3", [3]),
    ],
)
def test_conditions(text: str, rows: list[int]) -> None:
    found = pa.table({**{name: TABLE[name] for name in TABLE.column_names}, "#": range(4)})
    for condition in conditions_of(text, TABLE.column_names):
        found = found.filter(condition.holds(found))
    assert found["#"].to_pylist() == rows
    plain = TABLE.select(["n", "x", "s", "b"])
    if {each.column for each in conditions_of(text, TABLE.column_names)} <= {*plain.column_names}:
        frame = pl.SQLContext(t=pl.from_arrow(plain)).execute(f"SELECT * FROM t WHERE {text}".lower())
        assert frame.collect().height == len(rows)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n",
        "n =",
        "n = 1 AND",
        "n = 1 OR n = 2",
        "n + 1 = 2",
        "n IS 1",
        "n = m",
        "1 = n",
        "n = 'a",
        "n = date",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a condition of a scan"):
        conditions_of(text, TABLE.column_names)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("m = 1", "no column is named 'm'"),
        ("n = 1.5", "the column 'n' is an integer, not 1.5"),
        ("n = 5000000000", "the column 'n' is an integer, not 5000000000"),
        ("b = 1", "the column 'b' is true or false, not 1"),
        ("day = 'monday'", "the column 'day' is a date such as 2026-03-01, not 'monday'"),
        ("d = 1.25", "the column 'd' is a decimal, not 1.25"),
        ("list = 1", "the column 'list' is list<element: int64>, which cannot be compared"),
    ],
)
def test_constants_have_the_type_of_the_column(text: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        [each.holds(TABLE) for each in conditions_of(text, TABLE.column_names)]
    assert what.replace("element", "item") in caught.value.what.replace("element", "item")
