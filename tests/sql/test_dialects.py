"""`SET dialect` gives a text the meaning that it has in Flink or PostgreSQL, with notes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import rheos as rh
from tests.sql.postgres_results import RESULTS as POSTGRES

SPARK_FLINK_POSTGRES: dict[str, tuple[Any, Any, Any]] = {
    "7 / 2": (3.5, 3, 3),
    "-7 / 2": (-3.5, -3, -3),
    "7 / 2.0e0": (3.5, 3.5, 3.5),
    "ROUND(LOG(100), 3)": (4.605, 4.605, 2.0),
    "EXTRACT(DOW FROM DATE '2026-03-01')": (1, 1, 0),
    "DATE_PART('dow', DATE '2026-03-02')": (2, 2, 1),
    "CONCAT('a', NULL, 'b')": (None, None, "ab"),
    "SUBSTRING('abc', 0, 2)": ("ab", "ab", "a"),
    "SUBSTRING('abc', -1, 3)": ("c", "c", "a"),
    "SUBSTRING('abc', 2, 1)": ("b", "b", "b"),
    "'a\\tb'": ("a\tb", "a\\tb", "a\\tb"),
    "GREATEST(1, NULL, 3)": (3, None, 3),
    "REGEXP_EXTRACT('x=12', '([a-z])=([0-9]+)')": ("x", "x=12", "x"),
    "'it''s'": ("it's", "it's", "it's"),
}


@pytest.mark.parametrize("dialect", ["spark", "flink", "postgres"])
def test_a_text_has_the_meaning_of_its_dialect(dialect: str) -> None:
    place = ["spark", "flink", "postgres"].index(dialect)
    columns = ", ".join(f"{text} AS v{n}" for n, text in enumerate(SPARK_FLINK_POSTGRES))
    env = rh.Environment(runtime="simulated")
    env.sql(f"SELECT {columns}", dialect=dialect).collect("found")
    found = [*env.execute("dialects").collected["found"].to_pylist()[0].values()]
    wanted = [each[place] for each in SPARK_FLINK_POSTGRES.values()]
    assert dict(zip(SPARK_FLINK_POSTGRES, found, strict=True)) == dict(
        zip(SPARK_FLINK_POSTGRES, wanted, strict=True)
    )


def test_expressions_return_what_postgresql_documents() -> None:
    env = rh.Environment(runtime="simulated")
    columns = ", ".join(f"{text} AS v{n}" for n, text in enumerate(POSTGRES))
    env.sql(f"SELECT {columns}", dialect="postgres").collect("found")
    row = env.execute("postgres").collected["found"].to_pylist()[0]
    found = dict(zip(POSTGRES, map(_plain, row.values()), strict=True))
    wrong = {text: (found[text], wanted) for text, wanted in POSTGRES.items() if found[text] != wanted}
    assert not wrong


def _plain(value: Any) -> Any:
    """Return times in UTC, without their zone, and floats without the last digits."""
    match value:
        case dt.datetime() if value.tzinfo:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        case float():
            return pytest.approx(value, nan_ok=True)
    return value


def test_aggregates_of_json_keep_nulls_and_insert_json() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql(
        """SELECT jsonb_agg(v ORDER BY k) AS a, json_object_agg(k, v) AS o,
            jsonb_agg(jsonb_build_object(k, v) ORDER BY k) AS of_json
        FROM (VALUES ('a', 1), ('b', NULL)) AS t(k, v)""",
        dialect="postgres",
    ).collect("found")
    row = env.execute("json").collected["found"].to_pylist()[-1]
    assert [row["a"], row["o"], row["of_json"]] == [
        "[1,null]",
        '{"a":1,"b":null}',
        '[{"a":1},{"b":null}]',
    ]


def test_double_quotes_name_columns_in_postgres_and_nulls_come_last() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql(
        'SELECT "x" FROM (VALUES (1), (NULL), (3)) AS t("x") ORDER BY "x" LIMIT 1', dialect="postgres"
    )
    rows = "(VALUES (1), (NULL), (3)) AS t(x)"
    env.sql(f"SELECT x FROM {rows} ORDER BY x LIMIT 1", dialect="postgres").collect("last")
    env.sql(f"SELECT x FROM {rows} ORDER BY x LIMIT 1").collect("first")
    found = env.execute("dialects").collected
    assert [row["x"] for row in found["last"].to_pylist()][-1] == 1
    assert [row["x"] for row in found["first"].to_pylist()][-1] is None


def test_set_dialect_holds_for_the_statements_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script("""
        CREATE VIEW a AS SELECT 7 / 2 AS v, 'x\\ty' AS s;
        -- The next statements come from Flink.
        SET 'dialect' = 'flink';
        CREATE VIEW b AS SELECT 7 / 2 AS v, 'x\\ty' AS s;
        SET dialect = spark;
        CREATE VIEW c AS SELECT 7 / 2 AS v, 'x\\ty' AS s;
    """)
    for name in "abc":
        env.sql(f"SELECT * FROM {name}").collect(name)
    found = env.execute("dialects").collected
    assert [found[name].to_pylist()[0] for name in "abc"] == [
        {"v": 3.5, "s": "x\ty"},
        {"v": 3, "s": "x\\ty"},
        {"v": 3.5, "s": "x\ty"},
    ]
    assert "/ of two whole numbers is a whole number, as in flink" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "dialect", "words", "place"),
    [
        ("SELECT REGEXP_REPLACE('a', 'b', 'c', 1, 2)", "postgres", "another match", None),
        ("SELECT 'a' ~ '[[:no:]]'", "postgres", "[:no:] is not a class of characters", None),
        ("SELECT REGEXP_MATCH('a', 'a', 'z')", "postgres", "unknown flag z", None),
        ("SELECT TO_CHAR(1, 'x')", "postgres", "'x' is not a template for TO_CHAR()", None),
        ("SELECT TO_DATE('1', 'RR')", "postgres", "'RR' is not a template for TO_DATE()", None),
        ("SELECT AGE(DATE '2026-01-01')", "postgres", "other values after a failure", None),
        ("SELECT INTERVAL '1 month' * 1.5", "postgres", "multiplied by a whole number", None),
        ("SELECT INTERVAL '1 month 2 days'", "spark", "months and days cannot be one", None),
        ("SELECT INTERVAL '1' YEAR + INTERVAL '1' DAY", "spark", "cannot be added, as", None),
        ("SELECT 'a' + 2 * INTERVAL '1' MONTH", "spark", "to a DATE or a TIMESTAMP", None),
        ("SELECT INTERVAL '10001' YEARS", "spark", "too long", None),
        ("SELECT FORMAT('%s %s', 1)", "postgres", "a value for each of them", None),
        ("SELECT ENCODE('a', 'rot13')", "postgres", "has no form 'rot13'", None),
        ("SELECT '{}'::jsonb ?| 1", "postgres", "takes an ARRAY of STRINGs", None),
        ("SELECT 'a", "flink", "the ' that starts here is not closed", "'a"),
    ],
)
def test_what_has_no_words_in_spark_is_refused(
    text: str, dialect: str, words: str, place: str | None
) -> None:
    with pytest.raises(rh.ProgramError) as raised:
        rh.Environment().sql(text, dialect=dialect)
    assert words in raised.value.what
    assert raised.value.detail is not None
    line, marks = raised.value.detail.splitlines()
    assert place in (None, line[marks.index("^") : len(marks)])


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(rh.ProgramError, match="unknown dialect 'oracle'") as raised:
        rh.Environment().sql("SELECT 1", dialect="oracle")
    assert raised.value.hint == "the dialects are spark, flink, postgres"
    with pytest.raises(rh.ProgramError, match="unknown dialect 'flnk'") as raised:
        rh.Environment().sql_script("SET dialect = flnk")
    assert "did you mean 'flink'?" in str(raised.value)


def test_rows_are_counted_and_named_as_in_postgresql() -> None:
    env = rh.Environment(runtime="simulated")
    text = """
        SELECT COUNT(a.*) AS all_rows, COUNT(b.*) AS joined, MAX(a.column1) AS most
        FROM (VALUES (1, NULL), (2, 'x'), (3, 'y')) AS a LEFT JOIN (VALUES (1, 'x')) AS b
            ON a.column1 = b.column1
    """
    env.sql(text, dialect="postgres", state_ttl="forever").collect("found")
    found = env.execute("counts").collected["found"].to_pylist()[-1]
    assert (found["all_rows"], found["joined"], found["most"]) == (3, 1, 3)


def test_literals_have_the_type_of_their_neighbours_in_postgresql() -> None:
    env = rh.Environment(runtime="simulated")
    text = """
        SELECT n = '3' AS a, n + '2' AS b, '1' < n AS c, 2.5 > '-1.5' AS d, COALESCE(n, '5') AS e,
            CASE WHEN n > 1 THEN n ELSE '7' END AS f, 'true' = (n = 3) AS g
        FROM (VALUES (1), (3), (4)) AS t(n) WHERE n IN ('1', '3') AND n BETWEEN '2' AND '9'
    """
    env.sql(text, dialect="postgres").collect("found")
    [row] = env.execute("literals").collected["found"].to_pylist()
    assert [*row.values()] == [True, 5, True, True, 3, 3, True]
    with pytest.raises(rh.SchemaError, match=r"'1\.5' is not a valid"):
        env.sql("SELECT n = '1.5' AS a FROM (VALUES (1)) AS t(n)", dialect="postgres")
