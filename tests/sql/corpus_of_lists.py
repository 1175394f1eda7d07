"""Aggregates over lists of values: of append-only rows, of rows that are retracted, and in windows."""

from __future__ import annotations

from tests.sql.query import Query

_UPDATED = (
    "(SELECT bidder, auction, SUM(price) AS price, COUNT(*) AS n FROM bids GROUP BY bidder, auction)"
)
"""An updating table: each bid retracts the row of its group."""


def _of(calls: str, theirs: str | None = None, *, spark: bool = True) -> list[Query]:
    """Return the calls over append-only rows and over retracted ones, and with FILTER."""
    made = []
    for table in ("bids", f"{_UPDATED} AS t"):
        text = "SELECT auction, {} FROM {} GROUP BY auction"
        duckdb = None if theirs is None else text.format(theirs, table)
        made.append(Query(text.format(calls, table), duckdb, spark=spark))
    return made


_TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
_BUCKET = "SELECT {} FROM bids GROUP BY time_bucket(INTERVAL '5' MINUTE, ts), auction"

LISTED = [
    *_of("STDDEV(price) AS a, VAR_POP(price) AS b, STDDEV_POP(price) AS c, VARIANCE(price) AS d"),
    *_of(
        "MEDIAN(price) AS a, MIN_BY(bidder, price * 10) AS b, MAX_BY(bidder, price * 10) AS c",
        "MEDIAN(price) AS a, ARG_MIN_NULL(bidder, price * 10) AS b, "
        "ARG_MAX_NULL(bidder, price * 10) AS c",
    ),
    *_of(
        "BIT_AND(price) AS a, BIT_OR(price) AS b, BIT_XOR(price) AS c, EVERY(price > 30) AS d, "
        "SOME(price > 980) AS e, ANY(price > 980) AS f",
        "BIT_AND(price) AS a, BIT_OR(price) AS b, BIT_XOR(price) AS c, BOOL_AND(price > 30) AS d, "
        "BOOL_OR(price > 980) AS e, BOOL_OR(price > 980) AS f",
    ),
    *_of(
        "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY price) AS a, PERCENTILE_CONT(0.3) WITHIN GROUP "
        "(ORDER BY price DESC) AS b, PERCENTILE(price, 0.9) AS c",
        "QUANTILE_CONT(price, 0.3) AS a, QUANTILE_CONT(price, 0.7) AS b, "
        "QUANTILE_CONT(price, 0.9) AS c",
    ),
    *_of("PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY price) AS a", spark=False),
    *_of(
        "ARRAY_AGG(price ORDER BY price DESC) AS a, STRING_AGG(CAST(price AS STRING), '-' ORDER BY "
        "price) AS b, LISTAGG(CAST(price AS STRING)) WITHIN GROUP (ORDER BY price DESC) AS c, "
        "ARRAY_AGG(price ORDER BY bidder NULLS LAST, price DESC) AS d",
        "ARRAY_AGG(price ORDER BY price DESC) AS a, STRING_AGG(CAST(price AS STRING), '-' ORDER BY "
        "price) AS b, STRING_AGG(CAST(price AS STRING), ',' ORDER BY price DESC) AS c, "
        "ARRAY_AGG(price ORDER BY bidder NULLS LAST, price DESC) AS d",
        spark=False,
    ),
    *_of(
        "ARRAY_AGG(price ORDER BY price) FILTER (WHERE price > 500) AS a, FIRST_VALUE(bidder ORDER BY "
        "price, bidder) AS b, LAST_VALUE(bidder ORDER BY price, bidder) AS c, "
        "COUNT(DISTINCT bidder, price) AS d, APPROX_COUNT_DISTINCT(price) AS e",
        "COALESCE(ARRAY_AGG(price ORDER BY price) FILTER (WHERE price > 500), []) AS a, "
        "FIRST(bidder ORDER BY price, bidder) FILTER (WHERE bidder IS NOT NULL) AS b, "
        "LAST(bidder ORDER BY price, bidder) FILTER (WHERE bidder IS NOT NULL) AS c, "
        "COUNT(DISTINCT CASE WHEN bidder IS NOT NULL THEN (bidder, price) END) AS d, "
        "COUNT(DISTINCT price) AS e",
        spark=False,
    ),
    *_of(
        "REGR_SLOPE(price, bidder) AS a, REGR_INTERCEPT(price, bidder) AS b, REGR_R2(price, bidder) "
        "AS c, REGR_COUNT(price, bidder) AS d, REGR_SXX(price, bidder) AS e, REGR_SXY(price, bidder) "
        "AS f, REGR_SYY(price, bidder) AS g, REGR_AVGX(price, bidder) AS h, REGR_AVGY(price, bidder) "
        "AS i"
    ),
    *_of(
        "PERCENTILE(price, ARRAY(0.25, 0.9)) AS a, MAX_BY(price, price, 2) AS b, MIN_BY(price, price, "
        "2) AS c, MEAN(price) AS d, STD(price) AS e, ANY_VALUE(auction, true) AS f",
        "QUANTILE_CONT(price, [0.25, 0.9]) AS a, MAX(price, 2) AS b, MIN(price, 2) AS c, AVG(price) AS "
        "d, STDDEV(price) AS e, auction AS f",
        spark=False,
    ),
    *_of(
        "CORR(price, bidder) AS a, COVAR_POP(price, bidder) AS b, COVAR_SAMP(price, bidder) AS c, "
        "ROUND(SKEWNESS(price), 6) AS d, KURTOSIS(price) AS e",
        "CORR(price, bidder) AS a, COVAR_POP(price, bidder) AS b, COVAR_SAMP(price, bidder) AS c, "
        "ROUND(SKEWNESS(price) * (COUNT(*) - 2) / SQRT(COUNT(*) * (COUNT(*) - 1)), 6) AS d, "
        "KURTOSIS_POP(price) AS e",
    ),
    *_of(
        "COLLECT_SET(bidder) AS a, ARRAY_AGG(DISTINCT bidder) AS b, "
        "STRING_AGG(DISTINCT CAST(bidder AS STRING), ',') AS c, "
        "ARRAY_AGG(DISTINCT price % 7 ORDER BY price % 7 DESC) AS d, "
        "COUNT(DISTINCT (bidder, auction)) AS e",
        "LIST(DISTINCT bidder ORDER BY bidder) FILTER (WHERE bidder IS NOT NULL) AS a, "
        "LIST(DISTINCT bidder ORDER BY bidder) FILTER (WHERE bidder IS NOT NULL) AS b, "
        "STRING_AGG(DISTINCT CAST(bidder AS STRING), ',' ORDER BY CAST(bidder AS STRING)) AS c, "
        "LIST(DISTINCT price % 7 ORDER BY price % 7 DESC) AS d, "
        "COUNT(DISTINCT (bidder, auction)) AS e",
        spark=False,
    ),
    # If several values are equally frequent, DuckDB returns any of them.
    Query("SELECT MODE(CASE WHEN channel = 'web' THEN 1 ELSE 2 END) AS a FROM bids", spark=False),
    Query(
        "SELECT MODE() WITHIN GROUP (ORDER BY price DESC) AS a, MODE() WITHIN GROUP (ORDER BY price) "
        "AS b FROM (SELECT DISTINCT price FROM bids) AS p",
        "SELECT MAX(price) AS a, MIN(price) AS b FROM bids",
        spark=False,
    ),
    Query(
        "SELECT STRING_AGG(channel, ',') AS a, MEDIAN(price) AS b, COUNT(DISTINCT auction, price) AS c "
        "FROM bids WHERE price > 100000",
        "SELECT STRING_AGG(channel, ',') AS a, MEDIAN(price) AS b, 0 AS c FROM bids WHERE price < 0",
        spark=False,
    ),
    Query(
        "SELECT MEDIAN(price) AS a, STRING_AGG(CAST(price AS STRING), ',' ORDER BY price DESC) AS b, "
        f"MAX_BY(price, bidder * 10000 + price) AS c, BIT_OR(price) AS d FROM {_TUMBLE} "
        "GROUP BY window_start, window_end, auction",
        _BUCKET.format(
            "MEDIAN(price) AS a, STRING_AGG(CAST(price AS STRING), ',' ORDER BY price DESC) AS b, "
            "MAX_BY(price, bidder * 10000 + price) AS c, BIT_OR(price) AS d"
        ),
        spark=False,
    ),
]
