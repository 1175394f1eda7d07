"""Scripts: tables, views, inserts, and files of SQL as jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rheos as rh
from rheos.api.overrides import Overrides
from rheos.api.partial_settings import from_command
from rheos.api.program_file import captured_program, planned_program, run_file
from rheos.cli.run import run
from tests.sql.data import registered

VIEWS = """
CREATE TABLE views (
    page STRING NOT NULL,
    ms BIGINT,
    at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '5' SECONDS
) WITH ('connector' = 'files', 'path' = '{folder}/in.jsonl', 'format' = 'jsonl');
"""

JOB = (
    VIEWS
    + """
-- Rows that took long.
CREATE VIEW slow (url, at) AS SELECT page, at FROM views WHERE ms > 10;

CREATE TABLE minutes (url STRING, until TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'files', 'path' = '{folder}/out', 'format' = 'jsonl');

CREATE TABLE pages (n DECIMAL(20, 0), page STRING) WITH ('connector' = 'collect');

INSERT INTO minutes
SELECT url, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE slow, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY url, window_start, window_end;

INSERT INTO pages (page, n) SELECT url, COUNT(*) FROM slow GROUP BY url;
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"page": f"/{i % 2}", "ms": i % 20, "at": f"2026-03-01T12:{i // 60:02}:{i % 60:02}Z"}
        for i in range(120)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def written(folder: Path) -> list[tuple[str, int]]:
    lines = [line for file in folder.glob("out/*.jsonl") for line in file.read_text().splitlines()]
    return sorted((row["until"][14:16], row["url"], row["n"]) for row in map(json.loads, lines))


EXPECTED = [
    (
        f"{minute + 1:02}",
        f"/{page}",
        sum(i % 20 > 10 and i % 2 == page for i in range(start, start + 60)),
    )
    for minute, start in enumerate((0, 60))
    for page in range(2)
]


def test_a_script_reads_and_writes_what_it_declares(folder: Path) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(JOB.format(folder=folder))
    found = env.execute("script").collected["pages"]
    assert written(folder) == EXPECTED
    last = {row["page"]: int(row["n"]) for row in found.to_pylist()}
    assert last == {
        f"/{page}": sum(row[2] for row in EXPECTED if row[1] == f"/{page}") for page in range(2)
    }


def test_a_file_of_sql_is_a_job(folder: Path) -> None:
    file = folder / "job.sql"
    file.write_text(JOB.format(folder=folder))
    settings = Overrides((from_command({"runtime": "simulated"}),))
    assert run(file, [], settings) == 0
    assert written(folder) == EXPECTED
    assert captured_program(file, [], settings).job_name == "job"


def test_an_error_in_a_file_starts_with_its_line(folder: Path) -> None:
    file = folder / "job.sql"
    file.write_text(JOB.format(folder=folder).replace("ms > 10", "mss > 10"))
    with pytest.raises(rh.SchemaError) as caught:
        planned_program(file, [], Overrides())
    assert str(caught.value).startswith(f"{file}:10: unknown column 'mss'\n")


def test_a_file_of_sql_takes_no_arguments(folder: Path) -> None:
    (folder / "job.sql").write_text(JOB.format(folder=folder))
    with pytest.raises(rh.ConfigurationError, match="takes no arguments"):
        planned_program(folder / "job.sql", ["--day"], Overrides())


def test_views_are_shared_by_their_readers(folder: Path) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(JOB.format(folder=folder))
    plan = env.explain("plan")
    assert plan.count("views [") == 1
    assert plan.count("filter [") == 1


def test_a_source_reads_the_columns_of_all_statements(folder: Path) -> None:
    env = rh.Environment(runtime="simulated")
    table = f"WITH ('connector' = 'files', 'path' = '{folder}/logs/*.jsonl', 'format' = 'jsonl');"
    env.sql_script(
        f"""
        CREATE TABLE views (url STRING, ms BIGINT, at TIMESTAMP(3), agent STRING, host STRING) {table}
        CREATE TABLE urls (url STRING) WITH ('connector' = 'print');
        CREATE TABLE slow (at TIMESTAMP(3)) WITH ('connector' = 'print');
        INSERT INTO urls SELECT url FROM views;
        INSERT INTO slow SELECT at FROM views WHERE ms > 100;
        """
    )
    emitted = env.explain("plan").splitlines()[3]
    assert emitted.strip().startswith("emits: url: string, ms: int64, at: timestamp[ms, tz=UTC]; ")


def test_set_state_ttl_applies_to_later_statements() -> None:
    env = rh.Environment()
    registered(env)
    join = "CREATE VIEW {} AS SELECT b.price FROM bids b JOIN sales s ON b.auction = s.auction;"
    env.sql_script("SET state_ttl = '1d';" + join.format("pairs"))
    assert env.sql("SELECT * FROM pairs").schema.names == ["price"]


WRONG = {
    "CREATE TABLE t (ts STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'files', 'path' = 'x')": (
        "a watermark needs a TIMESTAMP, but 'ts' is STRING"
    ),
    "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a + INTERVAL '1' DAY) "
    "WITH ('connector' = 'print')": "a watermark must be the time, or the time minus an interval",
    "CREATE TABLE t (a INT) WITH ('path' = 'x')": "WITH does not name a connector",
    "CREATE TABLE t (a INT) WITH ('connector' = 'fils')": "did you mean 'files'?",
    "CREATE TABLE t (a FROB) WITH ('connector' = 'print')": "unknown type FROB",
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT INTO t SELECT 'x'": (
        "'a' of t is INT, but the query returns STRING"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT INTO t SELECT 1, 2": (
        "the query has 2 columns"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'print', 'nam' = 'x'); INSERT INTO t SELECT 1": (
        "unknown option 'nam'"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'files'); INSERT INTO t SELECT 1": (
        "the option 'path' is missing"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); CREATE VIEW v AS SELECT * FROM t": (
        "this connector has no source, so its tables are write-only"
    ),
    "CREATE TABLE t (n BIGINT) WITH ('connector' = 'files', 'path' = 'x'); INSERT INTO t SELECT "
    "COUNT(*) FROM bids GROUP BY auction": "updates and deletes rows by key",
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT INTO t (a, a) SELECT 1, 2": (
        "'a' is listed twice"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'print'); INSERT INTO t": "INSERT INTO needs a table",
    "CREATE TABLE t (a INT, A STRING) WITH ('connector' = 'print')": "two columns are named 'A'",
    "CREATE TABLE t (a INT,) WITH ('connector' = 'print')": "expected an item after this comma",
    "CREATE TABLE t () WITH ('connector' = 'print')": "CREATE TABLE needs columns",
    "CREATE TABLE t (a) WITH ('connector' = 'print')": "write a BIGINT",
    "CREATE TABLE t (a INT) WITH ('connector' = 'print', 'name' = 'x', 'name' = 'y')": (
        "the option 'name' is set twice"
    ),
    "CREATE TABLE t (a INT) WITH ('connector' = 'files', 'path' = 'x', 'format' = 'jsn'); "
    "CREATE VIEW v AS SELECT * FROM t": "unknown format 'jsn'",
    "CREATE VIEW v": "CREATE VIEW needs a query",
    "CREATE VIEW v (a, b) AS SELECT 1 AS x": "the query has 1 columns, but 2 names are listed",
    "SET state_ttl = 'soon'": "'soon' is not a duration",
    "SET": "SET needs a name and a value",
    "hello": "this is not a statement",
    "INSERT INTO nowhere SELECT 1": "unknown table 'nowhere'",
    "CREATE VIEW bids AS SELECT 1 AS a": "the table 'bids' already exists",
    "SELECT 1 AS a": "the rows of this query are not used",
    "SET parallelism = '3'": "is not a setting of a query",
    "DROP TABLE bid": "unknown table 'bid'",
    "CREATE TABLE t (a INT AS (a)) WITH ('connector' = 'print')": "column",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_script_is_refused(text: str) -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.ProgramError) as caught:
        env.sql_script(text)
    assert WRONG[text] in str(caught.value)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_a_script_shows_plans_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        "CREATE VIEW one AS SELECT 1 AS a; SHOW TABLES; DESCRIBE one; EXPLAIN SELECT a FROM one"
    )
    said = capsys.readouterr().out
    assert said.startswith(
        "one  view, append-only\na  INT\nproject a = 1\n  emits append-only: a INT\n"
    )
    assert "Plan of 'explain'" in said


def test_explain_and_describe_refuse_other_statements() -> None:
    env = rh.Environment(runtime="simulated")
    with pytest.raises(rh.RheosError, match="EXPLAIN takes a query") as caught:
        env.sql_script("EXPLAIN SET state_ttl = '1d'")
    assert caught.value.hint == "write EXPLAIN SELECT ... FROM ..."
    with pytest.raises(rh.RheosError, match="unknown table 'nothing'"):
        env.sql_script("DESCRIBE nothing")


def test_a_file_with_only_explain_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ask.sql"
    file.write_text("EXPLAIN SELECT 1 AS a;")
    run_file(file, ())
    assert "emits append-only: a INT" in capsys.readouterr().out


def test_updating_rows_for_an_append_only_sink_are_refused() -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.ProgramError) as caught:
        env.sql_script(
            "CREATE TABLE o (auction BIGINT, n BIGINT) "
            "WITH ('connector' = 'files', 'path' = 'out', 'format' = 'jsonl');\n"
            "INSERT INTO o SELECT auction, COUNT(*) FROM bids GROUP BY auction"
        )
    error = caught.value
    assert "cannot update or delete rows that it has written, and the stream carries" in error.what
    assert error.hint is not None
    assert error.hint.startswith("group by a window, so that rows are append-only: FROM")
    assert error.detail is not None
    line, marks = error.detail.splitlines()
    assert line[marks.index("^") :] == "auction"


@pytest.mark.parametrize(
    ("query", "place", "hint"),
    [
        ("SELECT channel, price\n  AS p FROM bids", "price", "write CAST(price AS INT)"),
        ("SELECT channel, price + 1 FROM bids", "price + 1", "write CAST(price + 1 AS INT)"),
        ("(SELECT 'a', price FROM bids) UNION ALL SELECT 'b', 1", "price", "write CAST(price AS INT)"),
        # If the columns are not listed one by one, the table is shown.
        ("SELECT * FROM (SELECT channel, price FROM bids)", "t", "write CAST(price AS INT)"),
    ],
)
def test_a_column_of_another_type_is_refused_at_its_place(query: str, place: str, hint: str) -> None:
    env = rh.Environment()
    registered(env)
    with pytest.raises(rh.SchemaError, match="'b' of t is INT, but the query returns") as caught:
        env.sql_script(
            f"CREATE TABLE t (a STRING, b INT) WITH ('connector' = 'print');\nINSERT INTO t {query}"
        )
    assert caught.value.hint == hint
    assert caught.value.detail is not None
    line, marks = caught.value.detail.splitlines()
    assert line[marks.index("^") : len(marks)] == place
