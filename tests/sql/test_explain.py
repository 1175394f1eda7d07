"""The plan of a query as text."""

from __future__ import annotations

import rheos as rh
from tests.sql.data import registered


def test_each_step_shows_its_columns_and_changes() -> None:
    env = rh.Environment()
    registered(env)
    text = env.explain_sql(
        "SELECT n, COUNT(*) AS often FROM (SELECT auction, COUNT(*) AS n FROM bids WHERE price > 3 "
        "GROUP BY auction) AS t GROUP BY n"
    )
    logical, _, physical = text.partition("\n\n")
    steps = [line.split()[0] for line in logical.splitlines() if " gives " not in line]
    modes = [
        line.split(" gives ")[1].split(":")[0] for line in logical.splitlines() if " gives " in line
    ]
    assert list(zip(steps, modes, strict=True)) == [
        ("project", "upsert by n"),
        ("aggregate", "upsert by n"),
        ("project", "retract"),
        ("keep", "retract by auction"),
        ("project", "upsert by auction"),
        ("aggregate", "upsert by auction"),
        ("project", "append"),
        ("filter", "append"),
        ("table", "append"),
    ]
    assert "sql table" in physical


def test_explained_queries_do_not_run() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.explain_sql("SELECT price FROM bids")
    env.sql("SELECT price FROM bids WHERE price = 10").collect("ten")
    assert [*env.execute("one").collected] == ["ten"]


def test_a_window_without_keys_is_explained_in_its_two_phases() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    text = env.explain_sql(
        "SELECT window_end, SUM(price) AS s FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), "
        "INTERVAL '5' MINUTES)) GROUP BY window_start, window_end"
    )
    assert "the first of two phases" in text
    assert "the second of two phases" in text


def test_the_time_range_of_a_join_has_its_sign() -> None:
    env = rh.Environment()
    registered(env)
    text = env.explain_sql(
        "SELECT b.price FROM bids b JOIN bids c ON b.auction = c.auction "
        "AND b.ts BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE"
    )
    assert "in time (-0:01:00.001000 to 0:00:00.001000)" in text
