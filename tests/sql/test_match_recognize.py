"""MATCH_RECOGNIZE: the cases of Flink's documentation, other cases, and invalid clauses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh

START = datetime(2011, 4, 1, 10, tzinfo=UTC)
NARROW = [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]


def ticker(prices: Sequence[int], step: str = "1s", taxes: Sequence[int] = ()) -> pa.Table:
    """Return prices of one stock, this far apart in time."""
    apart = {"1s": timedelta(seconds=1), "20m": timedelta(minutes=20)}[step]
    return pa.table(
        {
            "symbol": pa.array(["ACME"] * len(prices)),
            "rowtime": pa.array(
                [START + n * apart for n in range(len(prices))], pa.timestamp("us", tz="UTC")
            ),
            "price": pa.array(prices, pa.int64()),
            "tax": pa.array(taxes or [n % 3 for n in range(len(prices))], pa.int64()),
        }
    )


def environment(table: pa.Table) -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="simulated")
    late = rh.Watermark.bounded_out_of_orderness("5s", on="rowtime")
    env.register("ticker", env.from_source(rh.collection(table), watermark=late, name="ticker"))
    return env


def found(table: pa.Table, clauses: str) -> list[tuple[Any, ...]]:
    """Return the measures of all matches; times are shown as the number of their row."""
    env = environment(table)
    env.sql(
        f"SELECT * FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rowtime {clauses}) AS m"
    ).collect("found")
    rows = env.execute("matches").collected["found"].to_pylist()
    times = table["rowtime"].to_pylist()
    return sorted(
        tuple(times.index(v) if isinstance(v, datetime) else v for v in [*row.values()][1:])
        for row in rows
    )


# --- as documented ------------------------------------------------------------------------------------


def test_a_pattern_of_falling_prices() -> None:
    assert found(
        ticker([12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]),
        """
        MEASURES START_ROW.rowtime AS start_tstamp, LAST(PRICE_DOWN.rowtime) AS bottom_tstamp,
                 LAST(PRICE_UP.rowtime) AS end_tstamp
        ONE ROW PER MATCH
        AFTER MATCH SKIP TO LAST PRICE_UP
        PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
        DEFINE
            PRICE_DOWN AS (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price)
                OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
            PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)
        """,
    ) == [(4, 7, 8)]


def test_a_condition_on_an_average() -> None:
    assert found(
        ticker(NARROW),
        """
        MEASURES FIRST(A.rowtime) AS start, LAST(A.rowtime) AS last, AVG(A.price) AS avgPrice
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A+ B)
        DEFINE A AS AVG(A.price) < 15
        """,
    ) == [(0, 3, 14.5), (5, 10, 13.5)]


@pytest.mark.parametrize(("times", "last"), [("*", [(16,)]), ("*?", [(13,), (16,)])])
def test_greedy_and_reluctant_quantifiers(times: str, last: list[tuple[int]]) -> None:
    assert (
        found(
            ticker([10, 11, 12, 13, 14, 16]),
            f"""
            MEASURES C.price AS lastPrice
            PATTERN (A B{times} C)
            DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12
            """,
        )
        == last
    )


def test_within_limits_the_time_of_a_match() -> None:
    assert found(
        ticker([20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19], "20m"),
        """
        MEASURES C.rowtime AS dropTime, A.price - C.price AS dropDiff
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B* C) WITHIN INTERVAL '1' HOUR
        DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 10
        """,
    ) == [(9, 14)]


def test_first_and_last_of_a_variable() -> None:
    assert found(
        ticker([10, 12, 13, 11]),
        """
        MEASURES FIRST(A.price) AS startPrice, LAST(A.price) AS topPrice, B.price AS lastPrice
        PATTERN (A+ B)
        DEFINE A AS LAST(A.price, 1) IS NULL OR A.price > LAST(A.price, 1), B AS B.price < LAST(A.price)
        """,
    ) == [(10, 13, 11)]


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("PAST LAST ROW", [(17, 4, 6), (26, 0, 3)]),
        ("TO NEXT ROW", [(17, 4, 6), (22, 3, 6), (24, 1, 4), (25, 2, 5), (26, 0, 3)]),
        ("TO LAST A", [(17, 4, 6), (25, 2, 5), (26, 0, 3)]),
    ],
)
def test_after_match_skip_decides_where_the_search_continues(
    skip: str, expected: list[tuple[int, ...]]
) -> None:
    assert (
        found(
            ticker([7, 9, 10, 5, 10, 7, 14]),
            f"""
            MEASURES SUM(A.price) AS sumPrice, FIRST(rowtime) AS startTime, LAST(rowtime) AS endTime
            ONE ROW PER MATCH AFTER MATCH SKIP {skip}
            PATTERN (A+ C)
            DEFINE A AS SUM(A.price) < 30
            """,
        )
        == expected
    )


def test_sums_of_a_variable_and_of_all_rows() -> None:
    assert found(
        ticker([10, 15, 20, 31, 35, 1]),
        """
        MEASURES COUNT(*) AS n, SUM(B.price) AS b, MAX(price) AS most, LAST(B.price, 2) AS earlier
        PATTERN (A B+)
        DEFINE A AS A.price >= 10, B AS B.price > A.price AND SUM(price) < 100 AND SUM(B.price) < 80
        """,
    ) == [(4, 66, 31, 15)]


def test_offsets_count_from_the_current_row() -> None:
    assert found(
        ticker([10, 15, 20, 31, 35, 1]),
        """
        MEASURES LAST(B.price) AS top, COUNT(B.price) AS n
        PATTERN (A B+)
        DEFINE A AS A.price >= 10,
            B AS (LAST(B.price, 1) IS NULL OR B.price > LAST(B.price, 1))
                AND (LAST(B.price, 2) IS NULL OR B.price > 2 * LAST(B.price, 2))
        """,
    ) == [(31, 3)]


@pytest.mark.parametrize(("prices", "expected"), [([10, 15, 20], [(15, 20)]), ([10, 20], [(None, 20)])])
def test_offsets_without_a_variable_count_all_rows(
    prices: list[int], expected: list[tuple[int | None, int]]
) -> None:
    assert (
        found(
            ticker(prices),
            """
            MEASURES B.price AS b, C.price AS c
            PATTERN (A B? C)
            DEFINE B AS B.price < 20, C AS LAST(price, 1) < C.price
            """,
        )
        == expected
    )


# --- beyond what is documented ------------------------------------------------------------------------


def test_a_greedy_variable_returns_rows_that_others_need() -> None:
    # B takes 13 and 14; the next row does not satisfy C, so C takes 14.
    assert found(
        ticker([11, 13, 14, 3]),
        """
        MEASURES COUNT(B.price) AS bs, C.price AS c
        PATTERN (A B* C) DEFINE A AS price = 11, B AS price > 10, C AS price > 12
        """,
    ) == [(1, 14)]


def test_groups_of_variables_and_prev() -> None:
    assert found(
        ticker([5, 3, 6, 2, 7, 7, 1]),
        """
        MEASURES COUNT(DOWN.price) AS downs, FIRST(UP.price) AS first, LAST(UP.price) AS last
        PATTERN (BEGIN_ROW (DOWN UP){2})
        DEFINE DOWN AS price < PREV(price), UP AS UP.price > PREV(UP.price, 1)
        """,
    ) == [(2, 6, 7)]


@pytest.mark.parametrize(
    ("define", "expected"),
    [
        ("A AS price < NEXT(price), B AS B.price > NEXT(B.price)", [(0, 1), (2, 4)]),
        ("A AS price < NEXT(price, 2), B AS NEXT(price, 0) > NEXT(price, 2)", [(0, 1), (2, 3)]),
        # This reads other rows of the match, so it is computed row by row. No row follows the last.
        (
            "A AS price < NEXT(price), B AS NEXT(price, 2) IS NULL OR NEXT(price) < LAST(A.price)",
            [(2, 4), (10, 11)],
        ),
    ],
)
def test_next_reads_the_following_rows_of_the_key(define: str, expected: list[tuple[int, int]]) -> None:
    clauses = (
        "MEASURES FIRST(A.rowtime) AS f, B.rowtime AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B)"
    )
    at_first = {b: f for f, b in reversed(found(ticker(NARROW), f"{clauses} DEFINE {define}"))}
    assert sorted((f, b) for b, f in at_first.items()) == expected


def test_matches_that_read_following_rows_have_no_event_time() -> None:
    error = refused(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE (SELECT t FROM ticker MATCH_RECOGNIZE ("
        "ORDER BY rowtime MEASURES MATCH_ROWTIME() AS t PATTERN (A) DEFINE A AS price < NEXT(price))), "
        "DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    assert "'t' is not the event time" in error.what


def test_measures_of_a_variable_without_rows() -> None:
    assert found(
        ticker([1, 2]),
        """
        MEASURES B.price AS b, SUM(B.price) AS total, COUNT(B.*) AS n, AVG(B.price * B.tax) AS mean
        PATTERN (A B* C) DEFINE A AS price = 1, B AS price = 9, C AS price = 2
        """,
    ) == [(None, None, 0, None)]


def test_measures_may_combine_several_rows() -> None:
    assert found(
        ticker([10, 14, 30], taxes=[1, 2, 3]),
        """
        MEASURES LAST(price * tax) - FIRST(price * tax) AS more, UPPER(A.symbol) || '!' AS who,
                 FINAL LAST(B.price) AS b, RUNNING FIRST(A.price) AS a, MATCH_ROWTIME() AS at
        PATTERN (A B)
        DEFINE B AS B.price * 1.5 > A.price + 10 AND UPPER(B.symbol) = UPPER(A.symbol)
            AND B.rowtime < A.rowtime + INTERVAL '5' SECONDS AND B.price / A.price > 1.3
        """,
    ) == [(18, "ACME!", 14, 10, 1)]


def test_without_keys_all_rows_are_one_sequence() -> None:
    env = environment(ticker([1, 2, 3]))
    matches = env.sql(
        "SELECT m.a + m.b AS s FROM ticker MATCH_RECOGNIZE (ORDER BY rowtime "
        "MEASURES A.price AS a, B.price AS b PATTERN (A B) DEFINE B AS B.price > 1) m WHERE m.a > 0"
    )
    assert matches.schema.names == ["s"]
    matches.collect("found")
    assert env.execute("m").collected["found"].to_pylist() == [{"s": 3}]


def test_rows_with_a_null_key_are_a_group() -> None:
    table = ticker([1, 2, 1, 2])
    keys = pa.array(["a", None, None, "a"])
    env = environment(table.set_column(0, "symbol", keys))
    env.sql(
        "SELECT * FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rowtime "
        "MEASURES A.price AS a, B.price AS b PATTERN (A B) DEFINE A AS true)"
    ).collect("found")
    rows = env.execute("m").collected["found"].to_pylist()
    assert sorted(map(str, rows)) == [
        "{'symbol': 'a', 'a': 1, 'b': 2}",
        "{'symbol': None, 'a': 2, 'b': 1}",
    ]


# --- what is wrong ------------------------------------------------------------------------------------


def refused(text: str) -> rh.RheosError:
    env = environment(ticker([1]))
    with pytest.raises(rh.RheosError) as caught:
        env.sql(text)
    return caught.value


def clauses(**said: str) -> str:
    parts = {
        "PARTITION BY": "symbol",
        "ORDER BY": "rowtime",
        "MEASURES": "A.price AS a",
        "ROWS": "",
        "AFTER": "",
        "PATTERN": "(A B)",
        "DEFINE": "A AS price > 1",
    }
    parts |= {name.replace("_", " "): text for name, text in said.items()}
    rows, after = parts.pop("ROWS"), parts.pop("AFTER")
    pattern = f"{rows} {after} PATTERN {parts.pop('PATTERN')} DEFINE {parts.pop('DEFINE')}"
    head = " ".join(f"{name} {text}" for name, text in parts.items() if text)
    return f"SELECT * FROM ticker MATCH_RECOGNIZE ({head} {pattern}) AS m"


TIED = pa.table(
    {
        "id": pa.array([2, 3, 1, 4], pa.int64()),
        "v": pa.array([5, 1, 9, None], pa.int64()),
        "s": pa.array(["b", "c", "a", "d"]),
        "rowtime": pa.array([START] * 4, pa.timestamp("us", tz="UTC")),
    }
)
READS = (
    "MEASURES FIRST(id) AS f, LAST(id) AS z PATTERN (A{2})",
    "MEASURES FIRST(id) AS f, LAST(id) AS z PATTERN (A{2}) DEFINE A AS v > -1 OR v IS NULL",
    "MEASURES FIRST(id) AS f, LAST(id) AS z, FIRST(s) AS s PATTERN (A{2}) DEFINE A AS s > ''",
    "MEASURES FIRST(id) AS f, LAST(id) AS z, COUNT(v) AS v PATTERN (A B) DEFINE B AS LAST(A.s) <> s",
)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("rowtime", [(1, 2), (3, 4)]),
        ("rowtime, v", [(4, 3), (2, 1)]),
        ("rowtime, v NULLS LAST", [(3, 2), (1, 4)]),
        ("rowtime, v DESC", [(1, 2), (3, 4)]),
        ("rowtime, v DESC NULLS FIRST", [(4, 1), (2, 3)]),
        ("rowtime, s", [(1, 2), (3, 4)]),
        ("rowtime, id % 2 DESC, v", [(3, 1), (4, 2)]),
    ],
)
def test_rows_of_equal_time_have_a_stable_order(
    reads: str, order: str, ids: list[tuple[int, int]]
) -> None:
    env = environment(TIED)
    env.sql(f"SELECT f, z FROM ticker MATCH_RECOGNIZE (ORDER BY {order} {reads}) AS m").collect("found")
    rows = env.execute("ties").collected["found"].to_pylist()
    assert [(row["f"], row["z"]) for row in rows] == ids


WRONG = [
    ({"ORDER_BY": "price"}, "rows must be in ascending order of event time", "price"),
    ({"ORDER_BY": "rowtime DESC"}, "rows must be in ascending order of event time", "rowtime"),
    (
        {"ORDER_BY": "rowtime, symbol DESC"},
        "only integers and times can be in descending order after the first column, but this is",
        "symbol",
    ),
    ({"PATTERN": "(A* B?)"}, "the pattern could match no row at all", "A* B"),
    ({"PATTERN": "(A B{3,2})"}, "the maximum is less than the minimum", "B"),
    ({"PATTERN": "(A C)", "DEFINE": "B AS price > 1"}, "unknown variable 'B'", "B"),
    ({"DEFINE": "A AS price"}, "DEFINE takes a condition, but this is BIGINT", "price"),
    ({"DEFINE": "A AS prize > 1"}, "unknown column 'prize'", "prize"),
    ({"DEFINE": "A AS A.prize > 1"}, "unknown column 'prize'", "prize"),
    ({"DEFINE": "A AS A.price > 'x'"}, "a comparison takes values of one type", "'x'"),
    ({"DEFINE": "A AS PREV(price) > 1"}, "PREV would read a row before the match", "PREV(price)"),
    ({"DEFINE": "B AS NEXT(A.price) > 1"}, "NEXT reads the row after the current one", "NEXT(A.price)"),
    ({"DEFINE": "A AS NEXT(price, tax) > 1"}, "NEXT takes a constant integer", "tax"),
    ({"MEASURES": "NEXT(A.price) AS n"}, "NEXT is allowed in DEFINE only", "NEXT(A.price)"),
    ({"DEFINE": "B AS LAST(A.price * B.tax) > 1"}, "a value of a single row must use a", "B.tax"),
    (
        {"MEASURES": "ARRAY_AGG(A.price) AS s"},
        "ARRAY_AGG() is not computed in MATCH_RECOGNIZE",
        "ARRAY",
    ),
    ({"MEASURES": "A.price"}, "this is not valid SQL: expecting as", "PATTERN"),
    ({"AFTER": "AFTER MATCH SKIP TO FIRST A"}, "A takes the first row of each match", "A"),
    ({"AFTER": "AFTER MATCH SKIP TO LAST X"}, "unknown variable 'X'", "X"),
    ({"PATTERN": "(A B+ C)"}, "B matches every row, so no match would ever end", "B"),
]


@pytest.mark.parametrize(("said", "what", "place"), WRONG)
def test_an_invalid_clause_is_refused_at_its_place(said: dict[str, str], what: str, place: str) -> None:
    error = refused(clauses(**said))
    assert what in error.what
    assert error.detail is not None
    line, marks = error.detail.splitlines()
    assert line[marks.index("^") : len(marks)].startswith(place)


def test_patterns_over_updating_rows_are_refused() -> None:
    error = refused(
        "SELECT * FROM (SELECT symbol, COUNT(*) AS n FROM ticker GROUP BY symbol) MATCH_RECOGNIZE "
        "(ORDER BY n MEASURES A.n AS n PATTERN (A) DEFINE A AS n > 1)"
    )
    assert "MATCH_RECOGNIZE needs append-only rows, but these are updated" in error.what
