"""Rows of values, stars of structs and tables: compared with DuckDB, or with the rows of the docs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.compare import Rows, counted
from tests.sql.nested_rows import by_duckdb, found_in_one_job

_PAIRS = "SELECT n, a FROM numbers"
_COUNTS = "(SELECT auction, COUNT(*) AS c FROM bids GROUP BY auction)"
AS_DUCKDB: list[tuple[str, str]] = [
    ("SELECT n FROM numbers WHERE (n, b) < (3, 1)", ""),
    ("SELECT n FROM numbers WHERE (n, b) >= (3, -3)", ""),
    ("SELECT n FROM numbers WHERE ROW(n, b) > ROW(3, 1) AND (1, 2, 3) > (1, 2, 2)", ""),
    (
        "SELECT n FROM numbers WHERE (n, b) BETWEEN (1, 0) AND (3, 0)",
        "VALUES (1), (2), (3)",
    ),
    ("SELECT n FROM numbers WHERE (n, b) IS DISTINCT FROM (0, 3)", ""),
    ("SELECT n FROM numbers WHERE (n, b) IS NOT DISTINCT FROM (7, NULL)", ""),
    ("SELECT n FROM numbers WHERE ROW(n, b) IN (SELECT id, id + 2 FROM words)", ""),
    ("SELECT n FROM numbers WHERE ROW(n, b) IN ((0, 3), (6, 2))", ""),
    ("SELECT a.n, b.n AS m FROM numbers a JOIN numbers b ON (a.n, a.b) < (b.n, b.b)", ""),
    (f"SELECT auction FROM {_COUNTS} WHERE (auction, c) < (2, 20)", ""),
    (
        "SELECT n % 2 AS k, t, COUNT(*) FROM numbers GROUP BY (k, t)",
        "SELECT n % 2 AS k, t, COUNT(*) FROM numbers GROUP BY k, t",
    ),
    ("SELECT id, home.* FROM nested", "SELECT id, UNNEST(home) FROM nested"),
    (
        "SELECT t.home.*, (home).place.* FROM nested t",
        "SELECT UNNEST(home), home.place.lat, home.place.lon FROM nested t",
    ),
    ("SELECT (home).* EXCEPT (place) FROM nested", "SELECT home.city FROM nested"),
    (
        f"SELECT m FROM (SELECT t.* EXCEPT (a) RENAME (n AS m) FROM ({_PAIRS}) t)",
        "SELECT n FROM numbers",
    ),
    ("TABLE words", "SELECT * FROM words"),
    (
        "WITH t AS (TABLE words) SELECT id FROM (TABLE t) AS u WHERE id > 2",
        "SELECT id FROM words WHERE id > 2",
    ),
    ("TABLE words UNION ALL TABLE words", "SELECT * FROM words UNION ALL SELECT * FROM words"),
]
AS_WRITTEN: dict[str, list[tuple[Any, ...]]] = {
    "SELECT (1, NULL) < (1, 2) AS a, (1, NULL) = (1, 2) AS b, (NULL, 1) >= (NULL, 1) AS c": [
        (True, False, True)
    ],
    "postgres:SELECT (1, NULL) < (1, 2) AS a, (1, NULL) = (1, 2) AS b, (1, NULL) < (2, 1) AS c": [
        (None, None, True)
    ],
}


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    queries = [*(text for text, _ in AS_DUCKDB), *AS_WRITTEN]
    return found_in_one_job({text: text for text in queries})


def test_rows_of_values_agree_with_duckdb(ours: dict[str, Rows]) -> None:
    theirs = by_duckdb({text: duckdb or text for text, duckdb in AS_DUCKDB})
    assert {text: ours[text] for text, _ in AS_DUCKDB} == theirs
    assert all(theirs.values()), "each finds something"


def test_nulls_in_rows_have_the_meaning_of_the_docs(ours: dict[str, Rows]) -> None:
    expected = {text: counted(rows) for text, rows in AS_WRITTEN.items()}
    assert {text: ours[text] for text in AS_WRITTEN} == expected
