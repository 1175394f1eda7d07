"""OVER: frames, functions by position, names of windows, and windows over groups."""

from __future__ import annotations

from tests.sql.query import Query

_GROUPS = (
    "(SELECT price % 19 AS k, COUNT(*) AS n, SUM(price) AS s, MIN(channel) AS c, AVG(price) AS x "
    "FROM bids GROUP BY price % 19) AS t"
)
_AUCTIONS = "PARTITION BY auction ORDER BY ts"
_DEAREST = "PARTITION BY auction ORDER BY price DESC, ts"
_TUMBLING = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
_BUCKETS = (
    "(SELECT *, time_bucket(INTERVAL '5 minutes', ts) AS window_start, "
    "time_bucket(INTERVAL '5 minutes', ts) + INTERVAL '5 minutes' AS window_end FROM bids) AS t"
)
_OF_ROWS = (
    "SUM(price)",
    "COUNT(channel)",
    "AVG(price)",
    "MIN(price)",
    "MAX(channel)",
    "STDDEV(price)",
    "COUNT(DISTINCT bidder)",
    "FIRST_VALUE(price)",
    "LAST_VALUE(price)",
)
_OF_GROUPS = ("SUM(n)", "COUNT(c)", "AVG(x)", "MIN(c)", "STDDEV(n)", "FIRST_VALUE(k)", "LAST_VALUE(k)")


def _frames(functions: tuple[str, ...], order: str, *frames: str) -> str:
    """Return the columns of some functions over some frames."""
    return ", ".join(
        f"{function} OVER ({order} {frame}) AS f{place}_{number}"
        for place, frame in enumerate(frames)
        for number, function in enumerate(functions)
    )


def _of_nulls(form: str) -> str:
    """Return functions that ignore nulls. `form` places IGNORE NULLS after the arguments."""
    calls = {
        "a": ("LAG", "c"),
        "b": ("LEAD", "c, 2"),
        "d": ("LAG", "c, 2, 'none'"),
        "h": ("NTH_VALUE", "c, 2"),
        "i": ("FIRST_VALUE", "c"),
        "j": ("LAST_VALUE", "c"),
    }
    return ", ".join(
        f"{form.format(name, of)} OVER w AS {alias}" for alias, (name, of) in calls.items()
    )


def _of_rows_with_nulls(form: str) -> str:
    window = f"({_AUCTIONS} ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)"
    last, lag = form.format("LAST_VALUE", "channel"), form.format("LAG", "channel, 2, 'none'")
    return (
        f"SELECT ts, {last} OVER {window} AS l, {lag} OVER ({_AUCTIONS}) AS d, "
        f"NTH_VALUE(price, 3) OVER ({_AUCTIONS}) AS n, LAG(price, 2, -1) OVER ({_AUCTIONS}) AS e "
        "FROM bids"
    )


_SPARK, _DUCKDB = "{}({}) IGNORE NULLS", "{}({} IGNORE NULLS)"

FRAMES = [
    Query(
        "SELECT ts, "
        + _frames(
            _OF_ROWS,
            _AUCTIONS,
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
            "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING",
        )
        + f", LEAD(price, 2, price) OVER ({_AUCTIONS}) AS l FROM bids",
        spark=False,
    ),
    Query(
        "SELECT ts, "
        + _frames(
            _OF_ROWS,
            _AUCTIONS,
            "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' MINUTE FOLLOWING",
        )
        + " FROM bids",
        spark=False,
    ),
    # Updating tables.
    Query(
        "SELECT k, "
        + _frames(
            _OF_GROUPS,
            "ORDER BY n, k",
            "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
            "ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING",
        )
        + f" FROM {_GROUPS}"
    ),
    Query(
        "SELECT k, "
        + _frames(
            ("SUM(s)", "COUNT(*)", "MIN(c)"),
            "ORDER BY n",
            "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            "RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING",
            "RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        )
        + f" FROM {_GROUPS}"
    ),
    Query(
        "SELECT k, "
        + _frames(("SUM(s)", "COUNT(*)"), "ORDER BY n DESC", "RANGE 2 PRECEDING", "")
        + f", SUM(n) OVER (PARTITION BY k % 3 ORDER BY x RANGE BETWEEN 50 PRECEDING AND 20 FOLLOWING) "
        f"AS d FROM {_GROUPS}"
    ),
    Query(
        "SELECT day, SUM(n) OVER (ORDER BY day RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND "
        "INTERVAL '2' DAYS FOLLOWING) AS s FROM (SELECT CAST(valid AS DATE) + CAST(rate AS INT) "
        "AS day, COUNT(*) AS n FROM rates GROUP BY CAST(valid AS DATE) + CAST(rate AS INT)) AS t",
        spark=False,
    ),
    Query(
        "SELECT k, RANK() OVER w AS r, PERCENT_RANK() OVER w AS p, CUME_DIST() OVER w AS d, "
        "NTILE(4) OVER (ORDER BY n, k) AS t, NTILE(30) OVER (ORDER BY k DESC) AS u "
        f"FROM {_GROUPS} WINDOW w AS (ORDER BY n)"
    ),
    Query(
        f"SELECT k, {_of_nulls(_SPARK)} FROM {_GROUPS} WINDOW w AS (ORDER BY n, k)",
        f"SELECT k, {_of_nulls(_DUCKDB)} FROM {_GROUPS} WINDOW w AS (ORDER BY n, k)",
        spark=False,
    ),
    Query(_of_rows_with_nulls(_SPARK), _of_rows_with_nulls(_DUCKDB), spark=False),
    Query(
        "SELECT auction, n, ROW_NUMBER() OVER w AS r FROM (SELECT auction, COUNT(*) AS n FROM bids "
        "GROUP BY auction) AS t WINDOW w AS (PARTITION BY n ORDER BY auction DESC)"
    ),
    # Windows that extend others.
    Query(
        "SELECT ts, SUM(price) OVER (w ROWS 2 PRECEDING) AS s, SUM(price) OVER v AS t, "
        "COUNT(*) OVER (w) AS n FROM bids "
        "WINDOW u AS (PARTITION BY auction), w AS (u ORDER BY ts), v AS (w ROWS 1 PRECEDING)",
        f"SELECT ts, SUM(price) OVER ({_AUCTIONS} ROWS 2 PRECEDING) AS s, "
        f"SUM(price) OVER ({_AUCTIONS} ROWS 1 PRECEDING) AS t, COUNT(*) OVER ({_AUCTIONS}) AS n "
        "FROM bids",
        spark=False,
    ),
    # Whole windows of a stream.
    Query(
        f"SELECT ts, SUM(price) OVER (PARTITION BY window_start, window_end) AS s FROM {_TUMBLING}",
        f"SELECT ts, SUM(price) OVER (PARTITION BY window_start, window_end) AS s FROM {_BUCKETS}",
        spark=False,
    ),
    Query(
        f"SELECT ts, PERCENT_RANK() OVER w AS p, SUM(price) OVER (w ROWS BETWEEN CURRENT ROW AND "
        f"UNBOUNDED FOLLOWING) AS s, LEAD(price) OVER w AS l FROM {_TUMBLING} "
        "WINDOW w AS (PARTITION BY window_end, auction ORDER BY ts)",
        "SELECT ts, PERCENT_RANK() OVER w AS p, SUM(price) OVER (PARTITION BY window_end, auction "
        "ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s, LEAD(price) OVER w AS l "
        f"FROM {_BUCKETS} WINDOW w AS (PARTITION BY window_end, auction ORDER BY ts)",
        spark=False,
    ),
    Query(
        "SELECT auction, n, n / SUM(n) OVER (PARTITION BY window_end) AS share FROM (SELECT auction, "
        f"window_start, window_end, COUNT(*) AS n FROM {_TUMBLING} "
        "GROUP BY auction, window_start, window_end)",
        "SELECT auction, n, n / SUM(n) OVER (PARTITION BY window_end) AS share FROM (SELECT auction, "
        f"window_start, window_end, COUNT(*) AS n FROM {_BUCKETS} "
        "GROUP BY auction, window_start, window_end)",
        spark=False,
    ),
    # Over the aggregates of groups.
    Query(
        "SELECT auction, SUM(SUM(price)) OVER (ORDER BY auction) AS s, "
        "RANK() OVER (ORDER BY COUNT(*) DESC) AS r, SUM(COUNT(*)) OVER w AS t FROM bids "
        "GROUP BY auction WINDOW w AS (ORDER BY COUNT(*), auction)"
    ),
    Query("SELECT channel, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM bids GROUP BY channel"),
    # Over append-only rows in any order, which are all kept.
    Query(
        "SELECT auction, price, "
        + _frames(_OF_ROWS, _DEAREST, "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING")
        + ", RANK() OVER (ORDER BY price DESC) AS r, COUNT(*) OVER () AS n, "
        "LAG(price, 1, -1) OVER (PARTITION BY bidder ORDER BY ts DESC) AS l FROM bids",
        spark=False,  # It has no COUNT(DISTINCT ...) OVER.
    ),
    Query(
        "SELECT price, NTILE(4) OVER (ORDER BY price, ts) AS t, price / SUM(price) OVER () AS s "
        "FROM bids"
    ),
    Query(
        "SELECT ts, LEAD(price) OVER (ORDER BY ts, auction) AS a, SUM(price) OVER (PARTITION BY "
        "bidder) AS s, LEAD(price) OVER (PARTITION BY bidder ORDER BY ts) AS b FROM bids"
    ),
    Query(f"SELECT price, ROW_NUMBER() OVER ({_DEAREST}) AS n FROM bids"),
    Query(
        "SELECT price, n FROM (SELECT price, ROW_NUMBER() OVER (ORDER BY price, ts) AS n FROM bids) "
        "AS t WHERE n % 2 = 1"
    ),
    Query(
        "SELECT MAX(price - m) AS d FROM (SELECT price, AVG(price) OVER (PARTITION BY auction) AS m "
        "FROM bids) AS t"
    ),
    # Equal rows are as many results.
    Query(
        "SELECT channel, COUNT(*) OVER (PARTITION BY channel) AS n, ROW_NUMBER() OVER "
        "(ORDER BY channel NULLS LAST) AS r FROM (SELECT channel FROM bids WHERE price < 250) AS t"
    ),
]
