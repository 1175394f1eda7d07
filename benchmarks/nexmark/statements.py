"""The queries as statements that both Rheos and Flink accept: the published forms.

They are those of `sql.py`, apart from words that Flink reserves and a few expressions. Statistics of a
day, queries 15 and 16, change with every bid, as published.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.nexmark import sql
from benchmarks.nexmark.queries import q13

_DAY = "DATE_FORMAT(date_time, 'yyyy-MM-dd')"

STATEMENTS: Mapping[str, str] = {
    **{name: query for name, query in sql.QUERIES.items() if name != "q6"},
    "q1": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, date_time, extra
        FROM bid
    """,
    "q4": sql.QUERIES["q4"].replace("AVG(final)", "AVG(CAST(final AS DOUBLE))"),
    "q9": sql.QUERIES["q9"].replace("number AS rank", "number AS `rank`"),
    "q12": sql.QUERIES["q12"].replace("DESCRIPTOR(at)", "DESCRIPTOR(`at`)"),
    "q13": f"""
        SELECT b.auction, b.bidder, b.price, b.date_time, s.`value`
        FROM (SELECT *, PROCTIME() AS p_time FROM bid) AS b
        JOIN side FOR SYSTEM_TIME AS OF b.p_time AS s ON MOD(b.auction, {q13.SIZE}) = s.key
    """,
    "q14": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
            CASE WHEN HOUR(date_time) >= 8 AND HOUR(date_time) <= 18 THEN 'day'
                WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'night'
                ELSE 'other' END AS of_day,
            date_time, extra, COUNT_CHAR(extra, 'c') AS c_counts
        FROM bid
        WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"SELECT {_DAY} AS `day`, {sql.STATISTICS} FROM bid GROUP BY {_DAY}",
    "q16": f"""
        SELECT channel, {_DAY} AS `day`, MAX(DATE_FORMAT(date_time, 'HH:mm')) AS `minute`,
            {sql.STATISTICS}
        FROM bid
        GROUP BY channel, {_DAY}
    """,
    "q17": sql.QUERIES["q17"]
    .replace("AS day", "AS `day`")
    .replace("AVG(price)", "AVG(CAST(price AS DOUBLE))"),
    "q19": sql.QUERIES["q19"].replace("number AS rank", "number AS `rank`"),
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1'
                WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3'
                ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
            OR url LIKE '%&channel_id=%'
    """,
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
            SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
        FROM bid
    """,
}
"""By name. Flink's SQL cannot express query 6."""

FLINK_TABLES = f"""
CREATE TEMPORARY TABLE events ($COLUMNS, WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND)
WITH ('connector' = 'nexmark-events', 'pools' = '$POOLS', 'events' = '$EVENTS',
    'warm-up' = '$WARM_UP', 'per-second' = '$PER_SECOND');
CREATE TEMPORARY VIEW person AS
SELECT person.id, person.name, person.email, person.credit_card, person.city, person.state,
    person.extra, date_time
FROM events WHERE event_type = 0;
CREATE TEMPORARY VIEW auction AS
SELECT auction.id, auction.item_name, auction.description, auction.initial_bid, auction.reserve,
    auction.expires, auction.seller, auction.category, auction.extra, date_time
FROM events WHERE event_type = 1;
CREATE TEMPORARY VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.extra, date_time
FROM events WHERE event_type = 2;
CREATE TEMPORARY TABLE side (key BIGINT, `value` STRING)
WITH ('connector' = 'nexmark-side', 'size' = '{q13.SIZE}');
CREATE TEMPORARY VIEW bid_by_clock AS SELECT bidder, PROCTIME() AS `at` FROM bid;
"""
"""The same tables in Flink. Variables begin with `$`."""


def rheos_statement(name: str) -> str:
    """Return a statement for Rheos, which has no function of its own for query 14."""
    return STATEMENTS[name].replace(
        "COUNT_CHAR(extra, 'c')", "LENGTH(extra) - LENGTH(REPLACE(extra, 'c', ''))"
    )
