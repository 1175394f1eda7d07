"""Common parts of several statements are computed once."""

from __future__ import annotations

import pytest

import rheos as rh
from rheos.sql.dialect import parse
from rheos.sql.explain import explained
from rheos.sql.plan_numbers import PlanNumbers
from rheos.sql.text import SqlText
from tests.sql.corpus import QUERIES
from tests.sql.data import registered

TABLES = """
CREATE TABLE one (auction BIGINT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE other (n BIGINT) WITH ('connector' = 'print');
"""
COUNTED = "SELECT auction, COUNT(*) AS n FROM bids WHERE price > {least} GROUP BY auction"


@pytest.mark.parametrize(("least", "tables"), [(100, 1), (200, 2)])
def test_inserts_share_equal_parts(least: int, tables: int) -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.sql_script(
        f"""
        {TABLES}
        INSERT INTO one {COUNTED.format(least=100)};
        INSERT INTO other SELECT n FROM ({COUNTED.format(least=least)}) AS counted;
        """
    )
    ids = [str(operator.id) for operator in env.plan().operators()]
    assert len([each for each in ids if each.startswith("sql table")]) == tables


def test_equal_queries_and_no_others_have_equal_plans() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    numbers = PlanNumbers()
    found: dict[int, str] = {}
    session = env._sql_session()
    for query in QUERIES.values():
        plans = []
        for _ in range(2):
            sql = SqlText(query.sql)
            plans.append(session.planned(sql, parse(sql)[0], "forever"))
        first, again = map(numbers.number, plans)
        if "VALUES" not in query.sql and "FROM" in query.sql:
            assert first == again, query.sql
        # Some queries are the same in other words.
        assert found.setdefault(first, explained(plans[0])) == explained(plans[0])


def test_equal_tables_of_values_are_not_shared() -> None:
    env = rh.Environment(runtime="simulated")
    session = env._sql_session()
    sql = SqlText("SELECT a FROM (VALUES (1)) AS t(a)")
    numbers = PlanNumbers()
    one, other = (session.planned(sql, parse(sql)[0]) for _ in range(2))
    assert numbers.number(one) != numbers.number(other)
