"""Filters and projections are placed where they save most, and change no results."""

from __future__ import annotations

import re

import polars as pl
import pytest

import rheos as rh
from rheos.sql.dialect import parse
from rheos.sql.explain import explained
from rheos.sql.plan_pushdown import pushed
from rheos.sql.session import SqlSession
from rheos.sql.text import SqlText
from tests.sql.compare import rows_of
from tests.sql.data import registered


def exact(price: pl.Expr) -> pl.Expr:
    return price * 2


def session() -> SqlSession:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.register_function("exact", exact)
    return env._sql_session()


def steps(*queries: str) -> list[str]:
    """Return the steps of each query when they become one job, without their columns."""
    of = session()
    plans = []
    for query in queries:
        sql = SqlText(query)
        plans.append(of.planned(sql, parse(sql)[0], "forever"))
    lines = "".join(explained(plan) for plan in pushed(plans)).splitlines()
    return [
        re.sub(r"\.cast\(Int64\)|[\[\]()\"]|col", "", each) for each in lines if " emits " not in each
    ]


JOIN = "SELECT b.price, s.amount FROM bids b {} JOIN sales s ON b.auction = s.auction WHERE {}"


@pytest.mark.parametrize(
    ("how", "condition", "above", "bids", "sales"),
    [
        ("", "b.price > 9 AND s.amount > 3", False, True, True),
        ("LEFT", "b.price > 9", False, True, False),
        # It is not true for a row without a partner.
        ("LEFT", "s.amount > 3", True, False, False),
        ("RIGHT", "s.amount > 3", False, False, True),
        ("RIGHT", "b.price > 9", True, False, False),
        ("FULL", "b.price > 9", True, False, False),
        ("", "b.price > s.amount", True, False, False),
    ],
)
def test_a_filter_is_pushed_to_the_safe_join_side(
    how: str, condition: str, above: bool, bids: bool, sales: bool
) -> None:
    found = steps(JOIN.format(how, condition))
    join = next(place for place, step in enumerate(found) if " join " in step)
    [filters_above] = [[step for step in found[:join] if "filter" in step]]
    below = "\n".join(found[join:])
    assert bool(filters_above) == above
    assert ("price > 9" in below) == bids
    assert ("amount > 3" in below) == sales


def test_a_filter_is_not_pushed_into_the_versioned_side() -> None:
    found = steps(
        "SELECT b.price, r.rate FROM bids b JOIN rates FOR SYSTEM_TIME AS OF b.ts AS r "
        "ON b.auction = r.auction WHERE r.rate > 3 AND b.price > 9"
    )
    assert [step.strip() for step in found[1:3]] == [
        "filter rate > 3",
        "inner join on auction = auction of r with the version as of its event time",
    ]
    assert any(step.endswith("filter price > 9") for step in found[3:])


@pytest.mark.parametrize(
    ("query", "last"),
    [
        # Through names, subqueries, and unions, down to the tables.
        ("SELECT x FROM (SELECT auction AS x, price AS y FROM bids) WHERE y > 9", "filter price > 9"),
        ("SELECT * FROM (SELECT DISTINCT auction FROM bids) WHERE auction > 1", "filter auction > 1"),
        (
            "SELECT n FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) "
            "WHERE auction > 1",
            "filter auction > 1",
        ),
        (
            "SELECT price FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) "
            "WHERE price > 9",
            "filter price > 9",
        ),
        (
            "SELECT x FROM (SELECT auction AS x FROM bids UNION ALL SELECT id FROM sales) WHERE x > 1",
            "filter id > 1",
        ),
    ],
)
def test_a_filter_is_pushed_to_its_table(query: str, last: str) -> None:
    found = steps(query)
    assert "table" in found[-1]
    assert found[-2].strip() == last


@pytest.mark.parametrize(
    ("query", "below"),
    [
        (
            "SELECT n FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) WHERE n > 1",
            "aggregate",
        ),
        (
            "SELECT s FROM (SELECT SUM(price) OVER (PARTITION BY auction ORDER BY ts) AS s, price "
            "FROM bids) WHERE price > 9",
            "over",
        ),
        (
            "SELECT price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) AS n "
            "FROM bids) WHERE n <= 2 AND channel = 'web'",
            "first",
        ),
        ("SELECT x FROM (SELECT price + 1 AS x FROM bids) WHERE x > 9", "project x = price"),
        ("SELECT price FROM bids WHERE price > 9 AND exact(price) > 9", "table"),
        (JOIN.format("", "exact(b.price) > 9"), "inner join"),
    ],
)
def test_a_filter_stays_above_nodes_whose_rows_would_change(query: str, below: str) -> None:
    found = [step.strip() for step in steps(query)]
    filters = [place for place, step in enumerate(found) if step.startswith("filter")]
    assert filters
    assert max(filters) < next(place for place, step in enumerate(found) if step.startswith(below))


# --- columns ------------------------------------------------------------------------------------------


def plan_of(query: str) -> str:
    of, sql = session(), SqlText(query)
    return explained(pushed([of.planned(sql, parse(sql)[0], "forever")])[0])


def test_a_join_has_only_the_columns_that_are_read() -> None:
    text = plan_of(JOIN.format("", "b.channel = 'web'"))
    [join] = re.findall(r"inner join.*\n +emits append-only: (.*)", text)
    assert join == "auction BIGINT, price BIGINT, auction of s BIGINT, amount BIGINT"
    assert "table bids, reads columns auction, price, channel\n" in text
    assert "table sales, reads columns auction, amount\n" in text


def test_state_of_groups_does_not_depend_on_readers() -> None:
    counted = (
        "SELECT auction, bidder, COUNT(*) AS n, MAX(price) AS m FROM bids GROUP BY auction, bidder"
    )
    [groups] = re.findall(
        r"aggregate by.*\n +emits upserts by auction, bidder: (.*)",
        plan_of(f"SELECT auction FROM ({counted})"),
    )
    assert groups == "auction BIGINT, bidder BIGINT, COUNT(*) BIGINT, MAX(`price`) BIGINT"


# --- several queries ----------------------------------------------------------------------------------

SCRIPT = """
    SET state_ttl = 'forever';
    CREATE VIEW pairs AS SELECT b.price, b.channel, s.amount, s.id FROM bids b JOIN sales s
        ON b.auction = s.auction;
    CREATE TABLE dear (price BIGINT) WITH ('connector' = 'collect');
    CREATE TABLE sold (id BIGINT, amount BIGINT) WITH ('connector' = 'collect');
"""
DEAR = "INSERT INTO dear SELECT price FROM pairs WHERE channel = 'web';"
SOLD = "INSERT INTO sold SELECT id, amount FROM pairs WHERE amount > 3;"


def scripted(*inserts: str) -> rh.Environment:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.sql_script(f"{SCRIPT}{''.join(inserts)}")
    return env


def joins(env: rh.Environment) -> list[str]:
    return [str(each.id) for each in env.plan().operators() if str(each.id).startswith("sql join")]


def test_several_queries_share_a_join_with_all_columns() -> None:
    alone, both = joins(scripted(DEAR)), joins(scripted(DEAR, SOLD))
    assert len(alone) == 1
    assert both == alone
    assert joins(scripted(SOLD, DEAR)) == alone
    found = scripted(DEAR, SOLD).execute("both").collected
    for name, insert in (("dear", DEAR), ("sold", SOLD)):
        [of] = scripted(insert).execute(name).collected.values()
        assert rows_of(found[name]) == rows_of(of)
        assert found[name].num_rows


def test_explained_queries_do_not_change_operator_ids() -> None:
    explain = "EXPLAIN SELECT price FROM pairs WHERE channel = 'app';"
    env = rh.Environment(runtime="simulated")
    registered(env)
    env._sql_session().say = lambda text: None
    env.sql_script(f"{SCRIPT}{explain}{DEAR}")
    assert joins(env) == joins(scripted(DEAR))


def test_count_reads_at_least_one_column() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.sql("SELECT COUNT(*) AS n FROM (SELECT price, channel FROM bids)").collect("n")
    assert max(env.execute("count").collected["n"]["n"].to_pylist()) == 80
