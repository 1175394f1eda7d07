"""Forms of SELECT: QUALIFY, * EXCEPT, GROUP BY ALL, FETCH, and ORDER BY of any columns."""

from __future__ import annotations

from tests.sql.query import Query

_RANKED = "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC)"

FORMS = [
    Query(
        "SELECT n FROM numbers WHERE EXISTS(ARRAY(n, 1), v -> v > 3)",
        "SELECT n FROM numbers WHERE n > 3",
    ),
    Query(
        "SELECT auction, ARRAY_MAX(TRANSFORM(COLLECT_LIST(price), p -> p * 2)) AS m FROM bids "
        "GROUP BY auction",
        "SELECT auction, MAX(price * 2) AS m FROM bids GROUP BY auction",
    ),
    Query(f"SELECT * FROM bids QUALIFY {_RANKED} <= 2", spark=False),
    Query(f"SELECT auction, price, {_RANKED} AS n FROM bids QUALIFY n <= 2", spark=False),
    Query(f"SELECT auction AS a FROM bids QUALIFY {_RANKED} = 1 AND price > 30", spark=False),
    Query(
        "SELECT * EXCEPT (price, ts) FROM bids", "SELECT * EXCLUDE (price, ts) FROM bids", spark=False
    ),
    Query("SELECT b.* EXCLUDE (price) FROM bids b", spark=False),
    Query("SELECT * REPLACE (price * 2 AS price) FROM bids", spark=False),
    Query("SELECT auction, channel, COUNT(*) AS n, 1 AS one FROM bids GROUP BY ALL", spark=False),
    Query("SELECT SUM(price) AS s FROM bids GROUP BY ALL", spark=False),
    Query("SELECT auction FROM bids ORDER BY price DESC FETCH FIRST 5 ROWS ONLY", spark=False),
    Query("SELECT auction FROM bids ORDER BY price FETCH NEXT ROW ONLY", spark=False),
    Query("SELECT COUNT(*) AS n FROM (SELECT price FROM bids LIMIT 7) AS t"),
    Query("SELECT COUNT(*) AS n FROM (SELECT auction, COUNT(*) FROM bids GROUP BY 1 LIMIT 2) AS t"),
    Query("SELECT auction FROM bids GROUP BY auction ORDER BY MAX(price) DESC, auction LIMIT 2"),
    Query(
        "SELECT channel, price FROM bids ORDER BY channel DESC NULLS LAST, price DESC, auction LIMIT 7"
    ),
    Query("SELECT channel, price FROM bids ORDER BY channel NULLS FIRST, price DESC, auction LIMIT 30"),
    Query("SELECT n FROM numbers ORDER BY x DESC NULLS LAST, n LIMIT 7"),
    Query("SELECT n, x FROM numbers ORDER BY t NULLS FIRST, x NULLS FIRST, n DESC LIMIT 7"),
    Query("SELECT id FROM words ORDER BY word NULLS FIRST, part DESC NULLS LAST, id LIMIT 6"),
    Query("SELECT id FROM words ORDER BY part DESC NULLS LAST, word NULLS FIRST, id LIMIT 6"),
    Query("SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction UNION ALL SELECT id, 1 FROM sales"),
    Query("SELECT id, amount FROM sales UNION SELECT auction, MAX(price) FROM bids GROUP BY auction"),
]
