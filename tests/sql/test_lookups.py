"""Joins with external lookup tables."""

from __future__ import annotations

import pytest

import rheos as rh
from tests.sql.compare import Rows, counted, rows_of
from tests.sql.data import registered

NAMES = [{"id": 1, "name": "one", "price": 10}, {"id": 3, "name": "three", "price": 30}]


def env_with_names() -> rh.Environment:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.register("names", rh.lookup_table(NAMES, key="id"))
    return env


def found(query: str) -> Rows:
    env = env_with_names()
    env.sql(query).collect("found")
    return rows_of(env.execute("lookup").collected["found"])


SALES = (
    "SELECT s.id, n.name, n.price FROM (SELECT id, auction FROM sales WHERE id BETWEEN 7 AND 11) AS s"
)


def test_rows_without_a_match_are_dropped_or_have_nulls() -> None:
    """The auctions of the sales 7 to 11 are 0, 3, none, 2 and 5."""
    inner = found(f"{SALES} JOIN names n ON s.auction = n.id")
    assert inner == counted([(8, "three", 30)])
    left = found(f"{SALES} LEFT JOIN names n ON s.auction = n.id")
    assert left == counted([(8, "three", 30), *((id, None, None) for id in (7, 9, 10, 11))])


def test_a_lookup_key_may_be_computed_and_matches_filtered() -> None:
    query = f"{SALES} JOIN names n ON n.id = s.auction % 2 AND n.price < s.id * 2"
    # 3 and 5 are odd.
    assert found(query) == counted([(8, "one", 10), (11, "one", 10)])


WRONG = {
    "SELECT * FROM names": "can only be joined by key",
    "SELECT s.id FROM sales s RIGHT JOIN names n ON s.id = n.id": "RIGHT JOIN is not possible",
    "SELECT s.id FROM sales s JOIN names n ON s.id = n.price": "no condition for 'id'",
    (
        "SELECT s.id FROM sales s LEFT JOIN names n ON s.id = n.id AND n.price > 3"
    ): "only conditions on its keys",
    "SELECT c.n FROM (SELECT COUNT(*) AS n FROM bids) AS c JOIN names ON c.n = names.id": (
        "updated rows cannot be looked up"
    ),
    "SELECT n.nam FROM sales s JOIN names n ON s.id = n.id": "did you mean 'name'?",
}


@pytest.mark.parametrize("query", WRONG)
def test_an_unsupported_lookup_join_is_refused(query: str) -> None:
    with pytest.raises(rh.ProgramError) as caught:
        env_with_names().sql(query)
    assert WRONG[query] in str(caught.value)
