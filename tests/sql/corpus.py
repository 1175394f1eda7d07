"""Queries over the tables of `data` in SQL that Rheos, Spark and DuckDB have in common; where
DuckDB's syntax differs, its own query is next to it."""

from __future__ import annotations

from tests.sql.corpus_of_forms import FORMS
from tests.sql.corpus_of_frames import FRAMES
from tests.sql.corpus_of_lists import LISTED
from tests.sql.query import Query

_KEYS = {"numbers": "n", "words": "id"}


def _of(table: str, *expressions: str) -> list[Query]:
    """Return each expression over a table, with its key."""
    key = _KEYS[table]
    made = []
    for each in expressions:
        ours, _, theirs = each.partition(" ~ ")
        other = f"SELECT {key}, {theirs} AS v FROM {table}" if theirs else None
        made.append(Query(f"SELECT {key}, {ours} AS v FROM {table}", other, expression=ours))
    return made


SELECTS = [
    Query("SELECT * FROM bids"),
    Query("SELECT auction, price FROM bids WHERE price > 500"),
    Query("SELECT b.auction AS a, b.price p FROM bids AS b WHERE b.bidder IS NULL"),
    Query("SELECT b.* FROM bids b WHERE NOT (channel = 'web')"),
    Query(
        "SELECT price, price AS same FROM bids WHERE channel IS NOT NULL AND price BETWEEN 100 AND 300"
    ),
    Query("SELECT auction + 1 AS next FROM (SELECT auction FROM bids WHERE price < 300) AS low"),
    Query(
        "WITH web AS (SELECT * FROM bids WHERE channel = 'web') SELECT price FROM web WHERE auction = 2"
    ),
    Query(
        "WITH a(x, y) AS (SELECT auction, price FROM bids), b AS (SELECT x FROM a WHERE y > 400) "
        "SELECT x * 2 AS twice FROM b"
    ),
    Query(
        "SELECT auction FROM bids WHERE price > 900 UNION ALL SELECT bidder FROM bids WHERE price < 50"
    ),
    Query("SELECT n AS v FROM numbers UNION ALL SELECT a FROM numbers UNION ALL SELECT x FROM numbers"),
    Query("WITH w AS (SELECT n FROM numbers WHERE n > 5) SELECT n FROM w UNION ALL SELECT -n FROM w"),
    Query("SELECT 1 + 1 AS two, 'a' AS a, CAST(NULL AS INT) AS nothing"),
    Query(
        "SELECT a + 1 AS a, b FROM VALUES (1, 'x'), (2, 'y') AS t(a, b)",
        "SELECT a + 1 AS a, b FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b)",
    ),
    Query("SELECT AUCTION, Price FROM BIDS WHERE CHANNEL = 'app'"),
    Query(
        "SELECT `price` AS `the price` FROM bids WHERE price IN (10, 370, 740)",
        'SELECT price AS "the price" FROM bids WHERE price IN (10, 370, 740)',
    ),
    Query("SELECT auction FROM bids WHERE bidder IN (1, 2, NULL)"),
    Query("SELECT auction FROM bids WHERE bidder NOT IN (1, 2)"),
    Query(
        "SELECT price FROM bids WHERE ts >= TIMESTAMP '2026-03-01 12:10:00' AND ts < "
        "'2026-03-01 12:12:00'",
        "SELECT price FROM bids WHERE ts >= TIMESTAMP '2026-03-01 12:10:00' "
        "AND ts < TIMESTAMP '2026-03-01 12:12:00'",
    ),
    Query("SELECT n FROM numbers WHERE t"),
    Query("SELECT n FROM numbers WHERE NOT t"),
    Query("SELECT n FROM numbers WHERE t IS NOT TRUE"),
    Query("SELECT n FROM numbers WHERE t OR a > 0"),
    Query("SELECT n FROM numbers WHERE t AND a > 0"),
    Query("SELECT n FROM numbers WHERE a = b OR a IS NULL"),
]

NUMBERS = _of(
    "numbers",
    "a + b",
    "a - b * 2",
    "a / b ~ a / nullif(b, 0)",
    "x / b ~ x / nullif(b, 0)",
    "a % b",
    "a DIV b ~ a // b",
    "-a",
    "-x",
    "n + x",
    "n * 1.5",
    "d + 1",
    "d - 0.125",
    "d * d",
    "d * 2.5",
    "d + x",
    "x > d",
    "abs(a)",
    "abs(x)",
    "ceil(x)",
    "floor(x)",
    "round(x)",
    "round(x, 1)",
    "round(d, 1)",
    "sqrt(abs(x))",
    "power(x, 2)",
    "exp(n / 10)",
    "ln(n) ~ CASE WHEN n > 0 THEN ln(n) END",
    "log10(n + 1)",
    "log(2, n + 1)",
    "sign(x)",
    "mod(a, 4)",
    "greatest(a, b, 2)",
    "least(a, b)",
    "coalesce(a, b, 0)",
    "nullif(a, b)",
    "a <=> b ~ a IS NOT DISTINCT FROM b",
    "a IS DISTINCT FROM b",
    "a = b",
    "a IN (7, NULL)",
    "a NOT IN (7, NULL)",
    "a <> b",
    "a BETWEEN b AND 10",
    "t AND a > 0",
    "t OR a > 0",
    "NOT t",
    "t IS NULL",
    "CASE WHEN a > 0 THEN 'plus' WHEN a < 0 THEN 'minus' END",
    "CASE n WHEN 1 THEN 1 WHEN 2 THEN 2.5 ELSE 0 END",
    "CASE WHEN t THEN a ELSE x END",
    "if(a > b, a, b) ~ CASE WHEN a > b THEN a ELSE b END",
    "CAST(x AS BIGINT) ~ CAST(trunc(x) AS BIGINT)",
    "CAST(n AS STRING)",
    "CAST(d AS DOUBLE)",
    "CAST(d AS STRING)",
    "CAST(d AS DECIMAL(10, 1))",
    "CAST(d AS BIGINT) ~ CAST(trunc(d) AS BIGINT)",
    "CAST(n AS DECIMAL(6, 2))",
    "CAST(t AS INT)",
    "CAST(n AS BOOLEAN)",
    "n & 5",
    "n | 5",
    "n ^ 5 ~ xor(n, 5)",
    "degrees(x)",
    "sin(x)",
    "atan2(x, 2.0)",
)

WORDS = _of(
    "words",
    "upper(word)",
    "lower(word)",
    "length(word)",
    "word || '!'",
    "word || part",
    "concat(word, '-', id) ~ word || '-' || id",
    "concat_ws('-', word, part, 'end')",
    "trim(word)",
    "ltrim(word)",
    "rtrim(word)",
    "trim(BOTH 'te' FROM word) ~ trim(word, 'te')",
    "substring(word, 2, 3)",
    "substring(word, 3)",
    "substring(word, -4, 2)",
    "left(word, 3)",
    "right(word, 3)",
    "replace(word, 'e', 'EE')",
    "reverse(word)",
    "repeat(part, 3)",
    "lpad(word, 6, '*')",
    "rpad(word, 6, '*')",
    "instr(word, 'e')",
    "locate('a', word) ~ instr(word, 'a')",
    "position('ü' IN word)",
    "startswith(word, part) ~ starts_with(word, part)",
    "endswith(word, 'e') ~ suffix(word, 'e')",
    "contains(word, 'a')",
    "word LIKE 'te%'",
    "word LIKE '%_s%'",
    "word LIKE 'under!_%' ESCAPE '!'",
    "word NOT LIKE '%e%'",
    "word ILIKE 'JAM%'",
    "word LIKE '%100\\\\%' ~ word LIKE '%100\\%' ESCAPE '\\'",
    "word RLIKE '^[a-z ]+$' ~ regexp_matches(word, '^[a-z ]+$')",
    "regexp_extract(word, '([a-z]+)$', 1)",
    "regexp_replace(word, '[aeiou]', '.') ~ regexp_replace(word, '[aeiou]', '.', 'g')",
    "split(word, '/') ~ string_split(word, '/')",
    "split(word, '/')[1] ~ string_split(word, '/')[2]",
    "size(split(coalesce(word, ''), '/')) ~ len(string_split(coalesce(word, ''), '/'))",
    "coalesce(word, part, 'none')",
    "nvl(part, '?') ~ coalesce(part, '?')",
    "word < part",
    "greatest(word, part)",
    "year(day)",
    "month(day)",
    "day(day)",
    "quarter(day)",
    "dayofyear(day)",
    "dayofweek(day) ~ dayofweek(day) + 1",
    "weekofyear(day)",
    "hour(moment)",
    "minute(moment)",
    "second(moment)",
    "extract(YEAR FROM moment)",
    "date_add(day, 30) ~ day + 30",
    "date_sub(day, 1) ~ day - 1",
    "datediff(day, DATE '2026-01-01') ~ day - DATE '2026-01-01'",
    "day + INTERVAL '1' DAY ~ CAST(day + INTERVAL 1 DAY AS DATE)",
    "day + INTERVAL '1' MONTH ~ CAST(day + INTERVAL 1 MONTH AS DATE)",
    "add_months(day, 1) ~ CAST(day + INTERVAL 1 MONTH AS DATE)",
    "last_day(day)",
    "moment + INTERVAL '90' MINUTES",
    "moment - INTERVAL '1' YEAR",
    "date_trunc('HOUR', moment)",
    "date_trunc('month', moment)",
    "date_trunc('WEEK', moment)",
    "CAST(moment AS DATE)",
    "to_date(moment) ~ CAST(moment AS DATE)",
    "date_format(moment, 'yyyy-MM-dd HH:mm') ~ strftime(moment, '%Y-%m-%d %H:%M')",
    "day > '2025-01-01'",
    "moment BETWEEN '2026-03-02' AND '2026-03-04 00:00:00' ~ moment BETWEEN TIMESTAMP '2026-03-02' AND "
    "TIMESTAMP '2026-03-04'",
    "moment > day",
    "CAST(day AS STRING)",
    "CAST(number AS INT) ~ CASE trim(number) WHEN '12' THEN 12 WHEN '-7' THEN -7 WHEN '1.9' THEN 1 "
    "WHEN '+3' THEN 3 END",
    "CAST(number AS DOUBLE) ~ TRY_CAST(trim(number) AS DOUBLE)",
    "CAST(number AS BOOLEAN) ~ CASE number WHEN 'true' THEN true END",
    "CAST('2026-03-01' AS DATE)",
    "unix_millis(moment) ~ epoch_ms(moment)",
    "timestamp_millis(id * 1000) ~ make_timestamp(id * 1000000)",
)

TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
HOP = "TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '6' MINUTES))"
CUMULATE = "TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '6' MINUTES))"
SESSION = "TABLE(SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '90' SECONDS))"

VIEWS = {
    TUMBLE: (
        "tumbled",
        "SELECT *, time_bucket(INTERVAL 5 MINUTE, ts) AS window_start, "
        "window_start + INTERVAL 5 MINUTE AS window_end, "
        "window_end - INTERVAL 1 MILLISECOND AS window_time FROM bids",
    ),
    HOP: (
        "hopped",
        "SELECT *, window_start + INTERVAL 6 MINUTE AS window_end FROM (SELECT *, unnest([time_bucket("
        "INTERVAL 2 MINUTE, ts) - INTERVAL (2 * n) MINUTE FOR n IN [0, 1, 2]]) AS window_start "
        "FROM bids)",
    ),
    CUMULATE: (
        "cumulated",
        "SELECT * FROM (SELECT *, time_bucket(INTERVAL 6 MINUTE, ts) AS window_start, "
        "unnest([time_bucket("
        "INTERVAL 6 MINUTE, ts) + INTERVAL (2 * n) MINUTE FOR n IN [1, 2, 3]]) AS window_end FROM "
        "bids) "
        "WHERE ts < window_end",
    ),
    SESSION: (
        "sessions",
        "SELECT *, min(ts) OVER (PARTITION BY auction, number) AS window_start, max(ts) OVER "
        "(PARTITION "
        "BY auction, number) + INTERVAL 90 SECOND AS window_end FROM (SELECT *, sum(CASE WHEN ts "
        "- before "
        "<= INTERVAL 90 SECOND THEN 0 ELSE 1 END) OVER (PARTITION BY auction ORDER BY ts) AS "
        "number FROM "
        "(SELECT *, lag(ts) OVER (PARTITION BY auction ORDER BY ts) AS before FROM bids))",
    ),
}
"""What DuckDB has in the place of each window function: a view, and its query."""


def _windowed(*queries: str) -> list[Query]:
    made = []
    for sql in queries:
        theirs = sql
        for call, (view, _) in VIEWS.items():
            theirs = theirs.replace(call, view)
        made.append(Query(sql, theirs, spark=False))
    return made


WINDOWS = _windowed(
    f"SELECT window_start, COUNT(*) AS n FROM (SELECT DISTINCT auction, window_start, window_end FROM "
    f"{TUMBLE}) AS t GROUP BY window_start, window_end",
    f"SELECT window_start, SUM(n) AS s FROM (SELECT window_start, window_end, COUNT(*) AS n FROM "
    f"{TUMBLE} "
    f"GROUP BY window_start, window_end UNION ALL SELECT window_start, window_end, MAX(price) "
    f"FROM {HOP} "
    "GROUP BY window_start, window_end) AS t GROUP BY window_start, window_end",
    f"SELECT window_start, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end",
    f"SELECT auction, window_start, window_end, COUNT(*) AS n, SUM(price) AS total, MIN(price) AS low, "
    f"MAX(price) AS high, AVG(price) AS mean, COUNT(bidder) AS known FROM {TUMBLE} "
    "GROUP BY auction, window_start, window_end",
    f"SELECT window_end, COUNT(DISTINCT bidder) AS bidders FROM {TUMBLE} GROUP BY window_start, "
    f"window_end",
    f"SELECT channel, window_start, COUNT(*) FILTER (WHERE price > 500) AS dear, SUM(price) FILTER "
    f"(WHERE auction = 1) AS of_one FROM {HOP} GROUP BY channel, window_start, window_end",
    f"SELECT upper(channel) AS c, window_start, MAX(price * 2) + 1 AS m FROM {TUMBLE} WHERE price "
    f"> 100 "
    "GROUP BY window_start, window_end, upper(channel) HAVING COUNT(*) > 2",
    f"SELECT auction, window_start, window_end, COUNT(*) AS n FROM {CUMULATE} "
    "GROUP BY auction, window_start, window_end",
    f"SELECT auction, window_start, window_end, COUNT(*) AS n, SUM(price) AS total FROM {SESSION} "
    "GROUP BY auction, window_start, window_end",
    f"SELECT window_end, SUM(DISTINCT auction) AS s, AVG(DISTINCT bidder) AS a, MAX(DISTINCT price) "
    f"AS m FROM {TUMBLE} GROUP BY window_start, window_end",
    f"SELECT window_start, window_time, STDDEV(price) AS s, VAR_POP(price) AS v FROM {TUMBLE} "
    "GROUP BY window_start, window_end, window_time",
    f"SELECT a, window_start, SUM(twice) AS s FROM (SELECT auction AS a, price * 2 AS twice, "
    f"window_start, "
    f"window_end FROM {TUMBLE} WHERE price > 50) AS t GROUP BY a, window_start, window_end",
    f"WITH counts AS (SELECT auction, window_start, window_end, COUNT(*) AS n FROM {HOP} GROUP BY "
    f"auction, "
    "window_start, window_end) SELECT window_start, window_end, MAX(n) AS most, SUM(n) AS total "
    "FROM counts "
    "GROUP BY window_start, window_end",
    f"SELECT auction % 2 AS parity, window_start, COUNT(*) AS n FROM {TUMBLE} GROUP BY 1, 2, "
    f"window_end",
    f"SELECT price, window_start, window_end FROM {TUMBLE} WHERE price > 600",
    f"SELECT price, window_start, window_end FROM {HOP} WHERE price > 600",
    f"SELECT price, window_start, window_end FROM {CUMULATE} WHERE price > 600",
    f"SELECT DISTINCT auction, window_start FROM {TUMBLE}",
    f"SELECT auction, price, window_start, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, "
    f"window_end ORDER BY price DESC) AS n FROM {TUMBLE}) AS t WHERE n <= 3",
    f"SELECT auction, total, window_end, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, "
    f"window_end ORDER BY total, auction) AS n FROM (SELECT auction, SUM(price) AS total, "
    f"window_start, "
    f"window_end FROM {TUMBLE} GROUP BY auction, window_start, window_end) AS s) AS t WHERE n <= 2",
    f"SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction, "
    f"window_start, "
    f"window_end ORDER BY ts DESC) AS n FROM {TUMBLE}) AS t WHERE n = 1",
)

_NONE = "FROM bids WHERE price > 1000000"
NO_ROWS = [
    Query(f"SELECT COUNT(*) AS n, SUM(price) AS s, MAX(channel) AS m, AVG(price) AS a {_NONE}"),
    Query(f"SELECT COUNT(price) + 1 AS n, COUNT(DISTINCT price) AS d {_NONE}"),
    Query(f"SELECT COALESCE(SUM(price), 0) AS s {_NONE}"),
    Query(f"SELECT COUNT(*) FILTER (WHERE price > 5) AS n {_NONE} HAVING COUNT(*) = 0"),
    Query(f"SELECT COUNT(*) AS n FROM (SELECT auction, COUNT(*) AS c {_NONE} GROUP BY auction) AS t"),
    Query(
        "SELECT COUNT(*) AS n, SUM(c) AS s FROM (SELECT auction, COUNT(*) AS c FROM bids "
        "GROUP BY auction) AS t WHERE c < 0"
    ),
    Query(f"SELECT auction FROM bids WHERE auction > (SELECT COUNT(*) {_NONE})"),
    Query(f"SELECT auction, (SELECT COUNT(price) * 2 + 1 {_NONE}) AS n FROM bids"),
    Query(f"SELECT auction, (SELECT SUM(price) {_NONE}) AS n FROM bids"),
    Query(f"SELECT COUNT(*) AS n {_NONE} UNION ALL SELECT COUNT(*) FROM bids"),
    Query(f"SELECT price FROM bids WHERE EXISTS (SELECT COUNT(*) {_NONE}) AND price > 900"),
    Query(f"SELECT price FROM bids WHERE price > 900 AND 0 IN (SELECT COUNT(*) {_NONE})"),
]
"""Aggregates without GROUP BY over no rows: they have one row."""

GROUPS = [
    Query(
        "SELECT often, COUNT(*) AS n FROM (SELECT auction, COUNT(*) AS often FROM bids GROUP BY "
        "auction "
        "HAVING SUM(price) > 7000) AS t GROUP BY often"
    ),
    Query(
        "SELECT auction, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, auction) AS r FROM "
        "(SELECT "
        "auction, COUNT(*) AS n FROM bids WHERE bidder > 1 GROUP BY auction HAVING SUM(price) < "
        "6000) AS "
        "s) AS t WHERE r <= 2"
    ),
    Query(
        "SELECT g.auction, g.n, s.id FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY "
        "auction HAVING "
        "SUM(price) < 8000) AS g JOIN sales s ON g.auction = s.auction"
    ),
    Query(
        "SELECT auction, SUM(n) AS s FROM (SELECT DISTINCT auction, price % 7 AS n FROM bids) AS "
        "t GROUP "
        "BY auction"
    ),
    Query(
        "SELECT k, COUNT(*) AS n FROM (SELECT auction AS k FROM bids UNION ALL SELECT auction "
        "FROM sales) "
        "AS t GROUP BY k"
    ),
    Query(
        "SELECT auction, COUNT(*) AS n, SUM(price) AS total, MIN(price) AS low, MAX(price) AS high, "
        "AVG(price) AS mean FROM bids GROUP BY auction"
    ),
    Query(
        "SELECT channel, COUNT(bidder) AS known, COUNT(*) - COUNT(bidder) AS missing FROM bids "
        "GROUP BY "
        "channel"
    ),
    Query("SELECT COUNT(*) AS n, SUM(price) AS total FROM bids"),
    Query("SELECT SUM(price) AS total FROM bids GROUP BY auction"),
    Query("SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction HAVING SUM(price) > 8000"),
    Query(
        "SELECT auction, n * 2 AS twice FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY "
        "auction) "
        "AS t WHERE n > 15"
    ),
    Query(
        "SELECT n, COUNT(*) AS often FROM (SELECT bidder, COUNT(*) AS n FROM bids GROUP BY "
        "bidder) AS t "
        "GROUP BY n"
    ),
    Query(
        "SELECT AVG(total) AS mean, SUM(total) AS s FROM (SELECT auction, SUM(price) AS total "
        "FROM bids "
        "GROUP BY auction) AS t"
    ),
    Query("SELECT price % 3 AS r, auction, COUNT(*) AS n FROM bids GROUP BY price % 3, auction"),
    Query("SELECT price % 3 AS r, SUM(price % 3) AS s FROM bids GROUP BY r"),
    Query("SELECT COUNT(*) FILTER (WHERE price > 500) AS dear, channel FROM bids GROUP BY 2"),
    Query("SELECT count_if(price > 500) AS dear, auction FROM bids GROUP BY auction"),
    Query("SELECT t, SUM(d) AS s, MIN(d) AS low, COUNT(x) AS n, SUM(x) AS sx FROM numbers GROUP BY t"),
    Query("SELECT bool_or(a > 6) AS some, bool_and(a > -8) AS every FROM numbers GROUP BY n % 2"),
    Query("SELECT DISTINCT auction FROM bids"),
    Query("SELECT DISTINCT channel, price > 500 AS dear FROM bids"),
    Query("SELECT DISTINCT n FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) AS t"),
    Query("SELECT auction FROM bids UNION SELECT bidder FROM bids"),
    Query("SELECT auction FROM bids INTERSECT SELECT bidder FROM bids"),
    Query("SELECT bidder FROM bids EXCEPT SELECT auction FROM bids WHERE price > 500"),
    Query("SELECT channel, bidder FROM bids EXCEPT SELECT channel, auction FROM bids"),
    Query(
        "SELECT price % 40 AS v FROM bids EXCEPT SELECT auction FROM bids "
        "EXCEPT SELECT bidder FROM bids"
    ),
    Query(
        "SELECT bidder FROM bids INTERSECT SELECT auction FROM bids "
        "INTERSECT SELECT price % 7 FROM bids"
    ),
    Query("SELECT n FROM numbers EXCEPT SELECT a FROM numbers"),
    Query(
        "SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction EXCEPT "
        "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder"
    ),
    Query(
        "SELECT here, COUNT(*) AS n FROM (SELECT channel AS here, auction AS there FROM bids INTERSECT "
        "SELECT channel, bidder FROM bids) AS t GROUP BY here"
    ),
    Query(
        "SELECT auction AS k, COUNT(*) AS n FROM bids GROUP BY auction UNION ALL SELECT bidder, "
        "COUNT(*) "
        "FROM bids GROUP BY bidder"
    ),
    Query(
        "SELECT MAX(price) + MIN(price) AS v, CASE WHEN COUNT(*) > 16 THEN 'many' ELSE 'few' END AS c "
        "FROM bids GROUP BY auction"
    ),
    Query("SELECT channel, STDDEV(price) AS s, VARIANCE(price) AS v FROM bids GROUP BY channel"),
]

# Different values of one column.
GROUPS += [
    Query("SELECT auction, COUNT(DISTINCT bidder) AS n FROM bids GROUP BY auction"),
    Query("SELECT COUNT(DISTINCT channel) AS n FROM bids"),
    Query(
        "SELECT bidder, SUM(DISTINCT auction) AS s, AVG(DISTINCT auction) AS a, "
        "COUNT(DISTINCT auction) AS n FROM bids GROUP BY bidder HAVING COUNT(DISTINCT auction) > 2"
    ),
    Query(
        "SELECT auction, COUNT(DISTINCT bidder) FILTER (WHERE price > 500) AS n FROM bids "
        "GROUP BY auction"
    ),
    Query(
        "SELECT COUNT(DISTINCT n) AS d FROM (SELECT bidder, COUNT(*) AS n FROM bids "
        "GROUP BY bidder) AS t"
    ),
]

_TOTALS = (
    "(SELECT bidder, auction, COUNT(*) AS n, SUM(price) AS s FROM bids GROUP BY bidder, auction) AS t"
)

# Retracted rows, and different values next to each other.
GROUPS += [
    Query(
        f"SELECT auction, MIN(s) AS low, MAX(s) AS high, COUNT(*) AS c FROM {_TOTALS} GROUP BY auction"
    ),
    Query(f"SELECT MIN(s) AS low, MAX(n) AS most, MAX(bidder) AS b FROM {_TOTALS}"),
    Query(
        "SELECT MAX(best) AS m, MIN(best) AS l FROM (SELECT channel, MAX(price) AS best FROM bids "
        "GROUP BY channel) AS t"
    ),
    Query(
        "SELECT n, MIN(channel) AS f, MAX(channel) AS l FROM (SELECT channel, bidder, COUNT(*) AS n "
        "FROM bids GROUP BY channel, bidder) AS t GROUP BY n"
    ),
    Query(
        "SELECT n, MIN(m) AS f, MAX(m) AS l FROM (SELECT auction, COUNT(*) AS n, AVG(price) AS m "
        "FROM bids GROUP BY auction) AS t GROUP BY n"
    ),
    Query(
        f"SELECT auction, MIN(s) FILTER (WHERE n > 1) AS low, MAX(s % 7) AS r, SUM(n) AS total, "
        f"bool_and(n > 1) AS every, bool_or(n > 4) AS some FROM {_TOTALS} GROUP BY auction"
    ),
    Query(
        "SELECT t, MAX(d) AS high, MIN(d) AS low FROM (SELECT n % 2 AS t, n % 4 AS k, SUM(d) AS d "
        "FROM numbers GROUP BY n % 2, n % 4) AS t GROUP BY t"
    ),
    Query(
        "SELECT auction, COUNT(DISTINCT bidder) AS b, COUNT(DISTINCT channel) AS c, COUNT(*) AS n, "
        "SUM(price) AS s, MAX(price) AS m, SUM(DISTINCT price % 50) AS d, AVG(DISTINCT bidder) AS a "
        "FROM bids GROUP BY auction"
    ),
    Query(
        "SELECT COUNT(DISTINCT auction) FILTER (WHERE price > 700) AS dear, "
        "COUNT(DISTINCT auction) FILTER (WHERE channel = 'web') AS web, COUNT(DISTINCT bidder) AS b, "
        "STDDEV(price) AS s, MIN(DISTINCT price) AS low FROM bids"
    ),
    Query(
        f"SELECT auction, COUNT(DISTINCT n) AS d, SUM(DISTINCT n) AS sd, AVG(DISTINCT s) AS ad, "
        f"MAX(n) AS m, COUNT(DISTINCT bidder) AS b, SUM(s) AS total FROM {_TOTALS} GROUP BY auction"
    ),
    Query("SELECT t, SUM(DISTINCT d) AS s, COUNT(DISTINCT x) AS n FROM numbers GROUP BY t"),
]

# Up to as often as both sides have a row, or as the first has it more often.
GROUPS += [
    Query("SELECT auction FROM bids INTERSECT ALL SELECT bidder FROM bids"),
    Query("SELECT channel, bidder FROM bids EXCEPT ALL SELECT channel, auction FROM bids"),
    Query(
        "SELECT bidder, COUNT(*) AS n FROM (SELECT bidder FROM bids EXCEPT ALL SELECT auction FROM "
        "bids "
        "WHERE price > 300) AS t GROUP BY bidder"
    ),
    Query(
        "SELECT n FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) AS t INTERSECT ALL "
        "SELECT auction + 14 FROM bids"
    ),
    Query(
        "SELECT price % 20 AS v FROM bids EXCEPT ALL SELECT n FROM (SELECT bidder, COUNT(*) AS n "
        "FROM bids GROUP BY bidder) AS t"
    ),
    Query("SELECT auction AS v, price FROM bids UNION ALL SELECT n, a FROM numbers"),
    Query(
        "SELECT ts, price FROM bids UNION ALL SELECT moment, id FROM words UNION ALL SELECT sold, 1 "
        "FROM sales"
    ),
]

# Decimals.
GROUPS += [
    Query(
        "SELECT t, AVG(d) AS m, AVG(d + 1) + 1 AS x FROM numbers GROUP BY t",
        "SELECT t, round(AVG(d), 6) AS m, round(AVG(d + 1), 6) + 1 AS x FROM numbers GROUP BY t",
    ),
    Query(
        "SELECT AVG(d) AS m, AVG(DISTINCT d) AS o, AVG(d) FILTER (WHERE n > 3) AS f, AVG(x) AS x "
        "FROM numbers",
        "SELECT round(AVG(d), 6) AS m, round(AVG(DISTINCT d), 6) AS o, "
        "round(AVG(d) FILTER (WHERE n > 3), 6) AS f, AVG(x) AS x FROM numbers",
    ),
    Query(
        "SELECT k, AVG(s) AS m FROM (SELECT n % 5 AS j, n % 2 AS k, SUM(CAST(d AS DECIMAL(8, 2))) "
        "AS s FROM numbers "
        "GROUP BY n % 5, n % 2) AS t GROUP BY k HAVING AVG(s) > -1000",
        "SELECT k, round(AVG(s), 6) AS m FROM (SELECT n % 5 AS j, n % 2 AS k, SUM(d) AS s FROM numbers "
        "GROUP BY n % 5, n % 2) AS t GROUP BY k HAVING AVG(s) > -1000",
    ),
]

GROUPINGS = [
    Query(
        "SELECT auction, channel, COUNT(*) AS n, SUM(price) AS s, GROUPING(auction) AS g, "
        "GROUPING(channel) AS h FROM bids GROUP BY ROLLUP(auction, channel)"
    ),
    Query(
        "SELECT auction % 2 AS odd, channel, MAX(auction) AS m, GROUPING_ID(auction % 2, channel) "
        "AS g FROM bids "
        "GROUP BY CUBE(auction % 2, channel) HAVING GROUPING(channel) = 0 OR COUNT(*) > 30",
    ),
    Query(
        "SELECT auction, bidder, COUNT(DISTINCT channel) AS n FROM bids GROUP BY GROUPING SETS "
        "((auction, bidder), (bidder), ())"
    ),
    Query(
        "SELECT channel, bidder, auction, COUNT(*) AS n FROM bids GROUP BY channel, "
        "ROLLUP(bidder, auction)",
    ),
    Query(
        "SELECT bidder, auction, MAX(n) AS m, COUNT(*) AS c FROM (SELECT auction, bidder, COUNT(*) "
        "AS n "
        "FROM bids GROUP BY auction, bidder) AS t GROUP BY CUBE(bidder, auction)"
    ),
    Query(
        "SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction WITH ROLLUP",
        "SELECT auction, COUNT(*) AS n FROM bids GROUP BY ROLLUP(auction)",
    ),
    Query("SELECT channel, COUNT(*) AS n FROM bids GROUP BY GROUPING SETS ((channel), (channel), ())"),
    *_windowed(
        f"SELECT window_start, auction, channel, SUM(price) AS s, GROUPING(auction) AS g FROM {TUMBLE} "
        "GROUP BY window_start, window_end, GROUPING SETS ((auction), (channel), ())",
        f"SELECT window_end, auction, COUNT(*) AS n FROM {HOP} WHERE price > 300 "
        "GROUP BY window_start, window_end, ROLLUP(auction)",
        f"SELECT window_end, m, COUNT(*) AS c FROM (SELECT window_start, window_end, auction, "
        f"MAX(price) % 3 AS m "
        f"FROM {TUMBLE} GROUP BY window_start, window_end, auction) AS t GROUP BY window_start, "
        f"window_end, CUBE(m)",
    ),
]

RANKS = [
    Query("SELECT auction, price FROM bids ORDER BY price DESC LIMIT 7"),
    Query("SELECT b.price AS p, channel FROM bids AS b WHERE auction = 2 ORDER BY p LIMIT 4 OFFSET 2"),
    Query(
        "WITH t AS (SELECT bidder, SUM(price) AS s FROM bids GROUP BY bidder) "
        "SELECT * FROM t ORDER BY 2 DESC, 1 LIMIT 3"
    ),
    Query("SELECT MAX(price) AS m FROM (SELECT price FROM bids ORDER BY price LIMIT 20 OFFSET 5) AS t"),
    Query(
        "SELECT price FROM bids WHERE price < 60 UNION ALL SELECT amount FROM sales WHERE amount > 90 "
        "ORDER BY price DESC LIMIT 6"
    ),
    Query(
        "SELECT auction, price, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER "
        "BY price "
        "DESC) AS n FROM bids) AS t WHERE n <= 3"
    ),
    Query(
        "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) "
        "AS n FROM bids) AS t WHERE n < 3 AND price > 10"
    ),
    Query(
        "SELECT price, n FROM (SELECT price, ROW_NUMBER() OVER (ORDER BY price DESC) AS n FROM "
        "bids) AS t "
        "WHERE n BETWEEN 1 AND 5"
    ),
    Query(
        "SELECT channel, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY channel ORDER BY "
        "ts DESC) "
        "AS n FROM bids) AS t WHERE n = 1"
    ),
    Query(
        "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY "
        "ts) AS n "
        "FROM bids) AS t WHERE n = 1"
    ),
    Query(
        "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY "
        "bidder DESC, price, ts) AS n FROM bids) AS t WHERE n <= 4",
        "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY "
        "bidder DESC NULLS LAST, price, ts) AS n FROM bids) AS t WHERE n <= 4",
    ),
    Query(
        "SELECT n, a FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY a, n) AS r FROM numbers) AS t WHERE "
        "r <= 4",
        "SELECT n, a FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY a NULLS FIRST, n) AS r FROM "
        "numbers) AS "
        "t WHERE r <= 4",
    ),
    Query(
        "SELECT id, word FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY word DESC) AS r FROM words) AS t "
        "WHERE r <= 3",
        "SELECT id, word FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY word DESC NULLS LAST) AS r FROM "
        "words) AS t WHERE r <= 3",
    ),
    Query(
        "SELECT auction, total FROM (SELECT auction, SUM(price) AS total, ROW_NUMBER() OVER (ORDER BY "
        "SUM(price) DESC) AS r FROM bids GROUP BY auction) AS t WHERE r <= 2"
    ),
    Query(
        "SELECT channel, auction, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY channel "
        "ORDER BY "
        "total DESC, auction) AS r FROM (SELECT channel, auction, SUM(price) AS total FROM bids "
        "GROUP BY "
        "channel, auction) AS s) AS t WHERE 2 >= r"
    ),
]

JOINS = [
    Query(
        "SELECT * FROM (SELECT id, word FROM words) AS w, (SELECT auction AS a, bidder, price FROM "
        "bids) AS b, (SELECT id AS sale, auction AS of_sale, amount FROM sales) AS s, (SELECT n, x "
        "FROM numbers) AS n WHERE w.id = s.sale AND b.a = s.of_sale AND "
        "n.n = b.bidder AND price > 600 AND s.amount <> b.price"
    ),
    Query(
        "SELECT b.price, n.n FROM bids b LEFT JOIN numbers n ON n.n = s.id, sales s WHERE s.id = "
        "b.auction AND price < 300",
        "SELECT b.price, n.n FROM bids b JOIN sales s ON s.id = b.auction LEFT JOIN numbers n ON "
        "n.n = s.id WHERE price < 300",
        spark=False,
    ),
    Query(
        "SELECT b.price, s.id FROM bids b JOIN sales s ON (b.auction = s.auction AND price < 300) OR "
        "(b.auction = s.auction AND s.id > 30) OR (s.id < 3 AND s.auction = b.auction)"
    ),
    Query("SELECT n.n, s.id FROM numbers n JOIN sales s ON n.a > s.amount AND s.id < 20"),
    Query(
        "SELECT n.n, s.id FROM numbers n LEFT JOIN sales s ON n.n = s.auction AND s.amount > n.a "
        "AND n.x > 0"
    ),
    Query("SELECT n.n, s.id FROM numbers n FULL JOIN sales s ON n.n = s.auction AND s.amount > n.a"),
    Query("SELECT b.price, s.id FROM bids b JOIN sales s ON b.auction = s.auction AND s.sold < b.ts"),
    Query("SELECT auction, price, rate FROM bids RIGHT JOIN rates USING (auction) WHERE rate > 3"),
    Query(
        "SELECT auction, price, id FROM bids FULL JOIN sales USING (auction) WHERE bids.price IS NULL"
    ),
    Query(
        "SELECT * FROM (SELECT n, a, b FROM numbers) AS one NATURAL JOIN (SELECT n, a, x FROM numbers) "
        "AS other"
    ),
    Query("SELECT price - most AS d FROM bids CROSS JOIN (SELECT MAX(amount) AS most FROM sales) AS s"),
    Query(
        "SELECT b.price, s.amount FROM bids b JOIN sales s ON b.auction = s.auction WHERE b.price > 700"
    ),
    Query("SELECT price, id FROM bids b, sales s WHERE b.auction = s.auction AND s.id < 5"),
    Query(
        "SELECT s.id, s.auction, b.price FROM sales s LEFT JOIN bids b ON s.auction = b.auction "
        "AND b.price = 10"
    ),
    Query(
        "SELECT s.id, b.price FROM bids b RIGHT JOIN sales s ON s.auction = b.auction AND b.price > 900"
    ),
    Query("SELECT s.id, n.n FROM sales s FULL JOIN numbers n ON s.id = n.a"),
    Query("SELECT n.n, m.n AS other FROM numbers n JOIN numbers m ON n.a = m.b AND n.n < m.n"),
    Query("SELECT n.n, m.n AS other FROM numbers n LEFT JOIN numbers m ON n.a + 1 = m.b"),
    Query(
        "SELECT auction, price, amount FROM bids JOIN sales USING (auction) WHERE price < 50",
        "SELECT b.auction, price, amount FROM bids b JOIN sales s ON b.auction = s.auction WHERE "
        "price < 50",
    ),
    Query(
        "SELECT b.bidder, s.id, r.rate FROM bids b JOIN sales s ON b.auction = s.auction JOIN "
        "rates r ON "
        "s.auction = r.auction WHERE b.price > 800 AND r.rate > 5"
    ),
    Query(
        "SELECT a.auction, a.n, b.total FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY "
        "auction) AS a "
        "JOIN (SELECT auction, SUM(amount) AS total FROM sales GROUP BY auction) AS b ON "
        "a.auction = b.auction"
    ),
    Query(
        "SELECT b.auction, COUNT(*) AS pairs FROM bids b JOIN sales s ON b.auction = s.auction "
        "GROUP BY b.auction"
    ),
    Query(
        "SELECT s.id, c.n FROM sales s LEFT JOIN (SELECT auction, COUNT(*) AS n FROM bids GROUP "
        "BY auction) AS c "
        "ON s.auction = c.auction"
    ),
    Query(
        "SELECT b.price, s.id FROM bids b JOIN sales s ON b.auction = s.auction AND s.sold "
        "BETWEEN b.ts AND "
        "b.ts + INTERVAL '1' MINUTE"
    ),
    Query(
        "SELECT b.price, s.id FROM bids b JOIN sales s ON b.auction = s.auction AND s.sold > b.ts "
        "- INTERVAL "
        "'30' SECONDS AND s.sold < b.ts + INTERVAL '50' SECONDS"
    ),
    Query(
        "SELECT b.price, s.id FROM bids b LEFT JOIN sales s ON b.auction = s.auction AND b.ts "
        "BETWEEN s.sold - "
        "INTERVAL '1' MINUTE AND s.sold"
    ),
    Query(
        "SELECT b.price, s.id FROM bids b FULL JOIN sales s ON b.auction = s.auction AND b.ts <= "
        "s.sold AND "
        "s.sold <= b.ts + INTERVAL '20' SECONDS"
    ),
    Query(
        "SELECT s.id, r.rate FROM sales s, rates r WHERE s.sold >= r.valid AND s.sold <= r.valid "
        "+ INTERVAL '9' "
        "SECONDS"
    ),
    Query(
        "SELECT s.id, s.amount * r.rate AS v FROM sales s JOIN rates FOR SYSTEM_TIME AS OF s.sold "
        "AS r ON "
        "s.auction = r.auction",
        "SELECT s.id, s.amount * r.rate AS v FROM sales s ASOF JOIN rates r ON s.auction = "
        "r.auction AND s.sold "
        ">= r.valid",
        spark=False,
    ),
    Query(
        "SELECT s.id, r.rate FROM sales s LEFT JOIN rates FOR SYSTEM_TIME AS OF s.sold AS r ON "
        "s.auction = "
        "r.auction",
        "SELECT s.id, r.rate FROM sales s ASOF LEFT JOIN rates r ON s.auction = r.auction AND "
        "s.sold >= r.valid",
        spark=False,
    ),
]

SOLD = "TABLE(TUMBLE(TABLE sales, DESCRIPTOR(sold), INTERVAL '5' MINUTES))"
VIEWS[SOLD] = (
    "sold_tumbled",
    "SELECT *, time_bucket(INTERVAL 5 MINUTE, sold) AS window_start, window_start + INTERVAL 5 "
    "MINUTE AS "
    "window_end FROM sales",
)

JOINS += _windowed(
    f"SELECT b.price, s.id, b.window_start, s.window_end FROM {TUMBLE} AS b JOIN {SOLD} AS s ON "
    f"b.auction = "
    "s.auction AND b.window_start = s.window_start AND b.window_end = s.window_end",
    f"SELECT b.price, s.id, s.window_start FROM {TUMBLE} AS b LEFT JOIN {SOLD} AS s ON "
    f"b.window_start = "
    "s.window_start AND b.window_end = s.window_end AND b.price = s.amount * 10",
    f"SELECT b.n, s.m, b.window_start FROM (SELECT window_start, window_end, COUNT(*) AS n FROM "
    f"{TUMBLE} GROUP BY "
    f"window_start, window_end) AS b JOIN (SELECT window_start, window_end, MAX(amount) AS m FROM "
    f"{SOLD} GROUP BY "
    "window_start, window_end) AS s ON b.window_start = s.window_start AND b.window_end = s.window_end",
    f"SELECT n, m, window_start FROM (SELECT auction, window_start, window_end, COUNT(*) AS n FROM "
    f"{TUMBLE} GROUP BY auction, window_start, window_end) AS b FULL JOIN (SELECT auction, "
    f"window_start, window_end, MAX(amount) AS m FROM {SOLD} GROUP BY auction, window_start, "
    "window_end) AS s USING (auction, window_start, window_end)",
    f"WITH c AS (SELECT auction, COUNT(*) AS n, window_start, window_end FROM {HOP} GROUP BY "
    f"auction, window_start, "
    "window_end) SELECT c.auction, c.n, c.window_start FROM c JOIN (SELECT MAX(n) AS most, "
    "window_start, window_end "
    "FROM c GROUP BY window_start, window_end) AS m ON c.window_start = m.window_start AND "
    "c.window_end = "
    "m.window_end AND c.n >= m.most",
)

_FOUR = "OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
_NEAR = (
    "OVER (PARTITION BY auction ORDER BY ts "
    "RANGE BETWEEN INTERVAL '2' MINUTES PRECEDING AND CURRENT ROW)"
)
_BIDDERS = (
    "(SELECT bidder, COUNT(*) AS n, SUM(price) AS s FROM bids WHERE bidder IS NOT NULL GROUP BY bidder)"
)

_AROUND = "OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING)"


def _frames(functions: str, *frames: str) -> str:
    """Return the columns of some functions over some frames of auctions."""
    return ", ".join(
        f"{function} OVER (PARTITION BY auction ORDER BY ts {frame}) AS f{place}_{number}"
        for place, frame in enumerate(frames)
        for number, function in enumerate(functions.split("; "))
    )


_EACH = (
    "SUM(price); COUNT(*); COUNT(channel); AVG(price); MIN(price); MAX(channel); STDDEV(price); "
    "COUNT(DISTINCT bidder); FIRST_VALUE(price); LAST_VALUE(price)"
)

OVERS = [
    Query(
        "SELECT ts, price, "
        + _frames(
            _EACH,
            "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
            "RANGE BETWEEN INTERVAL '2' MINUTES PRECEDING AND INTERVAL '20' SECONDS PRECEDING",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' MINUTE PRECEDING",
            "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
        )
        + " FROM bids",
        spark=False,
    ),
    Query(
        "SELECT ts, price, "
        + _frames(
            _EACH,
            "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '30' SECONDS FOLLOWING",
            "RANGE BETWEEN INTERVAL '10' SECONDS FOLLOWING AND INTERVAL '2' MINUTES FOLLOWING",
        )
        + " FROM bids",
        spark=False,
    ),
    Query(
        "SELECT n, SUM(s) OVER (ORDER BY n DESC ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS a, "
        "MIN(s) OVER (ORDER BY n ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS b, "
        "COUNT(*) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS c "
        "FROM (SELECT price % 9 AS n, SUM(price) AS s FROM bids GROUP BY price % 9) AS t"
    ),
    Query(
        f"SELECT ts, STDDEV(price) {_FOUR} AS s, VAR_POP(price) {_FOUR} AS v, "
        "VARIANCE(price) OVER (PARTITION BY bidder ORDER BY ts) AS w, "
        f"STDDEV_POP(price) {_NEAR} AS p FROM bids"
    ),
    Query(
        f"SELECT ts, COUNT(DISTINCT bidder) {_FOUR} AS n, COUNT(DISTINCT channel) {_NEAR} AS c, "
        "COUNT(DISTINCT price % 7) OVER (PARTITION BY auction ORDER BY ts) AS d FROM bids",
        spark=False,
    ),
    Query("SELECT ts, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n FROM bids"),
    Query(
        "SELECT auction, n, price * 2 AS twice FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY ts) AS n FROM bids) AS t WHERE n % 3 = 1 AND price > 50"
    ),
    Query(
        "SELECT auction, MAX(n) AS m FROM (SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY ts) AS n FROM bids) AS t GROUP BY auction"
    ),
    Query(
        "SELECT ts, RANK() OVER (PARTITION BY auction ORDER BY ts) AS r, "
        "DENSE_RANK() OVER (ORDER BY ts) AS d FROM bids"
    ),
    Query(
        "SELECT bidder, RANK() OVER (ORDER BY n DESC) AS r, DENSE_RANK() OVER (ORDER BY n) AS d "
        "FROM (SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder) AS t"
    ),
    Query(
        "SELECT ts, price, LEAD(price) OVER (PARTITION BY auction ORDER BY ts) AS next, "
        "LEAD(channel, 3) OVER (PARTITION BY auction ORDER BY ts) AS later FROM bids"
    ),
    Query(
        f"SELECT ts, MIN(price) {_AROUND} AS m, "
        f"LEAD(channel, 3) OVER (PARTITION BY auction ORDER BY ts) AS l, "
        f"LEAD(price) OVER (PARTITION BY auction ORDER BY ts) AS n, SUM(price) {_FOUR} AS s, "
        f"COUNT(*) OVER (PARTITION BY bidder ORDER BY ts) AS c FROM bids"
    ),
    Query(
        f"SELECT ts, SUM(price) {_AROUND} AS s, COUNT(*) {_AROUND} AS n, MAX(channel) {_AROUND} AS m, "
        f"FIRST_VALUE(price) {_AROUND} AS f, LAST_VALUE(price) {_AROUND} AS l FROM bids"
    ),
    Query(
        "SELECT n, LEAD(s) OVER (ORDER BY n DESC) AS l, SUM(s) OVER (ORDER BY n ROWS BETWEEN 1 "
        "PRECEDING AND 1 FOLLOWING) AS a FROM (SELECT price % 9 AS n, SUM(price) AS s FROM bids "
        "GROUP BY price % 9) AS t"
    ),
    Query(
        "SELECT n, AVG(d) OVER (ORDER BY n) AS a FROM (SELECT n, SUM(CAST(d AS DECIMAL(7, 2))) AS d "
        "FROM numbers GROUP BY n) AS t",
        "SELECT n, round(AVG(d) OVER (ORDER BY n), 6) AS a FROM numbers",
    ),
    Query(
        f"SELECT auction, ts, SUM(price) {_FOUR} AS s, COUNT(*) {_FOUR} AS n, "
        f"COUNT(channel) {_FOUR} AS c, AVG(bidder) {_FOUR} AS a FROM bids"
    ),
    Query(
        f"SELECT ts, price - AVG(price) {_NEAR} AS d, MIN(channel) {_NEAR} AS least, "
        f"MAX(bidder) {_NEAR} AS most FROM bids"
    ),
    Query(
        "SELECT ts, SUM(price) OVER (PARTITION BY bidder ORDER BY ts) AS s FROM bids WHERE price > 100"
    ),
    Query(
        "SELECT ts, COUNT(*) OVER (ORDER BY ts) AS n, "
        "LAG(price) OVER (PARTITION BY auction ORDER BY ts) AS before, "
        "LAG(price, 2) OVER (PARTITION BY auction ORDER BY ts) AS earlier FROM bids"
    ),
    Query(
        "SELECT ts, FIRST_VALUE(channel) OVER w AS f, LAST_VALUE(channel) OVER w AS l FROM bids "
        "WINDOW w AS (PARTITION BY auction ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    ),
    Query(f"SELECT ts, COUNT(*) FILTER (WHERE price > 500) {_FOUR} AS n FROM bids", spark=False),
    Query(
        f"SELECT auction, COUNT(*) AS n, MAX(s) AS most FROM (SELECT auction, SUM(price) {_FOUR} AS s "
        "FROM bids) AS t GROUP BY auction"
    ),
    # Updating tables, in any order.
    Query(
        "SELECT bidder, n, "
        "SUM(n) OVER (ORDER BY bidder ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, "
        "AVG(s) OVER (ORDER BY n DESC, bidder ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS a "
        f"FROM {_BIDDERS} AS t"
    ),
    Query(
        "SELECT bidder, SUM(s) OVER (ORDER BY n) AS s, "
        "MAX(s) OVER (PARTITION BY n ORDER BY bidder) AS m, "
        f"LAG(bidder) OVER (ORDER BY bidder DESC) AS l FROM {_BIDDERS} AS t"
    ),
]

_BY_BIDDER = "(SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder) AS t"
_DEAR = "(SELECT auction FROM sales WHERE amount > 90)"

WITHIN = [
    # IN and EXISTS within expressions.
    Query(f"SELECT price FROM bids WHERE price > 900 OR auction IN {_DEAR}"),
    Query(
        "SELECT price FROM bids WHERE NOT (price > 100 AND EXISTS (SELECT 1 FROM sales "
        "WHERE sales.auction = bids.auction AND amount > 90))"
    ),
    *(
        Query(text, spark=False)
        for text in (
            f"SELECT price, CASE WHEN auction NOT IN {_DEAR} THEN 'cheap' ELSE 'dear' END AS x "
            "FROM bids",
            "SELECT auction FROM bids WHERE EXISTS (SELECT 1 FROM sales WHERE sales.auction = "
            "bids.auction ORDER BY amount DESC LIMIT 1)",
            "SELECT n, n IN (SELECT NULLIF(n, 3) FROM numbers) AS a, n IN (SELECT n FROM numbers WHERE "
            "n > 1000) AS b, NULLIF(n, 4) NOT IN (SELECT n FROM numbers WHERE n > 5) AS c FROM numbers",
            "SELECT auction, bidder IN (SELECT 1 FROM sales WHERE sales.auction = bids.auction) AS x, "
            "EXISTS (SELECT 1 FROM sales WHERE sales.auction = bids.auction GROUP BY auction) AS y, "
            "EXISTS (SELECT amount FROM sales WHERE amount > 1e6) AS z FROM bids",
            "SELECT auction, SUM(CASE WHEN EXISTS (SELECT 1 FROM sales WHERE sales.auction = "
            "bids.auction) THEN price ELSE 0 END) AS s FROM bids GROUP BY auction HAVING COUNT(*) > 20 "
            f"OR auction IN {_DEAR}",
            # ANY and ALL within expressions.
            "SELECT n, a > ALL (SELECT a FROM numbers WHERE n < 4) AS p, a <= ANY (SELECT b FROM "
            "numbers) AS q, a >= ALL (SELECT a FROM numbers WHERE n > 1000) AS r, NOT (a < SOME "
            "(SELECT a FROM numbers WHERE n > 1000)) AS s FROM numbers",
            "SELECT n, b <> ANY (SELECT b FROM numbers WHERE n < 2) AS p, b = ALL (SELECT b FROM "
            "numbers WHERE n < 2) AS q, NOT (b > ALL (SELECT b FROM numbers)) AS r, "
            "x < ANY (SELECT NULLIF(x, 9) FROM numbers) AS s FROM numbers",
            "SELECT n, a > ALL (SELECT m.a FROM numbers AS m WHERE m.n < numbers.n) AS top FROM "
            "numbers WHERE NOT (b > ALL (SELECT a FROM numbers WHERE n IN (1, 5))) OR n > 8",
            # Conditions on both queries.
            "SELECT n, (SELECT COUNT(*) FROM numbers AS m WHERE m.a < numbers.a) AS less, (SELECT "
            "MAX(m.x) FROM numbers AS m WHERE m.n < numbers.n AND m.b = numbers.b) AS x FROM numbers",
            "SELECT n, EXISTS (SELECT 1 FROM numbers AS m WHERE m.a > numbers.a OR numbers.a IS NULL) "
            "AS more, a IN (SELECT m.b FROM numbers AS m WHERE m.n > numbers.n) AS later FROM numbers",
            "SELECT b, COUNT(*) AS c, (SELECT SUM(m.n) FROM numbers AS m WHERE m.b > numbers.b) AS s "
            "FROM numbers GROUP BY b",
            "SELECT n, (VALUES (5)) + 1 AS v, n IN (VALUES (1), (2)) AS w, EXISTS (VALUES (n)) AS e, "
            "n = ANY (VALUES (3), (NULL)) AS s FROM numbers WHERE n > (VALUES (2))",
        )
    ),
    Query(
        "SELECT s.id, l.price, l.channel FROM sales s, LATERAL (SELECT price, channel FROM bids "
        "WHERE auction = s.auction ORDER BY price DESC, channel LIMIT 2) AS l",
        spark=False,
    ),
    Query(
        "SELECT s.*, l.* FROM sales s LEFT JOIN LATERAL (SELECT price AS p, channel AS c FROM bids b "
        "WHERE b.auction = s.auction AND b.price > 100 ORDER BY p, c LIMIT 1) AS l ON TRUE",
        spark=False,
    ),
    Query("SELECT price FROM bids b WHERE EXISTS (SELECT 1 FROM sales s WHERE s.amount > b.price)"),
    Query(
        "SELECT price FROM bids b WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.auction = b.auction "
        "AND s.amount * 10 <> b.price AND s.id < b.bidder)"
    ),
    Query("SELECT price FROM bids WHERE auction + 3 NOT IN (SELECT auction FROM sales WHERE id <> 9)"),
    Query("SELECT n FROM numbers WHERE a NOT IN (SELECT auction FROM sales WHERE id > 50)"),
    Query(
        "SELECT n FROM numbers WHERE a NOT IN (SELECT bidder FROM bids WHERE bids.auction = n) "
        "AND n < 6"
    ),
    Query(
        "SELECT price FROM bids b WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.auction = b.auction "
        "AND id > 37) AND NOT EXISTS (SELECT 1 FROM rates r WHERE r.auction = b.bidder AND rate > 9)"
    ),
    Query(
        "SELECT id, (SELECT COUNT(*) FROM bids b WHERE b.auction = s.auction AND price > 700) AS n, "
        "(SELECT MAX(price) + 1 FROM bids b WHERE b.auction = s.auction) AS m FROM sales s"
    ),
    Query("SELECT id FROM sales WHERE amount > (SELECT COUNT(*) * 2 FROM bids WHERE price < 0) + 40"),
    Query(
        "SELECT auction, SUM(price) AS s FROM bids b GROUP BY auction HAVING SUM(price) > "
        "(SELECT AVG(amount) FROM sales) * (SELECT 100 + COUNT(*) FROM sales s WHERE "
        "s.auction = b.auction)"
    ),
    Query(
        "SELECT n, (SELECT word FROM words WHERE words.id = numbers.n) AS word, (SELECT MAX(n) FROM "
        "numbers) AS most FROM numbers",
        since="4.0",
    ),
    Query(
        "SELECT id FROM sales s WHERE auction IN (SELECT auction FROM rates r WHERE rate > (SELECT "
        "AVG(price) / 90 FROM bids b WHERE b.auction = r.auction))"
    ),
    Query(
        "SELECT s.id, t.n FROM sales s JOIN (SELECT COUNT(*) AS n FROM (SELECT price FROM bids WHERE "
        "price > (SELECT AVG(price) FROM bids)) AS u) AS t ON TRUE WHERE s.id < t.n"
    ),
    Query(f"SELECT price FROM bids WHERE auction IN {_DEAR}"),
    Query(
        "SELECT price FROM bids WHERE EXISTS (SELECT 1 FROM sales WHERE sales.auction = bids.auction "
        "AND amount > 90) AND price > 100"
    ),
    Query(
        "SELECT price, bidder FROM bids b WHERE NOT EXISTS (SELECT * FROM sales s "
        "WHERE s.auction = b.bidder AND s.amount > 90)"
    ),
    Query(
        "SELECT price FROM bids WHERE auction NOT IN (SELECT auction FROM sales WHERE amount > 90 AND "
        "auction IS NOT NULL)"
    ),
    Query(
        "SELECT price FROM bids WHERE NOT bidder IN (SELECT auction FROM sales WHERE "
        "auction IS NOT NULL AND amount > 90) AND price > 100"
    ),
    Query(
        "SELECT price FROM bids b WHERE price IN (SELECT amount * 10 FROM sales s "
        "WHERE s.auction = b.auction)"
    ),
    Query("SELECT price FROM bids WHERE (auction, price) IN (SELECT auction, amount * 10 FROM sales)"),
    Query(
        "SELECT auction, COUNT(*) AS n FROM bids WHERE auction IN (SELECT auction FROM sales GROUP BY "
        "auction HAVING SUM(amount) > 280) GROUP BY auction"
    ),
    Query(f"SELECT bidder, n FROM {_BY_BIDDER} WHERE bidder IN {_DEAR} AND n > 2"),
    Query(
        f"SELECT bidder, n FROM {_BY_BIDDER} WHERE NOT EXISTS (SELECT 1 FROM sales WHERE "
        "auction = bidder AND amount > 90)"
    ),
    Query("SELECT n FROM numbers WHERE EXISTS (SELECT 1 FROM bids WHERE price > 900) AND n > 3"),
    Query(
        "SELECT n FROM numbers WHERE NOT EXISTS (SELECT 1 FROM bids WHERE price > 90000) AND n IN "
        "(SELECT auction FROM rates)"
    ),
    Query(
        f"SELECT price FROM bids WHERE auction IN (SELECT auction FROM rates WHERE rate > 9 UNION ALL "
        f"{_DEAR[1:-1]}) AND bidder IN (SELECT bidder FROM bids WHERE price > 900)"
    ),
    # A query that is used as a value.
    Query("SELECT price FROM bids WHERE price > (SELECT AVG(price) FROM bids) AND auction < 3"),
    Query("SELECT price - (SELECT MAX(amount) FROM sales) AS d FROM bids WHERE price > 300"),
    Query(
        "SELECT auction, COUNT(*) AS n FROM bids WHERE price = (SELECT MAX(price) FROM bids) "
        "GROUP BY auction"
    ),
    Query(f"SELECT bidder, n FROM {_BY_BIDDER} WHERE n > (SELECT COUNT(*) / 8 FROM bids)"),
]

# A query refers to rows of the query around it.
GROUPINGS += [
    Query(
        "SELECT * FROM (SELECT auction, channel, COUNT(*) AS n FROM bids "
        "GROUP BY ROLLUP(auction, channel)) AS t WHERE auction IS NULL"
    ),
    Query(
        "SELECT * FROM (SELECT auction, channel, COUNT(*) AS n FROM bids "
        "GROUP BY CUBE(auction, channel)) AS t WHERE channel = 'web'"
    ),
    *_windowed(
        f"SELECT * FROM (SELECT window_start, auction, COUNT(*) AS n FROM {TUMBLE} "
        "GROUP BY window_start, window_end, ROLLUP(auction)) AS t WHERE auction IS NULL"
    ),
]
GROUPS += [
    Query(
        "SELECT v FROM (SELECT auction AS v FROM bids EXCEPT ALL SELECT bidder FROM bids) AS t "
        "WHERE v > 1"
    ),
    Query(
        f"SELECT m FROM (SELECT auction, MAX(n) AS m, COUNT(DISTINCT bidder) AS d FROM {_TOTALS} "
        "GROUP BY auction) AS t WHERE auction > 2"
    ),
]
RANKS += [
    Query(
        "SELECT * FROM (SELECT auction, price FROM bids ORDER BY price DESC LIMIT 20) AS t "
        "WHERE auction = 1"
    ),
]
OVERS += [
    Query(
        "SELECT * FROM (SELECT auction, ts, LEAD(price) OVER (PARTITION BY auction ORDER BY ts) AS n "
        "FROM bids) AS t WHERE auction = 1 AND n > 300"
    ),
    Query(
        "SELECT price, n FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n "
        "FROM bids) AS t WHERE price > 500"
    ),
]

TOPICS = {
    "forms": FORMS,
    "frames": FRAMES,
    "lists": LISTED,
    "within": WITHIN,
    "over": OVERS,
    "joins": JOINS,
    "select": SELECTS,
    "numbers": NUMBERS,
    "words": WORDS,
    "windows": WINDOWS,
    "groups": GROUPS,
    "no rows": NO_ROWS,
    "groupings": GROUPINGS,
    "ranks": RANKS,
}

QUERIES: dict[str, Query] = {
    f"{topic} {place}": query
    for topic, queries in TOPICS.items()
    for place, query in enumerate(queries)
}


def in_few_statements() -> dict[str, tuple[str, ...]]:
    """Return statements that compute all queries that Spark can read, each with the names of its
    queries.

    On Spark a statement costs more than its work, so each table has one statement with all
    expressions. Its columns are the key and those of its queries.
    """
    statements = {}
    for topic, queries in TOPICS.items():
        named = {f"{topic} {place}": query for place, query in enumerate(queries) if query.spark}
        expressions = {name: query.expression for name, query in named.items() if query.expression}
        if expressions:
            columns = [f"{text} AS v{n}" for n, text in enumerate(expressions.values())]
            text = f"SELECT {', '.join([_KEYS[topic], *columns])} FROM {topic}"
            statements[text] = tuple(expressions)
        statements |= {query.sql: (name,) for name, query in named.items() if not query.expression}
    return statements
