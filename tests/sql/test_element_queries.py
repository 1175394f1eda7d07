"""Queries over the elements of an array of the outer row."""

from __future__ import annotations

import pytest

import rheos as rh
from tests.sql.compare import Rows
from tests.sql.nested_rows import UPDATED, by_duckdb, environment, found_in_one_job

_SUM = "SELECT auction, (SELECT SUM(x) FROM UNNEST(prices) AS u(x) WHERE x > 500) AS s FROM {} AS t"

QUERIES: dict[str, str] = {
    **{
        text: text.removeprefix("postgres:").replace("SOME(", "ANY(")
        for text in (
            "SELECT id, (SELECT SUM(x) FROM UNNEST(nested.nums) AS u(x)) AS s FROM nested",
            "SELECT id, (SELECT COUNT(*) FROM UNNEST(nums) AS u(x) WHERE u.x > id) AS n FROM nested",
            "SELECT id, (SELECT AVG(x) * 2 + id FROM UNNEST(nums) AS u(x)) AS a, (SELECT MIN(x) FROM "
            "UNNEST(nums) AS u(x)) AS b FROM nested",
            "SELECT id, (SELECT x FROM UNNEST(nums) AS u(x) ORDER BY x DESC LIMIT 1) AS s FROM nested",
            "SELECT id, (SELECT STRING_AGG(g, '-' ORDER BY g DESC) FROM UNNEST(tags) AS u(g)) AS s "
            "FROM nested",
            "SELECT id FROM nested t WHERE EXISTS (SELECT 1 FROM UNNEST(t.nums) AS u(x) WHERE x > 2)",
            "SELECT id FROM nested t WHERE NOT EXISTS (SELECT 1 FROM UNNEST(t.nums) AS u(x))",
            "SELECT id FROM nested t WHERE id IN (SELECT x FROM UNNEST(t.nums) AS u(x)) OR id = 4",
            "SELECT id FROM nested t WHERE id NOT IN (SELECT x FROM UNNEST(t.nums) AS u(x))",
            "SELECT id, 'b' IN (SELECT g FROM UNNEST(tags) AS u(g)) AS t FROM nested",
            "SELECT id IN (SELECT x FROM UNNEST(nums) AS u(x)) AS b, COUNT(*) FROM nested GROUP BY 1",
            "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM UNNEST(nums) AS u(x) WHERE x = 2) THEN 'yes' "
            "END AS s FROM nested",
            "SELECT id, ARRAY(SELECT x * id FROM UNNEST(nums) AS u(x) WHERE x > 1) AS l FROM nested",
            "SELECT q.s, q.n FROM nested t CROSS JOIN LATERAL (SELECT SUM(x) AS s, COUNT(*) AS n FROM "
            "UNNEST(t.nums) AS u(x) WHERE x > 1) AS q",
            "SELECT id FROM nested WHERE 2 = SOME(nums)",
            "postgres:SELECT id FROM nested WHERE 2 > SOME(nums)",
        )
    },
    "SELECT id, (SELECT SUM(qty) FROM UNNEST(items) AS u(sku, qty) WHERE sku = 'y' OR qty > 3) AS s "
    "FROM nested": "SELECT id, (SELECT SUM(i.qty) FROM UNNEST(items) AS u(i) WHERE i.sku = 'y' OR "
    "i.qty > 3) AS s FROM nested",
    "SELECT id, (SELECT MAX(i.qty) + t.id FROM UNNEST(t.items) AS i) AS s FROM nested t": (
        "SELECT id, (SELECT MAX(u.i.qty) + t.id FROM UNNEST(t.items) AS u(i)) AS s FROM nested t"
    ),
    _SUM.format(UPDATED): _SUM.format(UPDATED),
    "SELECT auction FROM bids GROUP BY auction HAVING SOME(price > 980) AND COUNT(*) > 1": (
        "SELECT auction FROM bids GROUP BY auction HAVING BOOL_OR(price > 980) AND COUNT(*) > 1"
    ),
}


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    return found_in_one_job({text: text for text in QUERIES})


@pytest.fixture(scope="module")
def theirs() -> dict[str, Rows]:
    return by_duckdb(QUERIES)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_over_elements_agrees_with_duckdb(
    text: str, ours: dict[str, Rows], theirs: dict[str, Rows]
) -> None:
    assert ours[text] == theirs[text]


def test_sums_of_elements_are_append_only() -> None:
    found = environment().sql("SELECT (SELECT SUM(x) FROM UNNEST(nums) AS u(x)) AS s FROM nested")
    assert "op" not in found.schema.names


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT (SELECT y FROM UNNEST(nums) AS u(x)) FROM nested", "unknown column 'y'"),
        ("SELECT (SELECT SUM(x) FROM UNNEST(numz) AS u(x)) FROM nested", "did you mean 'nums'"),
        (
            "SELECT (SELECT SUM(x) FROM UNNEST(nums) AS u(x) GROUP BY x) FROM nested",
            "not support GROUP",
        ),
        ("SELECT (SELECT SUM(x) FROM UNNEST(nums) AS u(x) LIMIT 1) FROM nested", "not support LIMIT"),
        ("SELECT (SELECT x, x FROM UNNEST(nums) AS u(x)) FROM nested", "must return one column"),
        ("SELECT (SELECT x FROM UNNEST(nums) AS u(x) LIMIT id) FROM nested", "a constant number"),
    ],
)
def test_wrong_queries_over_elements_are_refused(text: str, what: str) -> None:
    with pytest.raises(rh.RheosError, match=what):
        environment().sql(text)


def test_a_second_row_of_a_scalar_query_over_elements_ends_the_job() -> None:
    with pytest.raises(rh.InputError, match="returned several rows"):
        found_in_one_job({"q": "SELECT (SELECT x FROM UNNEST(nums) AS u(x)) AS s FROM nested"})
