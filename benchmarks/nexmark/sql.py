"""The queries in SQL: as `env.sql` takes them, over the tables `bid`, `auction` and `person`.

They mean what the programs of `queries` do.
"""

from __future__ import annotations

from collections.abc import Mapping

import rheos as rh
from benchmarks.nexmark.market import FOR_GOOD, Market
from benchmarks.nexmark.queries import q13

_TEN_SECONDS = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(date_time), INTERVAL '10' SECONDS))"
_DAY = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '1' DAY))"
_WINNING = (
    "auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires"
)
_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def _counted(what: str, name: str) -> str:
    """Of all bids, and of those of each rank of prices."""
    ranks = [f"COUNT({what}) FILTER (WHERE {of}) AS {rank}_{name}" for rank, of in _RANKS.items()]
    return ", ".join([f"COUNT({what}) AS total_{name}", *ranks])


STATISTICS = ", ".join(
    [
        _counted("*", "bids"),
        _counted("DISTINCT bidder", "bidders"),
        _counted("DISTINCT auction", "auctions"),
    ]
)

QUERIES: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, date_time, extra, CAST(0.908 * price AS DOUBLE) AS price FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id
        FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"""
        SELECT category, AVG(final) AS average
        FROM (SELECT a.id, a.category, MAX(b.price) AS final FROM {_WINNING} GROUP BY a.id, a.category)
        GROUP BY category
    """,
    "q5": """
        WITH counts AS (
            SELECT auction, COUNT(*) AS num, window_start, window_end
            FROM TABLE(
                HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS))
            GROUP BY auction, window_start, window_end
        )
        SELECT c.auction, c.num
        FROM counts AS c JOIN (
            SELECT MAX(num) AS most, window_start, window_end
            FROM counts
            GROUP BY window_start, window_end
        ) AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.most
    """,
    "q6": f"""
        SELECT seller, id, expires, AVG(final) OVER last_ten AS average
        FROM (
            SELECT a.id, a.seller, a.expires, MAX(b.price) AS final
            FROM {_WINNING}
            GROUP BY a.id, a.seller, a.expires
        )
        WINDOW last_ten AS (
            PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
    """,
    "q7": f"""
        SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
        FROM bid AS b JOIN (
            SELECT MAX(price) AS highest, window_time
            FROM {_TEN_SECONDS.format("bid")}
            GROUP BY window_start, window_end, window_time
        ) AS h ON b.price = h.highest AND b.date_time <= h.window_time
            AND b.date_time > h.window_time - INTERVAL '10' SECONDS
    """,
    "q8": f"""
        SELECT p.id, p.name, p.window_start AS starts
        FROM (
            SELECT id, name, window_start, window_end
            FROM {_TEN_SECONDS.format("person")}
            GROUP BY id, name, window_start, window_end
        ) AS p JOIN (
            SELECT seller, window_start, window_end
            FROM {_TEN_SECONDS.format("auction")}
            GROUP BY seller, window_start, window_end
        ) AS a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
    """,
    "q9": f"""
        SELECT id, date_time_bid, item_name, description, initial_bid, reserve, date_time, expires,
            seller, category, extra, bidder, price, extra_bid, number AS rank
        FROM (
            SELECT a.*, b.date_time AS date_time_bid, b.bidder, b.price, b.extra AS extra_bid,
                ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS number
            FROM {_WINNING}
        )
        WHERE number = 1
    """,
    "q10": """
        SELECT auction, bidder, price, date_time, extra, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS dt,
            DATE_FORMAT(date_time, 'HH:mm') AS hm
        FROM bid
    """,
    "q11": """
        SELECT bidder, window_start, window_end, COUNT(*) AS bids
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(date_time), INTERVAL '10' SECONDS))
        GROUP BY bidder, window_start, window_end
    """,
    "q12": """
        SELECT bidder, window_start, window_end, COUNT(*) AS bids
        FROM TABLE(TUMBLE(TABLE bid_by_clock, DESCRIPTOR(at), INTERVAL '10' SECONDS))
        GROUP BY bidder, window_start, window_end
    """,
    "q13": f"""
        SELECT b.auction, b.bidder, b.price, b.date_time, s.value
        FROM bid AS b JOIN side AS s ON b.auction % {q13.SIZE} = s.key
    """,
    "q14": """
        SELECT auction, bidder, date_time, extra, CAST(0.908 * price AS DOUBLE) AS price,
            CASE WHEN HOUR(date_time) BETWEEN 8 AND 18 THEN 'day'
                WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'night'
                ELSE 'other' END AS of_day,
            LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid
        WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"""
        SELECT DATE_FORMAT(window_start, 'yyyy-MM-dd') AS day, {STATISTICS}
        FROM {_DAY}
        GROUP BY window_start, window_end
    """,
    "q16": f"""
        SELECT channel, DATE_FORMAT(window_start, 'yyyy-MM-dd') AS day,
            MAX(DATE_FORMAT(date_time, 'HH:mm')) AS minute, {STATISTICS}
        FROM {_DAY}
        GROUP BY channel, window_start, window_end
    """,
    "q17": f"""
        SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS day, {_counted("*", "bids")},
            MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price,
            SUM(price) AS sum_price
        FROM bid
        GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, extra, date_time
        FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS number
            FROM bid
        )
        WHERE number = 1
    """,
    "q19": """
        SELECT auction, bidder, price, channel, url, extra, date_time, number AS rank
        FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS number FROM bid
        )
        WHERE number <= 10
    """,
    "q20": """
        SELECT b.*, a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.expires, a.seller,
            a.category, a.date_time AS date_time_auction, a.extra AS extra_auction
        FROM bid AS b JOIN auction AS a ON b.auction = a.id
        WHERE a.category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                WHEN 'baidu' THEN '3'
                ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') OR url LIKE '%&channel_id=%'
    """,
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT(url, '/')[3] AS dir1, SPLIT(url, '/')[4] AS dir2,
            SPLIT(url, '/')[5] AS dir3
        FROM bid
    """,
}


def registered(env: rh.Environment, house: Market) -> None:
    """Makes the streams of the auction house known as tables."""
    for name, stream in (("bid", house.bids), ("auction", house.auctions), ("person", house.persons)):
        env.register(name, stream)
    env.register("side", q13.side())
    env.sql_script("CREATE VIEW bid_by_clock AS SELECT bidder, PROCTIME() AS at FROM bid")


def stream_of(env: rh.Environment, name: str) -> rh.DataStream:
    """The stream of a query, over tables that are registered."""
    return env.sql(QUERIES[name], state_ttl=FOR_GOOD)
