"""MATCH_RECOGNIZE: the variable of each row, compared with Python's regular expressions; all rows of
a match, what they see of it, and its time."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from tests.sql.test_match_recognize import START, clauses, found, refused, ticker

LETTERS = "ABCD"


def rows_of(letters: str, query: str, key: str = "k") -> list[dict[str, Any]]:
    """Return the result of a query over `letters`, with one row per second."""
    table = pa.table(
        {
            "k": [key] * len(letters),
            "at": pa.array(
                [START + n * timedelta(seconds=1) for n in range(len(letters))],
                pa.timestamp("us", tz="UTC"),
            ),
            "n": pa.array(range(len(letters)), pa.int64()),
            "letter": [*letters],
        }
    )
    env = rh.Environment(parallelism=1, runtime="simulated")
    late = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    env.register("letters", env.from_source(rh.collection(table), watermark=late, name="letters"))
    env.sql(query).collect("found")
    return env.execute("letters").collected["found"].to_pylist()


def all_rows(pattern: str, said: str = "") -> str:
    variables = set(re.findall(r"\b[A-D]\b", pattern))
    defined = ", ".join(f"{each} AS letter = '{each}'" for each in sorted(variables))
    return f"""
        SELECT * FROM letters MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY at
            MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS variable {said}
            ALL ROWS PER MATCH
            PATTERN ({pattern}) DEFINE {defined})
        """


def drawn(random: Random, depth: int = 0) -> tuple[str, str]:
    """Return a random pattern in SQL and as a regular expression. It matches at least one letter."""
    parts: list[tuple[str, str]] = []
    for place in range(random.randint(1, 3 if depth == 0 else 2)):
        kind = random.random()
        if depth == 2 or kind < 0.5:
            sql = expr = random.choice(LETTERS)
        elif kind < 0.75:
            either = [drawn(random, depth + 1) for _ in range(random.randint(2, 3))]
            sql = "(" + " | ".join(one for one, _ in either) + ")"
            expr = "(?:" + "|".join(one for _, one in either) + ")"
        elif kind < 0.85:
            some = random.sample(LETTERS, random.randint(2, 3))
            sql = f"PERMUTE({', '.join(some)})"
            expr = "(?:" + "|".join(map("".join, permutations(some))) + ")"
        else:
            inside, expr = drawn(random, depth + 1)
            sql, expr = f"({inside})", f"(?:{expr})"
        # The first part matches a letter.
        often = random.choice(
            ["", "", "+", "{2}", "{1,2}", "+?"] + ["?", "*", "??", "*?"] * (place > 0)
        )
        parts.append((sql + often, expr + often))
    return " ".join(sql for sql, _ in parts), "".join(expr for _, expr in parts)


@pytest.mark.parametrize("seed", range(25))
def test_matches_agree_with_regular_expressions(seed: int) -> None:
    random = Random(f"rows of matches {seed}")
    sql, expr = drawn(random)
    if "?" in sql:
        # A reluctant quantifier at the end would match nothing, and is refused.
        sql, expr = f"{sql} A", f"{expr}A"
    letters = "".join(random.choices(LETTERS + "x", weights=[3, 3, 2, 2, 1], k=40)) + "x"
    given = rows_of(letters, all_rows(sql))
    expected = [
        (place, number, letters[place])
        for number, match in enumerate(re.finditer(expr, letters), 1)
        for place in range(match.start(), match.end())
    ]
    assert [(row["n"], row["number"], row["variable"]) for row in given] == expected, (
        f"{sql} of {letters}"
    )


# --- all rows -----------------------------------------------------------------------------------------


def test_the_columns_of_all_rows_per_match() -> None:
    given = rows_of("xABx", all_rows("A B"))
    assert [[*row] for row in given] == [["k", "at", "number", "variable", "n", "letter"]] * 2
    assert [(row["at"] - START, row["letter"]) for row in given] == [
        (timedelta(seconds=1), "A"),
        (timedelta(seconds=2), "B"),
    ]


def test_running_and_final_measures() -> None:
    said = """, COUNT(*) AS so_far, FINAL COUNT(*) AS whole, A.n AS a,
        LAST(B.n) AS b, FINAL LAST(B.n) AS fb, FIRST(n) AS begun,
        RUNNING SUM(B.n) AS sum_b, FINAL SUM(B.n) + COUNT(B.n) AS mixed"""
    names = ("n", "so_far", "whole", "a", "b", "fb", "begun", "sum_b", "mixed")
    given = rows_of("xABBx", all_rows("A B+", said))
    assert [tuple(row[name] for name in names) for row in given] == [
        (1, 1, 3, 1, None, 3, 1, None, 5),
        (2, 2, 3, 1, 2, 3, 1, 2, 6),
        (3, 3, 3, 1, 3, 3, 1, 5, 7),
    ]


def test_excluded_rows_count_but_are_not_shown() -> None:
    given = rows_of("ABBCx", all_rows("A {- B+ -} C", ", COUNT(B.n) AS bs"))
    assert [(row["letter"], row["bs"]) for row in given] == [("A", 0), ("C", 2)]
    # The row at one position is shown, the row at the other is not.
    given = rows_of("ABAx", all_rows("{- A -} B A"))
    assert [row["n"] for row in given] == [1, 2]


@pytest.mark.parametrize("empty", ["SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES"])
def test_options_for_empty_matches_change_nothing(empty: str) -> None:
    query = all_rows("A B").replace("PER MATCH", f"PER MATCH {empty}")
    assert [row["n"] for row in rows_of("ABx", query)] == [0, 1]


# --- one row ------------------------------------------------------------------------------------------


def test_subset_combines_variables() -> None:
    assert found(
        ticker([10, 12, 11, 15, 1]),
        """
        MEASURES SUM(S.price) AS s, LAST(S.price) AS last, COUNT(S.*) AS n, CLASSIFIER() AS variable,
            AVG(T.price) AS t
        PATTERN (A B C D)
        SUBSET S = (A, B, D), T = (C)
        DEFINE A AS price = 10, D AS SUM(S.price) = 37 AND LAST(S.price, 1) = 12 AND FIRST(S.price) = 10
        """,
    ) == [(37, 15, 3, "D", 11.0)]


def test_last_works_with_repeated_groups() -> None:
    assert found(
        ticker([1, 5, 2, 6, 9]),
        "MEASURES LAST(price) AS a, FIRST(price) AS b, LAST(price, 2) AS c PATTERN ((A B){2}) "
        "DEFINE A AS price < 3, B AS price > 3",
    ) == [(6, 1, 5)]


def test_alternatives_are_tried_in_order() -> None:
    for pattern, expected in (("(A | B)", ["A", "B"]), ("(B | A)", ["B", "B"])):
        given = found(
            ticker([7, 3, 0]),
            f"MEASURES CLASSIFIER() AS v, price AS p PATTERN {pattern} "
            "DEFINE A AS price > 5, B AS price > 1",
        )
        assert [variable for variable, _ in sorted(given, key=lambda row: -row[1])] == expected


def test_match_number_counts_per_key() -> None:
    query = (
        "SELECT symbol, number FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rowtime "
        "MEASURES MATCH_NUMBER() AS number PATTERN (A) DEFINE A AS price > 1)"
    )
    env = rh.Environment(parallelism=2, runtime="simulated")
    table = ticker([2, 1, 3, 4, 5]).set_column(0, "symbol", pa.array(["a", "a", "b", "a", None]))
    late = rh.Watermark.bounded_out_of_orderness("5s", on="rowtime")
    env.register("ticker", env.from_source(rh.collection(table), watermark=late, name="ticker"))
    env.sql(query).collect("found")
    rows = env.execute("numbers").collected["found"].to_pylist()
    given = sorted((str(row["symbol"]), row["number"]) for row in rows)
    assert given == [("None", 1), ("a", 1), ("a", 2), ("b", 1)]


# --- time ---------------------------------------------------------------------------------------------

COUNTED = """
    SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE found, DESCRIPTOR(at), INTERVAL '4' SECONDS))
    GROUP BY window_start, window_end
"""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        # Certain with its last row, at 1, 3 and 5 seconds.
        ("A B", [(0, 2), (4, 1)]),
        # Certain with the row after it, at 2, 4 and 6 seconds.
        ("A B+", [(0, 1), (4, 2)]),
    ],
)
def test_windows_use_the_time_of_matches(pattern: str, expected: list[tuple[int, int]]) -> None:
    given = rows_of(
        "ABABABxxxxxx",
        f"""
        WITH found AS (SELECT * FROM letters MATCH_RECOGNIZE (PARTITION BY k ORDER BY at
            MEASURES MATCH_ROWTIME() AS at PATTERN ({pattern})
            DEFINE A AS letter = 'A', B AS letter = 'B'))
        {COUNTED}
        """,
    )
    assert [((row["window_start"] - START).seconds, row["n"]) for row in given] == expected


# --- what is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "what", "place"),
    [
        (
            {"ROWS": "ALL ROWS PER MATCH WITH UNMATCHED ROWS"},
            "unmatched rows cannot be returned",
            "MATCH",
        ),
        ({"PATTERN": "(A | B*)"}, "an alternative could match no row at all", "B"),
        ({"PATTERN": "({B})"}, "expecting {-", "B"),
        ({"PATTERN": "(A {B})"}, "expecting a number", "B"),
        ({"PATTERN": "(A {- B)"}, "expecting -}", ")"),
        ({"PATTERN": "(PERMUTE(A, B, C, D, E, F))"}, "PERMUTE of more than 5 parts is not", ")"),
        ({"PATTERN": "((A | B)+ C)"}, "B matches every row, so no match would ever end", "B"),
        ({"PATTERN": "(A B) SUBSET A = (B)"}, "A is already a variable or a SUBSET", "A"),
        ({"PATTERN": "(A B) SUBSET S = (A, X)"}, "unknown variable 'X'", "X"),
        ({"DEFINE": "A AS CLASSIFIER() = 'A'"}, "CLASSIFIER is allowed in MEASURES only", "CLASSIFIER"),
        ({"DEFINE": "A AS FINAL LAST(price) = 1"}, "FINAL is allowed in MEASURES only", "FINAL"),
        ({"MEASURES": "FINAL UPPER(symbol) AS s"}, "FINAL applies to FIRST, LAST", "FINAL"),
        ({"MEASURES": "MATCH_NUMBER(1) AS n"}, "MATCH_NUMBER takes no argument", "1"),
    ],
)
def test_an_invalid_clause_is_refused_at_its_place(said: dict[str, str], what: str, place: str) -> None:
    error = refused(clauses(**said))
    assert what in error.what
    assert error.detail is not None
    line, marks = error.detail.splitlines()
    assert line[marks.index("^") : len(marks)].startswith(place)
