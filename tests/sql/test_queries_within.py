"""Invalid nested queries; the results of valid ones are in the corpus (`WITHIN`)."""

from __future__ import annotations

import pytest

import rheos as rh
from tests.sql.compare import counted, found_by_rheos
from tests.sql.data import registered
from tests.sql.test_errors import place

WRONG = {
    "SELECT l.price FROM sales s, LATERAL (SELECT price FROM bids b WHERE b.price > s.amount) AS l": (
        "LATERAL supports only equality conditions with the outer query",
        "b.price > s.amount",
    ),
    "SELECT l.n FROM sales s, LATERAL (SELECT COUNT(*) AS n FROM bids b WHERE b.auction = s.auction) "
    "AS l": ("LATERAL does not support aggregates", "COUNT(*)"),
    "SELECT l.price FROM sales s, LATERAL (SELECT price FROM bids b WHERE b.auction = s.auction "
    "LIMIT 3) AS l": ("LIMIT in LATERAL needs ORDER BY", "3"),
    "SELECT price FROM bids WHERE (auction, price) NOT IN (SELECT auction, amount FROM sales)": (
        "NOT IN is true for no row once the query returns a null",
        "auction, amount FROM sales",
    ),
    "SELECT price FROM bids WHERE auction IN (SELECT auction, id FROM sales)": (
        "IN needs a query with one column for each value, but this has 2",
        "auction, id FROM sales",
    ),
    "SELECT price FROM bids WHERE channel IN (SELECT id FROM sales)": (
        "IN takes values of one type",
        "id FROM sales",
    ),
    "SELECT price FROM bids b WHERE EXISTS (SELECT MAX(id) FROM sales s WHERE s.auction = b.auction "
    "HAVING MAX(id) > 3)": (
        "a correlated subquery with aggregates supports only equality conditions",
        "s.auction = b.auction",
    ),
    "SELECT price, (SELECT MAX(id) FROM sales s WHERE s.amount > b.price + (SELECT MAX(n) FROM "
    "numbers)) AS m FROM bids b": (
        "a condition on both queries cannot contain another query",
        "s.amount > b.price + (SELECT MAX(n) FROM numbers",
    ),
    "SELECT price > ALL (SELECT id, auction FROM sales) AS most FROM bids": (
        "ANY and ALL need a query with one column",
        "id, auction FROM sales",
    ),
    "SELECT (VALUES (1), (2)) AS v FROM numbers": (
        "a scalar subquery must return one row and one column",
        "1), (2",
    ),
    "SELECT price FROM bids b WHERE EXISTS (SELECT 1 FROM sales s WHERE s.auction = b.auctoin)": (
        "unknown column 'auctoin'",
        "b.auctoin",
    ),
    "SELECT (price, auction) IN (SELECT id, auction FROM sales) AS found FROM bids": (
        "several values can be compared with a query only in WHERE",
        "price, auction) IN (SELECT id, auction FROM sales",
    ),
    "SELECT price FROM bids b WHERE price IN (SELECT id FROM sales s WHERE s.auction = b.auction "
    "LIMIT 3)": ("IN and EXISTS with a correlated subquery do not support LIMIT", "3"),
    "SELECT price > (SELECT amount, id FROM sales) AS more FROM bids": (
        "a scalar subquery must return one row and one column",
        "amount, id FROM sales",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_nested_query_is_refused_at_its_place(text: str) -> None:
    what, underlined = WRONG[text]
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.RheosError) as caught:
        env.sql(text, state_ttl="1d")
    assert what in str(caught.value)
    assert place(caught.value) == underlined


def test_a_condition_on_both_queries_needs_a_time_to_live() -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.RheosError, match="state_ttl") as caught:
        env.sql("SELECT n, (SELECT COUNT(*) FROM sales s WHERE s.amount > n) AS m FROM numbers")
    assert place(caught.value)


def test_in_is_append_only_and_not_in_is_updating() -> None:
    env = rh.Environment()
    registered(env)
    there = "SELECT price FROM bids WHERE auction IN (SELECT auction FROM sales)"
    assert env.sql(there, state_ttl="1d")._type.changes is None
    gone = "SELECT price FROM bids WHERE NOT EXISTS (SELECT 1 FROM sales WHERE id = price)"
    changes = env.sql(gone, state_ttl="1d")._type.changes
    assert changes is not None
    assert changes.retracts


def test_a_scalar_subquery_fails_on_a_second_row() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    query = "SELECT n, (SELECT amount FROM sales s WHERE s.auction = n) AS amount FROM numbers"
    env.sql(query, state_ttl="forever").collect("rows")
    with pytest.raises(rh.RheosError, match="returned several rows; aggregate it"):
        env.execute("several rows")


def test_a_scalar_subquery_may_be_a_whole_column() -> None:
    queries = {
        "another subquery's": "SELECT n FROM numbers WHERE n = (SELECT (SELECT 2))",
        "a grouped query's": "SELECT EXPLODE(ARRAY(1, 2)) AS e, SUM(n) AS s, (SELECT 7) AS seven "
        "FROM numbers WHERE n < 3 GROUP BY n > 9",
    }
    found = found_by_rheos(queries)
    assert found["another subquery's"] == counted([(2,)])
    assert found["a grouped query's"] == counted([(1, 3, 7), (2, 3, 7)])


def test_order_by_without_limit_has_no_effect_but_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.sql("SELECT n FROM numbers WHERE n < 3 ORDER BY n").collect("rows")
    assert "ORDER BY without LIMIT has no effect" in capsys.readouterr().out
    assert sorted(env.execute("ordered").collected["rows"]["n"].to_pylist()) == [0, 1, 2]
