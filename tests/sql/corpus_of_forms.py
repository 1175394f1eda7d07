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
    Query(
        "SELECT DISTINCT ON (auction, channel) auction, channel, price FROM bids "
        "ORDER BY auction, channel, price DESC",
        spark=False,
    ),
    Query(
        "SELECT DISTINCT ON (auction % 2) price, ts FROM bids ORDER BY auction % 2, price LIMIT 1",
        spark=False,
    ),
    Query(
        "SELECT DISTINCT ON (1) auction, COUNT(*) AS n FROM bids GROUP BY auction, bidder "
        "ORDER BY 1, 2 DESC, SUM(price)",
        spark=False,
    ),
    Query("SELECT DISTINCT ON (auction) auction, price FROM bids ORDER BY auction, ts", spark=False),
    Query("SELECT DISTINCT ON (b.auction) b.auction FROM bids b", spark=False),
    Query(
        "SELECT price FROM bids ORDER BY auction DESC FETCH FIRST 3 ROWS WITH TIES",
        "SELECT price FROM bids QUALIFY RANK() OVER (ORDER BY auction DESC NULLS LAST) <= 3",
        spark=False,
    ),
    Query(
        "SELECT n, b FROM numbers ORDER BY b, t OFFSET 0 ROWS FETCH NEXT 4 ROWS WITH TIES",
        "SELECT n, b FROM numbers QUALIFY RANK() OVER (ORDER BY b NULLS FIRST, t NULLS FIRST) <= 4",
        spark=False,
    ),
    Query(
        "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder ORDER BY n DESC "
        "FETCH FIRST ROW WITH TIES",
        "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder "
        "QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) = 1",
        spark=False,
    ),
    Query("SELECT n FROM numbers ORDER BY a DESC NULLS LAST, n OFFSET 9", spark=False),
    Query("SELECT COUNT(*) AS n FROM (SELECT auction FROM bids OFFSET 70 ROWS) AS t", spark=False),
    Query(
        "SELECT auction, SUM(price) AS s FROM bids GROUP BY auction ORDER BY s LIMIT ALL OFFSET 2",
        spark=False,
    ),
    Query("SELECT COUNT(*) AS n FROM (SELECT auction FROM bids ORDER BY price LIMIT 0) AS t"),
    Query("SELECT price FROM bids LIMIT NULL", "SELECT price FROM bids", spark=False),
    Query(
        "WITH a AS MATERIALIZED (SELECT price AS p FROM bids), b AS NOT MATERIALIZED "
        "(SELECT p FROM a WHERE p > 900) SELECT p FROM b",
        spark=False,
    ),
    Query("SELECT n, v, w FROM numbers CROSS JOIN (VALUES (1, 'a'), (2, NULL)) AS t(v, w) WHERE n < v"),
    Query(
        "SELECT v, auction, c FROM (VALUES (1), (2)) AS t(v) CROSS JOIN "
        "(SELECT auction, COUNT(*) AS c FROM bids GROUP BY auction) AS g"
    ),
    Query("SELECT a.v, b.v AS w FROM (VALUES (1), (2)) AS a(v), (VALUES (1), (3)) AS b(v)"),
    Query(
        "SELECT COUNT(a, b) AS c, COUNT(a, x) FILTER (WHERE n > 3) AS d FROM numbers",
        "SELECT COUNT(*) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL) AS c, COUNT(*) FILTER "
        "(WHERE n > 3 AND a IS NOT NULL AND x IS NOT NULL) AS d FROM numbers",
    ),
    Query(
        "SELECT COUNT(t.*) AS a, COUNT(s.*) AS b, COUNT(*) AS c FROM (SELECT n, b FROM numbers) AS t "
        "LEFT JOIN sales AS s ON t.n = s.auction",
        "SELECT COUNT(*) FILTER (WHERE b IS NOT NULL) AS a, COUNT(s.id) AS b, COUNT(*) AS c "
        "FROM numbers AS t LEFT JOIN sales AS s ON t.n = s.auction",
        spark=False,
    ),
    Query(
        "SELECT COUNT(DISTINCT t.*) AS c FROM (SELECT b, t FROM numbers) AS t",
        "SELECT COUNT(DISTINCT (b, t)) AS c FROM numbers WHERE b IS NOT NULL AND t IS NOT NULL",
        spark=False,
    ),
    Query(
        "SELECT n, y FROM numbers, LATERAL (SELECT x * 2 AS y FROM UNNEST(ARRAY(n, a)) AS u(x) "
        "WHERE x > 2) AS q",
        "SELECT n, y * 2 AS y FROM (SELECT n, UNNEST([n, a]) AS y FROM numbers) AS t WHERE y > 2",
        spark=False,
    ),
    Query(
        "SELECT n, q.*, z FROM numbers LEFT JOIN LATERAL (SELECT numbers.a + 1 AS y) AS q ON TRUE "
        "CROSS JOIN LATERAL (SELECT y * 2 AS z) AS p",
        "SELECT n, a + 1 AS y, (a + 1) * 2 AS z FROM numbers",
        spark=False,
    ),
    Query(
        "SELECT n, v, w FROM numbers CROSS JOIN LATERAL (VALUES (a, 'a'), (5, NULL)) AS q(v, w)",
        "SELECT n, a AS v, 'a' AS w FROM numbers UNION ALL SELECT n, 5, NULL FROM numbers",
        spark=False,
    ),
    Query(
        "SELECT auction, SUM(v) AS s FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) "
        "AS t, LATERAL (VALUES (t.n), (10)) AS q(v) GROUP BY auction",
        "SELECT auction, COUNT(*) + 10 AS s FROM bids GROUP BY auction",
        spark=False,
    ),
]
