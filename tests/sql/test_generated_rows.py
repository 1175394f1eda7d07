"""Calls that return rows, in SELECT and in FROM: compared with DuckDB, or with the rows of the docs."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pytest

import rheos as rh
from tests.sql.compare import Rows, counted
from tests.sql.nested_rows import UPDATED, by_duckdb, environment, found_in_one_job

_PLACES = "generate_subscripts(tags, 1) - 1"
AS_DUCKDB: list[tuple[str, str]] = [
    # in SELECT
    ("SELECT id, EXPLODE(tags) FROM nested", "SELECT id, UNNEST(tags) FROM nested"),
    (
        "SELECT id, EXPLODE_OUTER(tags) AS t FROM nested",
        "SELECT id, t FROM nested LEFT JOIN UNNEST(tags) u(t) ON TRUE",
    ),
    (
        "SELECT id, POSEXPLODE(tags) AS (p, t) FROM nested",
        f"SELECT id, {_PLACES}, UNNEST(tags) FROM nested",
    ),
    (
        "SELECT INLINE(items) AS (s, q), id FROM nested",
        "SELECT UNNEST(items, recursive := true), id FROM nested",
    ),
    (
        "SELECT id, STACK(2, 'a', id, 'b', id * 2) AS (k, v) FROM nested",
        "SELECT id, UNNEST(['a', 'b']), UNNEST([id, id * 2]) FROM nested",
    ),
    ("SELECT STACK(2, 1, 2, 3)", "VALUES (1, 2), (3, NULL)"),
    (
        "SELECT id, UNNEST(tags) AS t, UNNEST(nums) + 1 AS n FROM nested",
        "SELECT id, UNNEST(tags), UNNEST(nums) + 1 FROM nested",
    ),
    (
        "SELECT UPPER(EXPLODE(tags)) AS u, * EXCEPT (doc) FROM (SELECT id, tags, doc FROM nested)",
        "SELECT UPPER(UNNEST(tags)), id, tags FROM nested",
    ),
    (
        "postgres:SELECT n, GENERATE_SERIES(1, n) AS i FROM numbers",
        "SELECT n, UNNEST(GENERATE_SERIES(1, n)) FROM numbers",
    ),
    (
        "postgres:SELECT REGEXP_SPLIT_TO_TABLE(word, 'e') AS p FROM words",
        "SELECT UNNEST(regexp_split_to_array(word, 'e')) FROM words",
    ),
    (
        "SELECT STRING_TO_TABLE(word, 'e') AS p FROM words WHERE word <> ''",
        "SELECT UNNEST(string_split(word, 'e')) FROM words WHERE word <> ''",
    ),
    (
        "SELECT EXPLODE(tags) AS x, COUNT(*) AS n FROM nested GROUP BY x",
        "SELECT x, COUNT(*) FROM nested, UNNEST(tags) u(x) GROUP BY x",
    ),
    (
        "SELECT COUNT(*) AS n, EXPLODE(tags) FROM nested GROUP BY 2",
        "SELECT COUNT(*), x FROM nested, UNNEST(tags) u(x) GROUP BY x",
    ),
    ("SELECT DISTINCT EXPLODE(tags) AS x FROM nested", "SELECT DISTINCT UNNEST(tags) FROM nested"),
    (
        (
            "SELECT auction, COUNT(*) AS n, EXPLODE(ARRAY_AGG(price)) + 1 AS p FROM bids GROUP BY"
            " 1 HAVING COUNT(*) > 3"
        ),
        "SELECT auction, COUNT(*), UNNEST(LIST(price)) + 1 FROM bids GROUP BY 1",
    ),
    (
        (
            "SELECT RANK() OVER (PARTITION BY auction ORDER BY ts) AS r, EXPLODE(ARRAY(1, 2)) AS "
            "e FROM bids"
        ),
        "SELECT RANK() OVER (PARTITION BY auction ORDER BY ts), UNNEST([1, 2]) FROM bids",
    ),
    # in FROM
    ("SELECT id, x FROM nested, UNNEST(tags) AS x", "SELECT id, x FROM nested, UNNEST(tags) AS u(x)"),
    (
        "SELECT id, x FROM nested JOIN UNNEST(nums) AS u(x) ON x > id",
        "SELECT id, x FROM nested, UNNEST(nums) AS u(x) WHERE x > id",
    ),
    (
        "SELECT id, x FROM nested JOIN LATERAL UNNEST(tags) AS u(x) ON TRUE",
        "SELECT id, x FROM nested, UNNEST(tags) AS u(x)",
    ),
    ("SELECT id, x, o FROM nested LEFT JOIN UNNEST(tags) WITH ORDINALITY AS u(x, o) ON TRUE", ""),
    (
        "SELECT id, x, y FROM nested, UNNEST(tags, nums) AS u(x, y)",
        "SELECT id, UNNEST(tags), UNNEST(nums) FROM nested",
    ),
    (
        "SELECT id, u.* FROM nested, UNNEST(items) AS u",
        "SELECT id, UNNEST(items, recursive := true) FROM nested",
    ),
    (
        "SELECT id, i.sku, i.qty FROM nested, UNNEST(items) AS u(i)",
        "SELECT id, UNNEST(items, recursive := true) FROM nested",
    ),
    ("SELECT id, y FROM nested, UNNEST(deep) AS u(x), UNNEST(u.x) AS w(y)", ""),
    (
        "SELECT p, x FROM nested LATERAL VIEW POSEXPLODE(tags) u AS p, x",
        f"SELECT {_PLACES}, UNNEST(tags) FROM nested",
    ),
    (
        (
            "SELECT id, x, y FROM nested LATERAL VIEW OUTER EXPLODE(tags) u AS x LATERAL VIEW "
            "EXPLODE(nums) w AS y"
        ),
        "SELECT id, x, y FROM nested LEFT JOIN UNNEST(tags) u(x) ON TRUE, UNNEST(nums) w(y)",
    ),
    (
        "SELECT id, s, q FROM nested LATERAL VIEW INLINE(items) u AS s, q",
        "SELECT id, UNNEST(items, recursive := true) FROM nested",
    ),
    (
        "SELECT n, i FROM numbers CROSS JOIN LATERAL GENERATE_SERIES(1, n, 2) AS g(i)",
        "SELECT n, UNNEST(GENERATE_SERIES(1, n, 2)) FROM numbers",
    ),
    # alone
    ("SELECT * FROM UNNEST(ARRAY[1, 2], ARRAY['a']) AS e(x, y)", "VALUES (1, 'a'), (2, NULL)"),
    ("SELECT col FROM EXPLODE(ARRAY(1, 2))", "VALUES (1), (2)"),
    ("SELECT i, o FROM GENERATE_SERIES(5, 1, -2) WITH ORDINALITY AS g(i, o)", ""),
    (
        (
            "SELECT i FROM GENERATE_SERIES(TIMESTAMP '2026-03-01', TIMESTAMP '2026-03-02', "
            "INTERVAL '6' HOUR) AS i"
        ),
        (
            "SELECT UNNEST(GENERATE_SERIES(TIMESTAMP '2026-03-01', TIMESTAMP '2026-03-02', "
            "INTERVAL 6 HOUR))"
        ),
    ),
    ("SELECT * FROM RANGE(1, 10, 4) AS r(x)", "VALUES (1), (5), (9)"),
    ("SELECT id FROM RANGE(3)", "VALUES (0), (1), (2)"),
    ("SELECT g.i, n FROM GENERATE_SERIES(1, 2) AS g(i) JOIN numbers ON n = i", ""),
    ("SELECT n FROM numbers WHERE n IN (SELECT i FROM GENERATE_SERIES(1, 3) AS g(i))", ""),
    ("SELECT * FROM STRING_TO_TABLE('a,b', ',') AS s(x)", "VALUES ('a'), ('b')"),
    # of rows that are retracted
    (f"SELECT auction, EXPLODE(prices) AS p FROM {UPDATED}", "SELECT auction, price FROM bids"),
    (
        f"SELECT auction, p FROM {UPDATED}, UNNEST(prices) AS u(p) WHERE p > 300",
        "SELECT auction, price FROM bids WHERE price > 300",
    ),
    (
        f"SELECT MAX(p) AS m FROM (SELECT POSEXPLODE(prices) AS (i, p) FROM {UPDATED})",
        "SELECT MAX(price) FROM bids",
    ),
]
AS_WRITTEN: dict[str, list[tuple[Any, ...]]] = {
    "SELECT id, EXPLODE_OUTER(attrs) AS (k, v) FROM nested": [
        *((1, "k", 1), (1, "l", 2), (2, None, None)),
        *((3, None, None), (4, "m", None)),
    ],
    "SELECT pos, key, value FROM nested LATERAL VIEW POSEXPLODE(attrs) e": [
        *((0, "k", 1), (1, "l", 2), (0, "m", None)),
    ],
    "SELECT u.k, v FROM nested, UNNEST(attrs) AS u(k, v)": [("k", 1), ("l", 2), ("m", None)],
    "SELECT sku, o FROM nested, UNNEST(items) WITH ORDINALITY AS u(sku, qty, o)": [
        *(("x", 1), ("y", 2), (None, 1)),
    ],
    "SELECT i.sku, o FROM nested, UNNEST(items) WITH ORDINALITY AS u(i, o)": [
        *(("x", 1), ("y", 2), (None, 1)),
    ],
    "SELECT id, JSON_TUPLE(doc, 'a', 'b') AS (x, y) FROM nested WHERE id < 3": [
        *((1, "1", "x"), (2, None, None)),
    ],
    "SELECT JSONB_ARRAY_ELEMENTS(doc) AS e FROM nested WHERE id > 2": [
        *(("1",), ('"two"',), ("null",), ('{"k":1}',)),
    ],
    "SELECT value FROM nested, JSON_ARRAY_ELEMENTS_TEXT(doc)": [
        *(("1",), ("two",), (None,), ('{"k":1}',)),
    ],
    "postgres:SELECT id, JSON_OBJECT_KEYS(doc) AS k FROM nested": [
        *((1, "a"), (1, "b"), (1, "c"), (2, "a")),
    ],
    "SELECT k, v FROM nested, JSONB_EACH_TEXT(doc) AS e(k, v)": [
        *(("a", "1"), ("b", "x"), ("c", '[1,{"d":3}]'), ("a", None)),
    ],
    "SELECT (JSON_EACH(doc)).value AS v FROM nested WHERE id = 1": [
        *(("1",), ('"x"',), ('[1,{"d":3}]',)),
    ],
    "SELECT day FROM SEQUENCE(DATE '2026-01-31', DATE '2026-05-01', INTERVAL '1' MONTH) AS s(day)": [
        *((date(2026, 1, 31),), (date(2026, 2, 28),), (date(2026, 3, 31),), (date(2026, 4, 30),)),
    ],
    "SELECT SEQUENCE(DATE '2026-03-02', DATE '2026-03-01') AS days": [
        ([date(2026, 3, 2), date(2026, 3, 1)],)
    ],
    "SELECT POSEXPLODE(tags) AS (p, x) FROM nested ORDER BY p DESC, x DESC LIMIT 1": [(1, "b")],
    "SELECT * FROM GENERATE_SERIES(5, 1)": [],
}


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    queries = [*(text for text, _ in AS_DUCKDB), *AS_WRITTEN]
    return found_in_one_job({text: text for text in queries})


def test_rows_of_calls_agree_with_duckdb(ours: dict[str, Rows]) -> None:
    theirs = by_duckdb({text: duckdb or text for text, duckdb in AS_DUCKDB})
    assert {text: ours[text] for text, _ in AS_DUCKDB} == theirs
    assert all(theirs.values()), "each finds something"


def test_rows_of_calls_are_those_of_the_docs(ours: dict[str, Rows]) -> None:
    expected = {text: counted(rows) for text, rows in AS_WRITTEN.items()}
    assert {text: ours.get(text, Counter()) for text in AS_WRITTEN} == expected


def test_too_many_rows_end_the_job_with_the_call() -> None:
    env = environment()
    env.sql("SELECT i FROM numbers, GENERATE_SERIES(1, n * 1000000) AS g(i)").collect("rows")
    with pytest.raises(
        rh.RheosError, match=r"GENERATE_SERIES\(1, n \* 1000000\) would return 11,000,000 rows"
    ):
        env.execute("too many")
