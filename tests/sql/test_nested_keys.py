"""Arrays and structs as keys of groups, distinct rows, partitions, INTERSECT and EXCEPT."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.sql.expressions.key_values import value_of_key
from rheos.sql.expressions.order_keys import order_key
from tests.sql.compare import Rows
from tests.sql.nested_rows import by_duckdb, environment, found_in_one_job
from tests.sql.test_nested_order import KINDS

_OF_BIDDERS = (
    "(SELECT bidder, ARRAY_SORT(COLLECT_SET(auction)) AS p FROM bids WHERE price > {} GROUP BY 1)"
)
"""Arrays that bids change, so that their rows are retracted."""
_OF_BIDDERS_IN_DUCKDB = (
    "(SELECT bidder, LIST_SORT(LIST(DISTINCT auction)) AS p FROM bids WHERE price > {} GROUP BY 1)"
)
_COUNTED = "(SELECT bidder, auction, {} AS p FROM bids GROUP BY bidder, auction)"


def _of_bidders(text: str) -> tuple[str, str]:
    """Return the query over an updating table with arrays, for both engines."""
    parts = [each.format(750) for each in (_OF_BIDDERS, _OF_BIDDERS_IN_DUCKDB)]
    return text.replace("LISTS", parts[0]), text.replace("LISTS", parts[1]).replace(
        "ARRAY(", "LIST_VALUE("
    )


QUERIES = [
    *(
        (text, text)
        for text in (
            "SELECT nums, COUNT(*) AS n, SUM(id) AS s FROM nested GROUP BY nums",
            "SELECT home, COUNT(*) AS n, COUNT(home) AS h FROM nested GROUP BY home",
            "SELECT home.city AS c, home.place.lat AS l, COUNT(*) AS n FROM nested GROUP BY home",
            "SELECT deep, items, COUNT(*) AS n FROM nested GROUP BY deep, items",
            "SELECT DISTINCT tags, home FROM nested",
            "SELECT COUNT(DISTINCT nums) AS n, COUNT(DISTINCT home) AS h FROM nested",
            "SELECT * FROM (SELECT id, nums, ROW_NUMBER() OVER (PARTITION BY nums ORDER BY id) AS n "
            "FROM nested) AS s WHERE n = 1",
            "SELECT a.id, b.id AS c FROM nested a LEFT JOIN nested b ON a.nums = b.nums",
            "SELECT a.id, b.id AS c FROM nested a JOIN nested b USING (home)",
            "SELECT nums FROM nested UNION SELECT nums FROM nested WHERE id < 3",
            "SELECT nums, tags FROM nested INTERSECT SELECT nums, tags FROM nested WHERE id < 3",
            "SELECT nums FROM nested EXCEPT SELECT nums FROM nested WHERE id < 2",
            "SELECT home FROM nested EXCEPT ALL SELECT home FROM nested WHERE id < 2",
        )
    ),
    *(
        _of_bidders(text)
        for text in (
            "SELECT p, COUNT(*) AS n FROM LISTS AS t GROUP BY p",
            "SELECT DISTINCT p FROM LISTS AS t",
            "SELECT p FROM LISTS AS t EXCEPT ALL SELECT ARRAY(auction) FROM bids",
            "SELECT p, bidder, COUNT(*) OVER (PARTITION BY p) AS n FROM LISTS AS t",
            "SELECT MAX(p) AS most FROM LISTS AS t",
            "SELECT p, c FROM (SELECT p, COUNT(*) AS c FROM LISTS AS t GROUP BY p) WHERE p > ARRAY(1)",
        )
    ),
    (
        f"SELECT p, n FROM (SELECT p, ROW_NUMBER() OVER (PARTITION BY p ORDER BY auction) AS n FROM "
        f"{_COUNTED.format('ARRAY(bidder % 2)')} AS t) WHERE n <= 2",
        f"SELECT p, n FROM (SELECT p, ROW_NUMBER() OVER (PARTITION BY p ORDER BY auction) AS n FROM "
        f"{_COUNTED.format('[bidder % 2]')} AS t) WHERE n <= 2",
    ),
    (
        "SELECT l, SUM(n) OVER (ORDER BY n) AS s FROM (SELECT n, ARRAY(n % 7) AS l FROM "
        "(SELECT auction, bidder, COUNT(*) AS n FROM bids GROUP BY auction, bidder)) AS t",
        "SELECT l, SUM(n) OVER (ORDER BY n) AS s FROM (SELECT n, [n % 7] AS l FROM "
        "(SELECT auction, bidder, COUNT(*) AS n FROM bids GROUP BY auction, bidder)) AS t",
    ),
    (
        "SELECT STRUCT(auction AS a, bidder AS b) AS k, window_end, COUNT(*) AS n FROM "
        "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, "
        "window_end, STRUCT(auction AS a, bidder AS b)",
        "SELECT {'a': auction, 'b': bidder}, time_bucket(INTERVAL '5' MINUTE, ts) + INTERVAL '5' "
        "MINUTE, COUNT(*) FROM bids GROUP BY ALL",
    ),
    (
        "SELECT ARRAY(auction) AS k, auction, COUNT(*) AS n, GROUPING(ARRAY(auction)) AS g FROM bids "
        "GROUP BY ROLLUP(ARRAY(auction), auction) HAVING GROUPING(ARRAY(auction)) = 1 OR k > ARRAY(2)",
        "SELECT [auction] AS k, auction, COUNT(*), GROUPING([auction]) FROM bids GROUP BY "
        "ROLLUP([auction], auction) HAVING GROUPING([auction]) = 1 OR [auction] > [2]",
    ),
    (
        "SELECT DISTINCT ON (ARRAY(auction)) auction, price FROM bids ORDER BY ARRAY(auction), price "
        "DESC, ts",
        "SELECT DISTINCT ON (auction) auction, price FROM bids ORDER BY auction, price DESC, ts",
    ),
    (
        "SELECT ts, SUM(price) OVER (PARTITION BY ARRAY(auction) ORDER BY ts ROWS 2 PRECEDING) AS s "
        "FROM bids",
        "SELECT ts, SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS 2 PRECEDING) FROM bids",
    ),
]


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    return found_in_one_job({text: text for text, _ in QUERIES})


@pytest.fixture(scope="module")
def theirs() -> dict[str, Rows]:
    return by_duckdb(dict(QUERIES))


@pytest.mark.parametrize("text", [text for text, _ in QUERIES])
def test_nested_keys_have_the_groups_of_duckdb(
    text: str, ours: dict[str, Rows], theirs: dict[str, Rows]
) -> None:
    assert ours[text] == theirs[text]


def test_values_that_sql_calls_equal_are_in_one_group_within_arrays_and_structs() -> None:
    rows = "(VALUES ('0'), ('-0'), ('NaN'), ('-NaN'), (NULL), (NULL)) AS t(x)"
    found = found_in_one_job(
        {
            kind: f"SELECT {made} AS k, COUNT(*) AS n FROM {rows} GROUP BY 1"
            for kind, made in (
                ("array", "ARRAY(CAST(x AS DOUBLE))"),
                ("struct", "STRUCT(CAST(x AS DOUBLE) AS f)"),
            )
        }
    )
    assert found["array"] == {((0.0,), 2.0): 1, (("NaN",), 2.0): 1, ((None,), 2.0): 1}
    assert found["struct"] == found["array"]


_MORE: dict[str, tuple[pl.DataType, list[Any]]] = {
    "narrow decimals": (pl.Decimal(10, 2), [Decimal("1.23"), Decimal("-99999999.99")]),
    "whole decimals": (pl.Decimal(20, 0), [Decimal(1), Decimal(-(10**19))]),
    "wide decimals": (
        pl.Decimal(38, 10),
        [Decimal("1.5"), Decimal("-12345678901234567890.0000000001")],
    ),
    "times": (
        pl.Datetime("us", "UTC"),
        pl.Series([0, -(10**15)]).cast(pl.Datetime("us", "UTC")).to_list(),
    ),
    "milliseconds": (pl.Datetime("ms"), pl.Series([0, -(10**12)]).cast(pl.Datetime("ms")).to_list()),
    "dates": (pl.Date(), pl.Series([0, -20000], dtype=pl.Int32).cast(pl.Date).to_list()),
    "intervals": (pl.Duration("us"), pl.Series([0, -5]).cast(pl.Duration("us")).to_list()),
    "bytes": (pl.Binary(), [b"", b"\x00\xff"]),
    "floats of 32 bits": (pl.Float32(), [0.5, -math.inf]),
}


@pytest.mark.parametrize("kind", _MORE)
def test_a_value_of_each_type_is_read_from_its_key(kind: str) -> None:
    of, values = _MORE[kind]
    _check(pl.List(of), [values, [], None, [None, values[0]]])
    _check(
        pl.Struct({"a": of, "b": pl.List(of)}),
        [{"a": values[1], "b": values}, {"a": None, "b": []}, None],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_values_are_read_from_their_keys(kind: str) -> None:
    of, values = KINDS[kind]

    @given(st.lists(st.none() | values, max_size=4))
    def check(rows: list[Any]) -> None:
        _check(of, rows)

    check()


def _check(kind: pl.DataType, rows: list[Any]) -> None:
    frame = pl.DataFrame({"value": pl.Series(rows, dtype=kind)})
    found = frame.select(value_of_key(order_key(pl.col("value"), kind), kind))["value"]
    assert found.dtype == kind
    assert found.equals(frame["value"], null_equal=True)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM nested GROUP BY attrs",
        "SELECT DISTINCT attrs FROM nested",
        "SELECT COUNT(DISTINCT attrs) FROM nested",
        "SELECT attrs FROM nested UNION SELECT attrs FROM nested",
        "SELECT attrs FROM nested EXCEPT ALL SELECT attrs FROM nested",
        "SELECT COUNT(*) OVER (PARTITION BY ARRAY(attrs)) FROM nested",
        "SELECT DISTINCT ON (attrs) id FROM nested ORDER BY attrs, id",
        "SELECT a.id FROM nested a JOIN nested b ON a.attrs = b.attrs",
        "SELECT id FROM nested WHERE attrs IN (SELECT attrs FROM nested)",
        "SELECT MAX(attrs) FROM nested",
    ],
)
def test_maps_are_refused_at_their_place(text: str) -> None:
    with pytest.raises(
        rh.SchemaError, match=r"(?s)(MAP|ARRAY),? cannot be (a key of|compared)|of type MAP"
    ):
        environment().sql(text, state_ttl="forever")
