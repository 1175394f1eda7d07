"""Probes of SQL: short queries over the tables of `tests/sql/data.py`, by the feature that they use.

`python scripts/sql_coverage.py` runs all of them and prints which features run, are refused at a place,
or return other rows than DuckDB. To add a probe, write a line under its feature.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """A query that should run."""

    sql: str
    duckdb: str | None = None
    """A query of DuckDB with the same rows, where it differs."""


PROBES: dict[str, list[Probe]] = {
    "SELECT": [
        Probe("SELECT 1 AS a, 'x' AS b"),
        Probe("SELECT price FROM bids WHERE price > 900"),
        Probe("SELECT DISTINCT auction FROM bids"),
        Probe(
            "SELECT price, auction, price FROM bids WHERE price > 990",
            "SELECT price, auction, price AS p FROM bids WHERE price > 990",
        ),
        Probe(
            "SELECT * EXCEPT (ts, channel) FROM bids WHERE price > 990",
            "SELECT * EXCLUDE (ts, channel) FROM bids WHERE price > 990",
        ),
        Probe("SELECT * REPLACE (n * 2 AS n) FROM (SELECT n, a FROM numbers) WHERE n < 3"),
        Probe(
            "WITH t AS (SELECT n FROM numbers), u AS (SELECT n + 1 AS m FROM t) SELECT m "
            "FROM u WHERE m < 3"
        ),
        Probe("WITH t(x, y) AS (SELECT n, a FROM numbers) SELECT x FROM t WHERE y = 7"),
        Probe("SELECT n FROM numbers LIMIT 100"),
        Probe("SELECT n FROM numbers ORDER BY n DESC LIMIT 2 OFFSET 1"),
        Probe("SELECT n FROM numbers ORDER BY n FETCH FIRST 2 ROWS ONLY"),
        Probe("SELECT DISTINCT ON (auction) auction FROM bids"),
        Probe("SELECT /*+ BROADCAST(numbers) */ n FROM numbers WHERE n = 1"),
        Probe(
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) "
            "SELECT n FROM t"
        ),
        Probe(
            "SELECT price, auction, price FROM bids",
            "SELECT price, auction, price AS price_1 FROM bids",
        ),
        Probe("SELECT n + 1, n + 1 FROM numbers", 'SELECT n + 1, n + 1 AS "n + 1_1" FROM numbers'),
        Probe("SELECT price FROM bids ORDER BY price, ts LIMIT 2 + 1"),
        Probe("SELECT price FROM main.bids LIMIT ALL", "SELECT price FROM bids"),
    ],
    "VALUES": [
        Probe("VALUES (1, 'a'), (2, 'b')"),
        Probe("SELECT x + 1 AS y FROM (VALUES (1), (2)) AS t(x)"),
        Probe("SELECT n FROM numbers JOIN (VALUES (1, 'x')) AS v(k, s) ON n = k"),
        Probe("SELECT n FROM numbers WHERE n IN (VALUES (1), (2))"),
    ],
    "groups": [
        Probe("SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction"),
        Probe("SELECT auction % 2 AS k, SUM(price) AS s FROM bids GROUP BY 1"),
        Probe("SELECT auction % 2 AS k, COUNT(*) AS n FROM bids GROUP BY k HAVING n > 40"),
        Probe("SELECT auction, channel, COUNT(*) AS n FROM bids GROUP BY ALL"),
        Probe("SELECT COUNT(*) AS n, SUM(price) AS s FROM bids WHERE FALSE"),
        Probe("SELECT channel, COUNT(*) AS n FROM bids GROUP BY ROLLUP (channel)"),
        Probe(
            "SELECT channel, auction, COUNT(*) AS n FROM bids GROUP BY GROUPING SETS "
            "((channel), (auction))"
        ),
        Probe("SELECT auction % 2 AS k, COUNT(*) AS n FROM bids GROUP BY k HAVING n > 33"),
    ],
    "aggregates": [
        Probe("SELECT COUNT(*), COUNT(a), COUNT(DISTINCT a) FROM numbers"),
        Probe("SELECT SUM(a), AVG(a), MIN(x), MAX(x) FROM numbers"),
        Probe("SELECT SUM(price) FILTER (WHERE auction = 1) AS s FROM bids"),
        Probe("SELECT SUM(DISTINCT b) FROM numbers"),
        Probe("SELECT STDDEV(x), VAR_POP(x) FROM numbers"),
        Probe("SELECT MEDIAN(x) FROM numbers"),
        Probe("SELECT PERCENTILE(x, 0.25) FROM numbers", "SELECT quantile_cont(x, 0.25) FROM numbers"),
        Probe("SELECT ARRAY_AGG(n ORDER BY n DESC) FILTER (WHERE n < 3) FROM numbers"),
        Probe(
            "SELECT LISTAGG(part, ',') WITHIN GROUP (ORDER BY part) FROM words",
            "SELECT STRING_AGG(part, ',' ORDER BY part) FROM words",
        ),
        Probe("SELECT STRING_AGG(part, ',' ORDER BY id) FROM words"),
        Probe(
            "SELECT MAX_BY(n, x), MIN_BY(n, x) FROM numbers",
            "SELECT arg_max(n, x), arg_min(n, x) FROM numbers",
        ),
        Probe("SELECT BIT_AND(n), BIT_OR(n), BIT_XOR(n) FROM numbers"),
        Probe("SELECT BOOL_AND(t), BOOL_OR(t) FROM numbers"),
        Probe("SELECT MODE(b) FROM numbers WHERE b = 7 OR b = 1"),
        Probe("SELECT CORR(n, x) FROM numbers"),
        Probe("SELECT COVAR_POP(n, x) FROM numbers"),
        Probe("SELECT SKEWNESS(x) FROM numbers WHERE FALSE"),
        Probe(
            "SELECT COUNT(DISTINCT a, b) FROM numbers",
            ("SELECT COUNT(DISTINCT (a, b)) FROM numbers WHERE a IS NOT NULL AND b IS NOT NULL"),
        ),
    ],
    "windows": [
        Probe(
            (
                "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), "
                "INTERVAL '10' MINUTES)) GROUP BY window_start, window_end"
            ),
            "SELECT time_bucket(INTERVAL 10 MINUTES, ts) AS w, COUNT(*) FROM bids GROUP BY w",
        ),
        Probe(
            (
                "SELECT TUMBLE_START(ts, INTERVAL '10' MINUTES), COUNT(*) FROM bids GROUP BY "
                "TUMBLE(ts, INTERVAL '10' MINUTES)"
            ),
            "SELECT time_bucket(INTERVAL 10 MINUTES, ts) AS w, COUNT(*) FROM bids GROUP BY w",
        ),
        Probe(
            "SELECT window.start, COUNT(*) FROM bids GROUP BY window(ts, '10 minutes')",
            "SELECT time_bucket(INTERVAL 10 MINUTES, ts) AS w, COUNT(*) FROM bids GROUP BY w",
        ),
        Probe(
            (
                "SELECT COUNT(*) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' "
                "MINUTES, INTERVAL '20' MINUTES))"
            ),
            "SELECT 2 * COUNT(*) FROM bids",
        ),
        Probe(
            (
                "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM TABLE(SESSION(TABLE bids, "
                "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end)"
            ),
            "SELECT COUNT(*) FROM bids",
        ),
    ],
    "OVER": [
        Probe(
            "SELECT n, SUM(price) OVER (PARTITION BY auction ORDER BY ts) AS s FROM "
            "(SELECT auction AS n, * FROM bids) WHERE auction = 1"
        ),
        Probe("SELECT price, LAG(price) OVER (ORDER BY ts) AS p FROM bids"),
        Probe(
            "SELECT price, AVG(price) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND "
            "CURRENT ROW) AS s FROM bids"
        ),
        Probe(
            "SELECT price, SUM(price) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 1 "
            "PRECEDING) AS s FROM bids"
        ),
        Probe(
            "SELECT price, COUNT(*) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "UNBOUNDED FOLLOWING) AS s FROM bids"
        ),
        Probe(
            "SELECT auction, price FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY "
            "auction ORDER BY price DESC) = 1"
        ),
        Probe("SELECT n, NTILE(3) OVER (ORDER BY n) AS k FROM numbers"),
    ],
    "joins": [
        Probe("SELECT n, id FROM numbers JOIN words ON n = id"),
        Probe("SELECT n, id FROM numbers LEFT JOIN words ON n = id AND id < 3"),
        Probe("SELECT n, id FROM numbers FULL JOIN words ON n = id + 6"),
        Probe("SELECT n, id FROM numbers JOIN (SELECT id AS n, id FROM words) AS w USING (n)"),
        Probe("SELECT a.n, b.n FROM numbers a JOIN numbers b ON a.n < b.n AND b.n < 3"),
        Probe(
            "SELECT n FROM numbers LEFT SEMI JOIN words ON n = id",
            "SELECT n FROM numbers SEMI JOIN words ON n = id",
        ),
        Probe(
            "SELECT n FROM numbers LEFT ANTI JOIN words ON n = id",
            "SELECT n FROM numbers ANTI JOIN words ON n = id",
        ),
        Probe("SELECT n, k FROM numbers CROSS JOIN (SELECT COUNT(*) AS k FROM words)"),
        Probe("SELECT n, id FROM numbers CROSS JOIN words"),
        Probe(
            "SELECT b.price, r.rate FROM bids b ASOF JOIN rates r ON b.auction = r.auction "
            "AND b.ts >= r.valid"
        ),
        Probe("SELECT n, k FROM numbers, LATERAL (SELECT n + 1 AS k) AS l"),
        Probe(
            ("SELECT b.price FROM bids AS b LEFT SEMI JOIN sales AS s ON b.auction = s.auction"),
            "SELECT b.price FROM bids AS b SEMI JOIN sales AS s ON b.auction = s.auction",
        ),
        Probe(
            (
                "SELECT b.price FROM bids AS b LEFT ANTI JOIN numbers AS s ON b.auction = s.n "
                "AND s.a > 0"
            ),
            ("SELECT b.price FROM bids AS b ANTI JOIN numbers AS s ON b.auction = s.n AND s.a > 0"),
        ),
    ],
    "subqueries": [
        Probe("SELECT n FROM numbers WHERE n IN (SELECT id FROM words)"),
        Probe("SELECT n FROM numbers WHERE n NOT IN (SELECT b FROM numbers)"),
        Probe("SELECT n FROM numbers WHERE EXISTS (SELECT 1 FROM words WHERE id = n)"),
        Probe("SELECT n FROM numbers WHERE n > (SELECT AVG(id) FROM words)"),
        Probe("SELECT n, (SELECT MAX(id) FROM words WHERE id < n) AS m FROM numbers"),
        Probe("SELECT n FROM numbers WHERE a >= ALL (SELECT b FROM numbers WHERE b IS NOT NULL)"),
        Probe("SELECT n FROM numbers WHERE a < ANY (SELECT b FROM numbers)"),
        Probe("SELECT n FROM numbers WHERE n > 3 OR n IN (SELECT id FROM words)"),
        Probe(
            "SELECT auction FROM bids GROUP BY auction HAVING COUNT(*) > (SELECT COUNT(*) FROM words)"
        ),
        Probe("SELECT n FROM numbers WHERE a <> ALL (SELECT b FROM numbers WHERE b IS NOT NULL)"),
    ],
    "set operations": [
        Probe("SELECT n FROM numbers UNION SELECT id FROM words"),
        Probe("SELECT n FROM numbers UNION ALL SELECT id FROM words"),
        Probe(
            "SELECT auction, COUNT(*) AS k FROM bids GROUP BY auction UNION ALL SELECT id, 1 FROM words"
        ),
        Probe("SELECT n FROM numbers INTERSECT SELECT id FROM words"),
        Probe("SELECT n FROM numbers EXCEPT SELECT id FROM words"),
        Probe("SELECT n FROM numbers EXCEPT ALL SELECT id FROM words"),
        Probe("SELECT n FROM numbers UNION BY NAME SELECT id AS n, word FROM words"),
        Probe("SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS b, 4 AS a"),
    ],
    "pivots": [
        Probe(
            (
                "SELECT * FROM (SELECT auction, channel, price FROM bids) PIVOT (SUM(price) "
                "FOR channel IN ('web', 'app' AS a))"
            ),
            (
                "SELECT auction, SUM(price) FILTER (channel = 'web'), SUM(price) FILTER "
                "(channel = 'app') FROM bids GROUP BY auction"
            ),
        ),
        Probe("SELECT k, v FROM (SELECT n, a, b FROM numbers) UNPIVOT (v FOR k IN (a, b))"),
        Probe(
            (
                "SELECT * FROM (SELECT auction, price FROM bids) PIVOT (COUNT(*) AS n, "
                "MAX(price) AS m FOR auction IN (1, 2)) AS p"
            ),
            (
                'SELECT COUNT(*) FILTER (auction = 1) AS "1_n", MAX(price) FILTER (auction = '
                '1) AS "1_m", COUNT(*) FILTER (auction = 2) AS "2_n", MAX(price) FILTER '
                '(auction = 2) AS "2_m" FROM bids'
            ),
        ),
        Probe(
            ("SELECT k, v FROM (SELECT n, a, b FROM numbers) UNPIVOT (v FOR k IN (a, b AS other))"),
            (
                "SELECT k, v FROM (SELECT 'a' AS k, a AS v FROM numbers UNION ALL SELECT "
                "'other', b FROM numbers) WHERE v IS NOT NULL"
            ),
        ),
    ],
    "conditions": [
        Probe("SELECT n FROM numbers WHERE (a, b) IN ((7, 3), (2, 2))"),
        Probe(
            "SELECT n FROM numbers WHERE a BETWEEN SYMMETRIC 7 AND 0",
            "SELECT n FROM numbers WHERE a BETWEEN 0 AND 7",
        ),
        Probe(
            "SELECT id FROM words WHERE word LIKE ANY ('t%', '%e')",
            "SELECT id FROM words WHERE word LIKE 't%' OR word LIKE '%e'",
        ),
        Probe("SELECT n FROM numbers WHERE a IS DISTINCT FROM b"),
        Probe("SELECT n FROM numbers WHERE t IS NOT TRUE"),
        Probe("SELECT n, CASE a WHEN 7 THEN 'x' WHEN -7 THEN 'y' END FROM numbers"),
        Probe(
            "SELECT n, COALESCE(a, b), NULLIF(a, b), GREATEST(a, b) FROM numbers WHERE a "
            "IS NOT NULL AND b IS NOT NULL"
        ),
        Probe("SELECT price FROM bids WHERE auction IN (VALUES (1), (2))"),
        Probe("SELECT n FROM numbers WHERE (a, b) IN ((7, 3), (2, 2), (1, NULL))"),
        Probe("SELECT n FROM numbers WHERE (a, b) = (7, -3) OR (b, a) = (3, 7)"),
        Probe(
            "SELECT n, (a, b) <> (7, 3) AS v FROM numbers",
            "SELECT n, a <> 7 OR b <> 3 AS v FROM numbers",
        ),
        Probe(
            ("SELECT n FROM numbers WHERE a > ANY (VALUES (1), (5)) AND a < ALL (VALUES (9), (8))"),
            "SELECT n FROM numbers WHERE a > 1 AND a < 8",
        ),
        Probe(
            (
                "SELECT id FROM words WHERE word LIKE ANY ('t%', '%e') AND word NOT LIKE ALL "
                "('%z', '%time')"
            ),
            ("SELECT id FROM words WHERE (word LIKE 't%' OR word LIKE '%e') AND word NOT LIKE '%time'"),
        ),
    ],
    "decimals": [
        Probe("SELECT SUM(d), MIN(d), MAX(d) FROM numbers"),
        Probe("SELECT d * d, d + d, -d FROM numbers WHERE n < 3"),
        Probe("SELECT CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)) + 1 AS v"),
        Probe("SELECT d % 1 FROM numbers WHERE n > 4"),
        Probe("SELECT ROUND(d, 1), CEIL(d), FLOOR(d) FROM numbers WHERE n > 4"),
        Probe("SELECT n FROM numbers ORDER BY d DESC NULLS LAST LIMIT 3"),
        Probe("SELECT d, COUNT(*) FROM numbers GROUP BY d"),
    ],
    "strings": [
        Probe("SELECT UPPER(word), LENGTH(word), REVERSE(part) FROM words WHERE id < 2"),
        Probe("SELECT SUBSTRING(word, 2, 2), LEFT(word, 2), RIGHT(word, 2) FROM words WHERE id < 2"),
        Probe("SELECT SPLIT('a,b', ',')", "SELECT ['a', 'b']"),
        Probe("SELECT SPLIT_PART('a,b,c', ',', 2)"),
        Probe("SELECT REGEXP_REPLACE('a1b22', '[0-9]+', '#')", "SELECT 'a#b#'"),
        Probe("SELECT REGEXP_EXTRACT('x=12', '([a-z])=([0-9]+)', 2)"),
        Probe("SELECT REGEXP_COUNT('a1b22', '[0-9]')", "SELECT 3"),
        Probe("SELECT INITCAP('hello world')", "SELECT 'Hello World'"),
        Probe("SELECT TRANSLATE('abc', 'ab', 'xy')"),
        Probe("SELECT FORMAT_STRING('%s-%05d', 'a', 12)", "SELECT 'a-00012'"),
        Probe(
            "SELECT LPAD('7', 3, '0'), TRIM(BOTH 'x' FROM 'xax'), REPEAT('ab', 2)",
            "SELECT '007', 'a', 'abab'",
        ),
        Probe("SELECT 'Straße' SIMILAR TO 'S%'", "SELECT TRUE"),
        Probe("SELECT CONCAT_WS('-', 'a', NULL, 'b')"),
    ],
    "time": [
        Probe("SELECT YEAR(day), MONTH(day), EXTRACT(DAY FROM day) FROM words WHERE id < 2"),
        Probe("SELECT DATE_TRUNC('hour', moment) FROM words WHERE id < 3"),
        Probe(
            "SELECT day + INTERVAL '1' MONTH FROM words WHERE id < 2",
            "SELECT CAST(day + INTERVAL 1 MONTH AS DATE) FROM words WHERE id < 2",
        ),
        Probe("SELECT DATEDIFF(DATE '2026-03-01', DATE '2026-02-01')", "SELECT 28"),
        Probe("SELECT DATE '2026-03-01' - DATE '2026-02-01'", "SELECT INTERVAL 28 DAYS"),
        Probe("SELECT DATE_FORMAT(moment, 'yyyy/MM') FROM words WHERE id = 0", "SELECT '2026/03'"),
        Probe("SELECT TO_TIMESTAMP('2026-03-01 12:00:00')", "SELECT TIMESTAMP '2026-03-01 12:00:00'"),
        Probe("SELECT FROM_UNIXTIME(0)", "SELECT '1970-01-01 00:00:00'"),
        Probe("SELECT UNIX_TIMESTAMP('1970-01-02 00:00:00')", "SELECT 86400"),
        Probe("SELECT CAST('2026-03-01' AS DATE)"),
        Probe(
            (
                "SELECT TIMESTAMPDIFF(HOUR, TIMESTAMP '2026-03-01 00:00:00', TIMESTAMP "
                "'2026-03-02 01:00:00')"
            ),
            "SELECT 25",
        ),
        Probe(
            "SELECT TIMESTAMP '2026-03-01 12:00:00' AT TIME ZONE 'Europe/Berlin'",
            "SELECT TIMESTAMP '2026-03-01 13:00:00'",
        ),
    ],
    "JSON": [
        Probe("SELECT GET_JSON_OBJECT('{\"a\": {\"b\": 7}}', '$.a.b')", "SELECT '7'"),
        Probe("SELECT JSON_VALUE('{\"a\": \"x\"}', '$.a')", "SELECT 'x'"),
        Probe("SELECT TO_JSON(NAMED_STRUCT('a', 1))", "SELECT '{\"a\":1}'"),
        Probe("SELECT FROM_JSON('{\"a\": 1}', 'a INT').a", "SELECT 1"),
        Probe("SELECT JSON_QUERY('{\"a\": [1]}', '$.a')", "SELECT '[1]'"),
        Probe("SELECT PARSE_JSON('{\"a\": 1}'):a::INT", "SELECT 1"),
    ],
    "arrays": [
        Probe(
            "SELECT ARRAY(1, 2)[0], SIZE(ARRAY(1, 2)), ELEMENT_AT(ARRAY(1, 2), -1)", "SELECT 1, 2, 2"
        ),
        Probe("SELECT TRANSFORM(ARRAY(1, 2), x -> x * 2)", "SELECT [2, 4]"),
        Probe("SELECT FILTER(ARRAY(1, 2, 3), x -> x > 1)", "SELECT [2, 3]"),
        Probe("SELECT ARRAY_CONTAINS(ARRAY(1, 2), 2)", "SELECT TRUE"),
        Probe("SELECT AGGREGATE(ARRAY(1, 2, 3), 0, (s, x) -> s + x)", "SELECT 6"),
        Probe("SELECT ARRAY_JOIN(ARRAY('a', 'b'), '-')", "SELECT 'a-b'"),
        Probe("SELECT EXPLODE(ARRAY(1, 2)) AS x", "SELECT UNNEST([1, 2])"),
        Probe(
            "SELECT y FROM numbers, UNNEST(ARRAY(1, 2)) AS u(y) WHERE n = 0", "SELECT UNNEST([1, 2])"
        ),
        Probe(
            ("SELECT p, x FROM words LATERAL VIEW POSEXPLODE(ARRAY('a', 'b')) t AS p, x WHERE id = 0"),
            "SELECT 0, 'a' UNION ALL SELECT 1, 'b'",
        ),
        Probe("SELECT SEQUENCE(1, 3)", "SELECT [1, 2, 3]"),
    ],
    "maps and structs": [
        Probe("SELECT MAP('a', 1)['a']", "SELECT 1"),
        Probe("SELECT MAP_KEYS(MAP('a', 1, 'b', 2))", "SELECT ['a', 'b']"),
        Probe("SELECT NAMED_STRUCT('a', 1, 'b', 'x').b", "SELECT 'x'"),
        Probe("SELECT STRUCT(1 AS a, 2 AS b).a", "SELECT 1"),
        Probe("SELECT STR_TO_MAP('a=1,b=2', ',', '=')['b']", "SELECT '2'"),
    ],
    "numbers": [
        Probe("SELECT 7 DIV 2, -7 % 3, 1 / 4, ROUND(2.5)", "SELECT 3, -1, 0.25, 3"),
        Probe("SELECT 5 & 3, 5 | 3, 5 ^ 3, ~5", "SELECT 1, 7, 6, -6"),
        Probe("SELECT ABS(-2), SIGN(-3), POWER(2, 10), SQRT(16)"),
        Probe("SELECT CAST('12' AS INT), TRY_CAST('x' AS INT)"),
        Probe("SELECT SHIFTLEFT(1, 4), BIN(5), HEX(255)", "SELECT 16, '101', 'FF'"),
        Probe("SELECT CAST(1e10 AS STRING), CAST(0.1e0 AS STRING)", "SELECT '1.0E10', '0.1'"),
    ],
    "patterns": [
        Probe(
            (
                "SELECT COUNT(*) FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts "
                "MEASURES A.price AS p PATTERN (A B) DEFINE A AS A.price > 0, B AS B.price > "
                "PREV(B.price))"
            ),
            "SELECT 13",
        ),
        Probe(
            (
                "SELECT COUNT(*) FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts "
                "MEASURES A.price AS p PATTERN (A) DEFINE A AS A.price < NEXT(A.price))"
            ),
            (
                "SELECT COUNT(*) FROM (SELECT price < LEAD(price) OVER (PARTITION BY auction "
                "ORDER BY ts) AS u FROM bids) WHERE u"
            ),
        ),
    ],
}
