"""Queries over the tables of `data`, in the SQL that Rheos, Spark and DuckDB read alike; where DuckDB
has another word for it, with that beside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    sql: str
    duckdb: str | None = None
    """The same in DuckDB's words."""
    spark: bool = True
    """Whether Spark reads it, and means the same."""


def _of(table: str, *expressions: str) -> list[Query]:
    """Each expression over a table, with its key."""
    key = {"numbers": "n", "words": "id"}[table]
    made = []
    for each in expressions:
        ours, _, theirs = each.partition(" ~ ")
        other = f"SELECT {key}, {theirs} AS v FROM {table}" if theirs else None
        made.append(Query(f"SELECT {key}, {ours} AS v FROM {table}", other))
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

QUERIES: dict[str, Query] = {
    f"{topic} {place}": query
    for topic, queries in (("select", SELECTS), ("numbers", NUMBERS), ("words", WORDS))
    for place, query in enumerate(queries)
}
