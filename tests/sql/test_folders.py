"""Folders of SQL as one job, and the origins of the columns that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rheos as rh
from rheos.api.overrides import Overrides
from rheos.api.partial_settings import from_command
from rheos.cli.explain import explain
from rheos.cli.run import run
from rheos.sql.dialect import parse
from rheos.sql.lineage import lineage
from rheos.sql.text import SqlText
from tests.sql.corpus import QUERIES
from tests.sql.data import registered

SIMULATED = Overrides(settings=(from_command({"runtime": "simulated"}),))

# The names do not show the order in which the files have to be executed.
FILES = {
    "a_out.sql": """
        INSERT INTO minutes SELECT page, window_end, n, slowest FROM busy;
        INSERT INTO pages
        SELECT UPPER(page), y FROM ML_PREDICT(TABLE slow, MODEL twice, DESCRIPTOR(ms));
    """,
    "models.sql": """
        CREATE MODEL twice INPUT (x BIGINT) OUTPUT (y BIGINT)
        WITH ('provider' = 'python', 'function' = 'tests.sql.test_models.double')
    """,
    "staging/slow.sql": "SELECT page, ms, at FROM views WHERE ms > 100;",
    "b_busy.sql": """
        CREATE VIEW busy AS
        SELECT page, window_end, COUNT(*) AS n, MAX(ms) AS slowest
        FROM TABLE(TUMBLE(TABLE slow, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY page, window_start, window_end
    """,
    "tables.sql": """
        CREATE TABLE minutes (page STRING, until TIMESTAMP(3), n BIGINT, slowest BIGINT)
        WITH ('connector' = 'files', 'path' = '{folder}/minutes', 'format' = 'jsonl');
        CREATE TABLE pages (page STRING, twice BIGINT)
        WITH ('connector' = 'files', 'path' = '{folder}/pages', 'format' = 'jsonl');
        CREATE TABLE views (page STRING, ms BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'files', 'path' = '{folder}/in.jsonl', 'format' = 'jsonl');
    """,
}


def written(folder: Path, files: dict[str, str]) -> Path:
    models = folder / "models"
    for name, text in files.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        (models / name).write_text(text.replace("{folder}", str(folder)))
    return models


def rows(folder: Path) -> list[dict[str, object]]:
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=str)


def test_files_are_one_job_ordered_by_dependency(tmp_path: Path) -> None:
    models = written(tmp_path, FILES)
    views = [
        {"page": page, "ms": ms, "at": f"2026-03-01T12:00:{n:02}Z"}
        for n, (page, ms) in enumerate([("a", 200), ("b", 50), ("a", 300)])
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in views))
    assert run(models, (), SIMULATED) == 0
    [minute] = rows(tmp_path / "minutes")
    assert (minute["page"], minute["n"], minute["slowest"]) == ("a", 2, 300)
    assert rows(tmp_path / "pages") == [{"page": "A", "twice": 400}, {"page": "A", "twice": 600}]


def test_explain_shows_the_lineage_of_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(written(tmp_path, FILES), (), "text", SIMULATED) == 0
    _, _, lineage = capsys.readouterr().out.partition("Lineage of columns:\n")
    assert lineage.splitlines() == [
        "  minutes.page from views.page",
        "  minutes.until from views.at",
        "  minutes.n from no column",
        "  minutes.slowest from views.ms",
        "  pages.page from views.page",
        "  pages.twice from views.ms",
    ]


def failing(tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    models = written(tmp_path, files)
    assert run(models, (), SIMULATED) != 0
    return capsys.readouterr().err.replace(str(models), "models")


def test_a_cycle_is_shown_at_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = failing(tmp_path, {"one.sql": "SELECT a\nFROM two", "two.sql": "SELECT a\nFROM one"}, capsys)
    assert "models/two.sql:2: a table depends on itself: one reads two reads one" in said
    assert "| FROM one\n  |      ^^^" in said


def test_an_error_has_the_file_and_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"one.sql": "SELECT 1 AS a", "two.sql": "SELECT\n  b\nFROM one"}
    assert "models/two.sql:2: unknown column 'b'" in failing(tmp_path, files, capsys)


def test_a_table_is_defined_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"one.sql": "SELECT 1 AS a", "two.sql": "CREATE VIEW One AS SELECT 2 AS a"}
    assert "models/two.sql:1: the table 'one' already exists, in models/one.sql" in failing(
        tmp_path, files, capsys
    )


def test_a_folder_without_sql_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models").mkdir()
    assert "is a folder" in failing(tmp_path, {}, capsys)


def test_lineage_of_a_join_has_both_sides() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    env.sql_script(
        """
        CREATE TABLE out (a BIGINT, b BIGINT, c BIGINT) WITH ('connector' = 'collect');
        INSERT INTO out
        SELECT b.auction, s.amount + b.price, b.bidder FROM bids b
        JOIN sales s ON b.auction = s.auction AND s.sold BETWEEN b.ts AND b.ts + INTERVAL '1' MINUTE;
        CREATE TABLE first (a BIGINT, b BIGINT, c BIGINT) WITH ('connector' = 'collect');
        INSERT INTO first SELECT auction, price, n FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price) AS n
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        ) WHERE n <= 2;
        """
    )
    assert lineage(env._sql_session().written).splitlines()[1:] == [
        "  out.a from bids.auction",
        "  out.b from bids.price, sales.amount",
        "  out.c from bids.bidder",
        "  first.a from bids.auction",
        "  first.b from bids.price",
        "  first.c from bids.price",
    ]


def test_every_query_of_the_corpus_has_lineage() -> None:
    env = rh.Environment(runtime="simulated")
    registered(env)
    session = env._sql_session()
    for query in QUERIES.values():
        sql = SqlText(query.sql)
        [statement] = parse(sql)
        plan = session.planned(sql, statement, "forever")
        found = plan.origins()
        assert [*found] == [column.name for column in plan.columns]
        assert {table for of in found.values() for table, _ in of} <= {*session.catalog.names.values()}
