"""Errors in a query are shown at their place, with the user's line and a hint."""

from __future__ import annotations

import re
import sys

import pytest

import rheos as rh
from rheos.sql.dialect import StreamSql
from tests.sql.data import registered


def refused(text: str) -> rh.RheosError:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.RheosError) as caught:
        env.sql(text)
    return caught.value


def place(error: rh.RheosError) -> str:
    """Return the underlined text."""
    assert error.detail is not None
    line, marks = error.detail.splitlines()
    return line[marks.index("^") : len(marks)]


def test_an_error_starts_with_its_line_and_place() -> None:
    error = refused("SELECT pric FROM bids WHERE price > 3")
    assert error.site is not None
    assert error.site.file == __file__
    assert str(error) == (
        f"{error.site}: unknown column 'pric'\n"
        "  what to do: did you mean 'price'? the columns here are auction, bidder, price, channel, ts\n"
        "  | SELECT pric FROM bids WHERE price > 3\n"
        "  |        ^^^^"
    )


def test_only_the_failing_line_is_shown_and_numbered() -> None:
    error = refused("SELECT price\nFROM bids\nWHERE upper(price) = 'A'")
    assert "(line 3 of the SQL)" in error.what
    assert error.detail == "WHERE upper(price) = 'A'\n            ^^^^^"


def test_the_place_is_underlined_after_tabs_and_wide_letters() -> None:
    error = refused("SELECT\n\tprice,\n\t'öl 日本' AS x,\tpric\nFROM bids")
    assert error.detail == " 'öl 日本' AS x, pric\n               ^^^^"
    error = refused("SELECT price -- don't\nFROM bids\nWHERE channel =\n  'a\nAND price > 3")
    assert "(line 4 of the SQL)" in error.what
    assert error.detail == "  'a\n  ^^"


def test_a_long_line_is_cut_around_the_place() -> None:
    many = ", ".join(f"price + {i} AS p{i}" for i in range(100))
    error = refused(f"SELECT {many}, pric FROM bids")
    assert error.detail is not None
    line, _ = error.detail.splitlines()
    assert len(line) < 120
    assert place(error) == "pric"


def test_similar_function_names_are_suggested() -> None:
    error = refused("SELECT uper(channel) FROM bids")
    listed = "the functions are those of docs/sql-reference.md"
    assert error.hint == f"did you mean 'upper' or 'power'? {listed}"


def test_all_columns_of_a_wide_table_are_named() -> None:
    many = ", ".join(f"price AS p{i}" for i in range(40))
    error = refused(f"SELECT nothing_like_it FROM (SELECT {many} FROM bids)")
    assert error.hint == "the columns here are " + ", ".join(f"p{i}" for i in range(40))


WRONG = {
    # Syntax.
    "SELEC price FROM bids": ("this is not valid SQL", "FROM"),
    "SELECT price +": ("the SQL ends too early after this", "+"),
    "SELECT (price FROM bids": ("the parenthesis that is opened here is not closed", "(price"),
    "SELECT price FROM bids WHERE (price > 3": ("write ) at the end", "(price > 3"),
    "SELECT price + 3) FROM bids": ("this closing parenthesis has no opening one", ")"),
    "SELECT price FROM bids WHERE channel = 'a": ("the ' that starts here is not closed", "'a"),
    "SELECT price FROM bids WHERE price IN ()": ("IN needs at least one value", "price"),
    "SHOW TABLES": ("sql() takes a query", "SHOW"),
    "SHOW JOBS": ("sql() takes a query", "SHOW"),
    "SHOW TBLS": ("this is not valid SQL: expecting tables", "TBLS"),
    "CALL x()": ("sql() takes a query", "CALL"),
    "SELECT FROM bids": ("SELECT has no columns", "SELECT"),
    "SELECT price FROM bids UNION ALL SELECT": ("SELECT has no columns", "SELECT"),
    "SELECT price /* not yet FROM bids": ("the comment that starts here is", "/* not yet FROM bids"),
    "SELECT price FROM": ("the SQL ends too early after this", "FROM"),
    "SELECT price FROM bids GROUP BY": ("the SQL ends too early after this", "GROUP BY"),
    "SELECT b.price FROM bids b JOIN sales s ON": ("the SQL ends too early after this", "ON"),
    "SELECT price FORM bids": ("did you mean FROM instead of 'FORM'?", "bids"),
    "SELECT price FROM bids WERE price > 3": ("did you mean WHERE", "price"),
    "SELECT price FROM bids GROUP auction": ("write GROUP BY", "auction"),
    "SELECT CAST(price AS FOO) AS x FROM bids": ("unknown type FOO", "FOO"),
    "SELECT CASE WHEN price > 3 THEN 1 FROM bids": ("CASE is missing its WHEN or its END here", "1"),
    "INSERT INTO t SELECT 1": ("env.sql_script(...)", "t SELECT 1"),
    # A comma without an item after it.
    "SELECT price, FROM bids": ("expected an item after this comma", ","),
    "SELECT price FROM bids, WHERE price > 3": ("expected an item after this comma", ","),
    "SELECT price FROM bids GROUP BY price,": ("expected an item after this comma", ","),
    "SELECT upper(channel,) AS u FROM bids": ("expected an item after this comma", ","),
    "SELECT price FROM bids WHERE auction IN (1,)": ("expected an item after this comma", ","),
    "SELECT * FROM (VALUES (1, 2,)) AS t": ("expected an item after this comma", ","),
    "SELECT * FROM (VALUES (1), ) AS t": ("expected an item after this comma", ","),
    "SELECT ROW_NUMBER() OVER (ORDER BY price,) AS n FROM bids": (
        "expected an item after this comma",
        ",",
    ),
    # Calls.
    "SELECT upper(channel, auction) AS u FROM bids": (
        "UPPER() takes at most 1 argument, but has 2",
        "upper(channel, auction)",
    ),
    "SELECT upper() AS u FROM bids": ("UPPER() is missing an argument", "upper()"),
    "SELECT summ(price) OVER (ORDER BY ts) AS u FROM bids": ("did you mean 'sum'", "summ(price)"),
    "SELECT * FROM TABLE(TUMBEL(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))": (
        "unknown table function 'TUMBEL'",
        "TUMBEL(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    ),
    "SELECT * FROM TABLE(TUMBEL(bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))": (
        "did you mean 'TUMBLE'?",
        "TUMBEL(bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    ),
    # Names.
    "SELECT price FROM bid": ("unknown table 'bid'", "bid"),
    "SELECT a.price FROM bids AS b": ("unknown table 'a'", "a.price"),
    "SELECT frobnicate(price) FROM bids": ("unknown function 'frobnicate'", "frobnicate(price)"),
    "SELECT price * 2 AS twice FROM bids WHERE twice > 3": (
        "'twice' is a column that this SELECT creates, so it cannot be read here",
        "twice",
    ),
    "WITH a AS (SELECT 1 AS x), a AS (SELECT 2 AS x) SELECT * FROM a": ("WITH names 'a' twice", "a"),
    "SELECT b.price FROM bids b JOIN sales b ON b.auction = b.auction": (
        "two tables here are named 'b'",
        "sales b",
    ),
    "SELECT word.x FROM words": ("word.x is not a column", "word.x"),
    # Types.
    "SELECT 1e999 AS x FROM bids": ("1e999 exceeds the range of DOUBLE", "1e999"),
    "SELECT 9999999999999999999999999999999999999999 AS x FROM bids": (
        "a number has at most 38 digits",
        "9999999999999999999999999999999999999999",
    ),
    "SELECT DATE '2026-13-45' AS day FROM bids": ("'2026-13-45' is not a valid DATE", "'2026-13-45'"),
    "SELECT auction + channel FROM bids": ("arithmetic takes numbers", "channel"),
    "SELECT price FROM bids WHERE channel = 3": ("a comparison takes values of one type", "3"),
    "SELECT price FROM bids WHERE price": ("WHERE takes a condition", "price"),
    "SELECT price FROM bids WHERE ts > 'noon'": ("'noon' is not a valid TIMESTAMP", "'noon'"),
    "SELECT CASE WHEN t THEN 1 ELSE 'a' END FROM numbers": ("CASE takes values of one type", "'a'"),
    "SELECT NULL AS nothing FROM bids": ("always NULL", "nothing"),
    "SELECT CAST(price AS DATE) FROM bids": ("cannot be cast to DATE", "CAST(price AS DATE)"),
    "SELECT year(price) FROM bids": ("YEAR takes a DATE or TIMESTAMP", "price"),
    "SELECT price FROM bids WHERE channel RLIKE '(?=a)'": ("this is not a valid pattern", "'(?=a)'"),
    "SELECT auction FROM bids UNION ALL SELECT channel FROM bids": (
        "is BIGINT in one query, but",
        "channel FROM bids",
    ),
    "SELECT auction, price FROM bids UNION ALL SELECT price FROM bids": (
        "the same number of columns",
        "price FROM bids",
    ),
    # Groups and windows.
    "SELECT auction, price FROM bids GROUP BY auction": (
        "neither in GROUP BY nor in an aggregate",
        "price",
    ),
    "SELECT auction, SUM(channel) AS s FROM bids GROUP BY auction": ("SUM() takes numbers", "channel"),
    "SELECT * FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(n), INTERVAL '1' HOUR))": (
        "'n' is not the event time of numbers",
        "n",
    ),
    "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 10))": (
        "the length of a window must be an interval",
        "10",
    ),
    "SELECT window_start, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start": (
        "its start and its end",
        "window_start",
    ),
    # A bound of the window that is listed twice counts once.
    "SELECT began, COUNT(*) AS n FROM (SELECT *, window_start AS began FROM TABLE(TUMBLE(TABLE bids, "
    "DESCRIPTOR(ts), INTERVAL '1' HOUR))) AS t WHERE window_start > '2026-03-01' "
    "GROUP BY began, window_end": ("the columns of a window are known only when it ends", "began"),
    "SELECT MAX(COUNT(*)) AS m FROM bids": (
        "an aggregate cannot contain another aggregate",
        "MAX(COUNT(*))",
    ),
    "SELECT price FROM bids WHERE COUNT(*) > 1": ("COUNT() is an aggregate", "COUNT(*)"),
    "SELECT *, ROW_NUMBER() OVER (ORDER BY price) AS n FROM bids": (
        "each new row would change the numbers of all rows",
        "ROW_NUMBER() OVER (ORDER BY price)",
    ),
    # Aggregates over neighbouring rows.
    "SELECT price, SUM(price) OVER (PARTITION BY auction) AS s FROM bids": (
        "the frame ends with the last row, but rows without a window have no last one",
        "SUM(price) OVER (PARTITION BY auction)",
    ),
    "SELECT SUM(price) OVER (ORDER BY price) AS s FROM bids": (
        "OVER on append-only rows needs ORDER BY the event time",
        "price",
    ),
    "SELECT SUM(n) OVER (ORDER BY n) AS s FROM numbers": (
        "OVER on append-only rows needs ORDER BY the event time",
        "n",
    ),
    "SELECT SUM(price) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) AS s "
    "FROM bids": (
        "the frame ends with the last row, but rows without a window have no last one",
        "SUM(price) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)",
    ),
    "SELECT SUM(price) OVER (ORDER BY ts ROWS BETWEEN price PRECEDING AND CURRENT ROW) AS s "
    "FROM bids": (
        "ROWS takes an integer number",
        "price",
    ),
    "SELECT SUM(price) OVER (ORDER BY ts RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) AS s FROM bids": (
        "RANGE takes an interval",
        "10",
    ),
    "SELECT LEAD(price) OVER (ORDER BY ts) AS a, "
    "LEAD(price) OVER (PARTITION BY bidder ORDER BY ts) AS b FROM bids": (
        "one frame reads following rows, and its output has no event time",
        "LEAD(price) OVER (PARTITION BY bidder ORDER BY ts)",
    ),
    "WITH later AS (SELECT ts, LEAD(price) OVER (ORDER BY ts) AS n FROM bids) SELECT window_start, "
    "COUNT(*) AS n FROM TABLE(TUMBLE(TABLE later, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end": ("'ts' is not the event time of later", "ts"),
    "SELECT NTILE(4) OVER (ORDER BY ts) AS s FROM bids": (
        "the frame ends with the last row, but rows without a window have no last one",
        "NTILE(4) OVER (ORDER BY ts)",
    ),
    "SELECT SUM(price) OVER w AS s FROM bids WINDOW v AS (ORDER BY ts)": ("unknown window 'w'", "w"),
    "SELECT ns, COUNT(*) OVER (ORDER BY n) AS s FROM (SELECT n, MAP('n', n) AS ns "
    "FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction)) AS t": (
        "the rows are updated and have no key, and 'ns', which is MAP, cannot be compared",
        "COUNT(*) OVER (ORDER BY n)",
    ),
    "SELECT PROCTIME() AS p FROM bids WHERE PROCTIME() > ts": (
        "unknown function 'PROCTIME'",
        "PROCTIME",
    ),
    "SELECT p < ts AS late FROM (SELECT *, PROCTIME() AS p FROM bids) AS t": (
        "p is the processing time, which has no fixed value",
        "p",
    ),
    "SELECT price FROM bids HAVING price > 3": ("HAVING needs GROUP BY", "price > 3"),
    "SELECT TRANSFORM(ARRAY(price, 1), v -> v + auctoin) AS t FROM bids": (
        "unknown column 'auctoin'",
        "auctoin",
    ),
    "SELECT FILTER(ARRAY(price), v -> v + 1) AS t FROM bids": (
        "the function must be a condition",
        "v + 1",
    ),
    "SELECT TRANSFORM(price, v -> v) AS t FROM bids": ("TRANSFORM() needs an ARRAY", "price"),
    "SELECT ARRAY() AS t FROM bids": ("an empty ARRAY has no type", "ARRAY"),
    "SELECT * EXCEPT (prize) FROM bids": ("unknown column 'prize'", "prize"),
    "SELECT price FROM bids FETCH FIRST 5 PERCENT ROWS ONLY": ("FETCH takes a number of rows", "5"),
    # Joins.
    "SELECT * FROM bids b JOIN sales s ON b.auction = s.auction": (
        "the join would keep the rows of both sides forever",
        "sales s",
    ),
    "SELECT b.price FROM bids b JOIN sales s ON b.price > s.amount": (
        "the join would keep the rows of both sides forever",
        "sales s",
    ),
    "SELECT b.price FROM bids b JOIN sales s ON b.auction = r.auction JOIN rats r ON TRUE": (
        "unknown table 'rats'",
        "rats",
    ),
    "SELECT b.price FROM bids b, sales s WHERE b.auction = 1 AND s.auction = 1": (
        "every row would be joined with every other: no condition compares the two sides",
        "sales s",
    ),
    "SELECT 1 AS a FROM bids b JOIN sales s ON b.auction = s.auction AND s.nothing = 1": (
        "unknown column 'nothing'",
        "s.nothing",
    ),
    "SELECT b.price FROM bids b CROSS JOIN sales s": ("every row would be joined with", "sales s"),
    "SELECT auction FROM bids b JOIN sales s ON b.auction = s.auction AND s.sold BETWEEN b.ts AND "
    "b.ts + INTERVAL '1' HOUR": ("'auction' is ambiguous: it matches 2 columns", "auction"),
    "SELECT b.price FROM bids b LEFT JOIN sales s ON b.auction = s.auction AND b.price > 3 AND s.sold "
    "BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR": (
        "JOIN by time supports only equality conditions between the two sides",
        "b.price > 3",
    ),
    "SELECT b.price FROM bids b JOIN sales FOR SYSTEM_TIME AS OF b.price AS s ON b.auction = s.id": (
        "takes the event time of the left side",
        "b.price",
    ),
    "SELECT b.price FROM bids b JOIN numbers FOR SYSTEM_TIME AS OF b.ts AS n ON b.auction = n.a": (
        "a versioned table needs event time, but this table has no event time",
        "numbers FOR SYSTEM_TIME AS OF b.ts AS n",
    ),
    "SELECT b.price FROM bids b JOIN sales s ON b.auction = s.auction AND s.sold BETWEEN b.ts AND "
    "b.ts - INTERVAL '1' HOUR": (
        "no two rows can have this distance",
        "s.sold BETWEEN b.ts AND b.ts - INTERVAL '1'",
    ),
    # Clauses that have no meaning for a stream.
    "SELECT price FROM bids ORDER BY price LIMIT auction": (
        "LIMIT takes a constant integer",
        "auction",
    ),
    "SELECT price FROM bids ORDER BY 4 LIMIT 9": ("SELECT has 1 column", "4"),
    "SELECT price FROM bids ORDER BY biddr LIMIT 9": ("unknown column 'biddr'", "biddr"),
    "SELECT current_timestamp FROM bids": ("would return other values after a", "current_timestamp"),
    # Functions that are not supported so far.
    "SELECT price FROM bids TABLESAMPLE (10 ROWS)": ("TABLESAMPLE of a table", "10"),
    # Nested queries: tests/sql/test_queries_within.py has those that need a retention for rows.
    "SELECT price FROM bids WHERE auction IN (SELECT n FROM numbers)": (
        "the rows of both queries would be kept forever",
        "auction IN (SELECT n FROM numbers)",
    ),
    "SELECT (SELECT max(n) FROM numbers) AS m FROM bids": (
        "every row would be kept forever, along with the value",
        "max(n) FROM numbers",
    ),
    "SELECT auction, GROUPING(price) AS g FROM bids GROUP BY ROLLUP(auction)": (
        "'price' is not a key of GROUP BY",
        "price",
    ),
    "SELECT auction, GROUPING(auction) AS g FROM bids GROUP BY auction": (
        "needs several grouping sets, but there is a single one",
        "GROUPING(auction)",
    ),
    "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) "
    "GROUP BY GROUPING SETS ((window_start, window_end), ())": (
        "every grouping set must include the window",
        "window_start",
    ),
    "SELECT price, auction FROM bids INTERSECT SELECT n FROM numbers": (
        "INTERSECT needs queries with the same number of columns, but these have 2 and 1",
        "n FROM numbers",
    ),
    "SELECT price FROM bids INTERSECT SELECT word FROM words": (
        "column 'price' is BIGINT in one query, but STRING in the other",
        "word FROM words",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_query_is_refused_at_its_place(text: str) -> None:
    what, underlined = WRONG[text]
    error = refused(text)
    assert what in str(error)
    assert place(error) == underlined


@pytest.mark.parametrize("text", ["-- nothing", ";", "/* nothing */ ;"])
def test_sql_without_a_query_is_an_error(text: str) -> None:
    error = refused(text)
    assert error.what == "this SQL contains no query"
    assert error.detail == text


def test_column_names_may_differ_only_in_case() -> None:
    error = refused("SELECT n FROM (SELECT n, a AS N FROM numbers) AS b WHERE N > 2 AND nn = 3")
    assert "unknown column 'nn'" in error.what


def test_the_error_for_an_unknown_table_says_how_to_register() -> None:
    hint = refused("SELECT * FROM orders").hint
    assert hint is not None
    assert "register one with env.register('orders', stream)" in hint


def test_a_table_name_is_valid_and_registered_once() -> None:
    env = rh.Environment()
    stream = env.from_source(rh.collection([{"a": 1}]))
    env.register("t", stream)
    with pytest.raises(rh.ProgramError, match="the table 'T' already exists"):
        env.register("T", stream)
    with pytest.raises(rh.ProgramError, match="must be a single word"):
        env.register("a b", stream)
    with pytest.raises(rh.ProgramError, match="takes a stream"):
        env.register("u", stream.key_by("a"))  # type: ignore[arg-type]
    with pytest.raises(rh.ProgramError, match="of its own environment"):
        rh.Environment().register("t", stream)


def test_without_sqlglot_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rheos.sql")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(rh.ConfigurationError, match=r"SQL needs the package sqlglot"):
        rh.Environment().sql("SELECT 1")


def test_errors_name_functions_as_the_user_wrote_them() -> None:
    """sqlglot has one class for several functions, such as ArgMax for MAX_BY."""
    env = rh.Environment()
    registered(env)
    wrong = []
    for name in sorted(StreamSql.Parser.FUNCTIONS):
        for arguments in ("", "channel", "price, channel", "price, price, price"):
            call = f"{name}({arguments})"
            try:
                env.sql(f"SELECT {call} AS v FROM bids")
            except rh.RheosError as error:
                named = re.search(r"(\w+)\(\)", error.what)
                if (named and named[1] != name) or "^" not in (error.detail or ""):
                    wrong.append(f"{call}: {error.what}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("channel GLOB 'a'", "channel GLOB 'a'"),
        ("ROUND(price, 1, 2)", "the argument 2 of ROUND()"),
        ("MAP((x, y) -> x)", "MAP takes keys and values in turn"),
    ],
)
def test_errors_repeat_the_user_s_words(text: str, words: str) -> None:
    error = refused(f"SELECT {text} AS v FROM bids")
    assert words in error.what
    assert error.detail is not None
    assert "^" in error.detail
