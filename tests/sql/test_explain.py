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
    steps = [line.split()[0] for line in logical.splitlines() if " emits " not in line]
    modes = [
        line.split(" emits ")[1].split(":")[0] for line in logical.splitlines() if " emits " in line
    ]
    assert list(zip(steps, modes, strict=True)) == [
        ("project", "upserts by n"),
        ("aggregate", "upserts by n"),
        ("project", "retractions"),
        ("add", "retractions by auction"),
        ("project", "upserts by auction"),
        ("aggregate", "upserts by auction"),
        ("project", "append-only"),
        ("filter", "append-only"),
        ("table", "append-only"),
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
    assert "within -0:01:00.001000 to 0:00:00.001000 of event time" in text


def test_words_of_sql_and_not_of_python() -> None:
    env = rh.Environment()
    registered(env)
    for window, words in {
        "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '90' SECOND)": "tumbling windows (size 1m30s)",
        "HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR, "
        "INTERVAL '-5' SECOND)": "sliding windows (size 1h, every 1m, offset -5s)",
        "SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '1' DAY)": (
            "session windows (gap 1d)"
        ),
        "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MONTH, ZONE => 'Europe/Berlin')": (
            "tumbling windows (size 1mo, zone Europe/Berlin)"
        ),
    }.items():
        text = env.explain_sql(
            f"SELECT auction, COUNT(*) AS n FROM TABLE({window}) WHERE price > 3 "
            "GROUP BY auction, window_start, window_end"
        )
        logical = text.partition("\n\n")[0]
        assert f"aggregate by auction in {words}: " in logical
        assert "timedelta" not in logical
        assert "col(" not in logical
