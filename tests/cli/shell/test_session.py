"""Effect of statements in a shell, in virtual time."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import rheos as rh
from rheos.cli.shell.session import ShellSession
from rheos.runtimes.job import JobState
from rheos.sql.first_rows import ORDER

VALUES = "(VALUES ('tea', 3), ('jam', 5), ('tea', 4)) AS bids(item, price)"


class Shell:
    """Shell whose output is a string."""

    def __init__(self, *, live: bool = False) -> None:
        self._out = io.StringIO()
        env = rh.Environment(runtime="simulated")
        self.session = ShellSession(env, Console(file=self._out, width=100), live=live)

    def said(self, text: str, file: str | None = None) -> list[str]:
        """Return the lines that a statement prints."""
        begin = len(self._out.getvalue())
        self.session.run(text, file)
        return self._out.getvalue()[begin:].splitlines()


def test_a_query_prints_its_table() -> None:
    assert Shell().said(f"SELECT item, price * 2 AS twice FROM {VALUES} WHERE price > 3;") == [
        "item  twice",
        "----  -----",
        "jam      10",
        "tea       8",
        "(2 rows)",
    ]


@pytest.mark.parametrize("live", [True, False])
def test_rows_are_in_order(live: bool) -> None:
    items = ["cup", "jam", "tea"]
    values = "(VALUES ('tea', 3), ('jam', 5), ('cup', 9), ('tea', 4)) AS bids(item, price)"
    queries = {
        f"SELECT item FROM {values} ORDER BY price": ["tea", "tea", "jam", "cup"],
        f"SELECT item FROM {values} GROUP BY item ORDER BY SUM(price) DESC": ["cup", "tea", "jam"],
        f"SELECT item FROM {values} ORDER BY price DESC LIMIT 2": ["cup", "jam"],
        f"SELECT item FROM {values} ORDER BY (SELECT 1), price LIMIT 3": ["tea", "tea", "jam"],
        f"((SELECT item FROM {values} ORDER BY price DESC))": ["cup", "jam", "tea", "tea"],
        f"SELECT item FROM {values} ORDER BY CAST(item AS BINARY) DESC": ["tea", "tea", "jam", "cup"],
        f"SELECT item FROM {values} ORDER BY CAST(item AS BINARY) LIMIT 2": ["cup", "jam"],
        f"SELECT item FROM {values} ORDER BY ALL DESC LIMIT 3": ["tea", "tea", "jam"],
    }
    for query, expected in queries.items():
        lines = Shell(live=live).said(query)
        assert [line for line in lines if line in items] == expected
        assert not any("note" in line for line in lines)


def test_rows_cannot_be_in_the_order_of_maps() -> None:
    with pytest.raises(rh.ProgramError, match="cannot be ordered by MAP") as caught:
        Shell().said(f"SELECT item FROM {VALUES} ORDER BY MAP(item, price)")
    assert caught.value.hint == "order by a part of the value, or CAST it to another type"


class EndlessQuery:
    """Handle of a query without an end, of which the test sees the first rows."""

    state = JobState.RUNNING

    def __init__(self, **columns: list[object]) -> None:
        self.collected = {"result": pa.table({**columns, ORDER: ["2", "3", "1"]})}

    def wait(self, timeout_s: float | None = None) -> EndlessQuery:
        return self

    status = wait

    def cancel(self) -> None:
        pass


def shown_without_end(
    query: str, handle: EndlessQuery, monkeypatch: pytest.MonkeyPatch, *, live: bool
) -> list[str]:
    monkeypatch.setattr(ShellSession, "_started", lambda session, what: handle)
    shell = Shell(live=live)
    shell.said("CREATE TABLE bids (n BIGINT) WITH ('connector' = 'datagen')")
    return shell.said(query)


@pytest.mark.parametrize("live", [True, False])
def test_rows_of_a_query_without_an_end_are_not_sorted(
    live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "(SELECT n FROM bids ORDER BY n)"
    lines = shown_without_end(query, EndlessQuery(n=[7, 9, 8]), monkeypatch, live=live)
    assert "ORDER BY sorts no rows: the query does not end" in lines[0]
    assert [line.strip() for line in lines if line.strip().isdigit()] == ["7", "9", "8"]


def test_order_by_with_limit_has_an_effect_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT n FROM bids ORDER BY n LIMIT 3"
    rows = EndlessQuery(n=[7, 9, 8], op=["insert"] * 3)
    lines = shown_without_end(query, rows, monkeypatch, live=False)
    assert sorted(lines[0].split()) == ["n", "op"]
    assert len(lines) == 4


def test_changes_are_applied() -> None:
    lines = Shell().said(f"SELECT item, COUNT(*) AS n FROM {VALUES} GROUP BY item")
    assert sorted(lines[2:4]) == ["jam   1", "tea   2"]


def test_tables_and_columns_are_shown(tmp_path: Path) -> None:
    shell = Shell()
    shell.said(
        f"""
        CREATE TABLE hits (page STRING NOT NULL, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'files', 'path' = '{tmp_path}/*.jsonl', 'format' = 'jsonl');
        CREATE VIEW pages AS SELECT item, COUNT(*) AS n FROM {VALUES} GROUP BY item;
        """
    )
    assert shell.said("SHOW TABLES") == [
        "hits   table, connector 'files'",
        "pages  view, upserts by item",
    ]
    assert shell.said("DESCRIBE hits") == ["page  STRING, NOT NULL", "at    TIMESTAMP, event time"]
    assert shell.said("DESC TABLE pages") == ["item  STRING, key", "n     BIGINT"]
    assert shell.session.tables() == {"hits": ["page", "at"], "pages": ["item", "n"]}


def test_explain_shows_the_plans_and_runs_nothing() -> None:
    text = "\n".join(Shell().said(f"EXPLAIN SELECT item, COUNT(*) AS n FROM {VALUES} GROUP BY item;"))
    assert "emits upserts by item: item STRING, n BIGINT" in text
    assert "Plan of 'explain'" in text


def test_insert_into_starts_a_background_job(tmp_path: Path) -> None:
    shell = Shell()
    shell.said(
        f"""
        CREATE TABLE dear (item STRING, price BIGINT)
        WITH ('connector' = 'files', 'path' = '{tmp_path}/dear', 'format' = 'jsonl');
        INSERT INTO dear SELECT item, price FROM {VALUES} WHERE price > 3;
        """
    )
    shell.session.close(cancel=False)
    written = [
        json.loads(line)
        for file in (tmp_path / "dear").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["item"] for row in written) == ["jam", "tea"]
    assert shell.session.failures() == []


def test_jobs_run_side_by_side_and_report_their_end(tmp_path: Path) -> None:
    shell = Shell()
    assert shell.session._env._config.extra_slots == 4 * (shell.session._env._parallelism + 1)
    ended = threading.Event()
    shell.session.job_ended = ended.set
    (tmp_path / "views.jsonl").write_text("rubbish\n")
    shell.said(
        f"""
        CREATE TABLE views (page STRING) WITH ('connector' = 'files', 'path' = '{tmp_path}/*.jsonl');
        CREATE TABLE seen (page STRING) WITH ('connector' = 'print');
        INSERT INTO seen SELECT page FROM views;
        """
    )
    assert ended.wait(60)
    [(name, error)] = shell.session.failures()
    assert name == "sql-insert-1"
    assert "views.jsonl:1" in str(error)


def test_errors_in_a_file_have_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text("CREATE VIEW one AS SELECT 1 AS a;\nCREATE VIEW two AS\nSELECT b FROM one;\n")
    shell = Shell()
    with pytest.raises(rh.RheosError) as caught:
        shell.said(f".read {file}")
    assert str(caught.value).startswith(f"{file}:3: unknown column 'b'")
    assert shell.said("SELECT a FROM one")[2] == "1"


def test_an_error_is_underlined_and_the_shell_continues() -> None:
    shell = Shell()
    with pytest.raises(rh.RheosError) as caught:
        shell.said("SELECT 1 AS a,\n  nope\nFROM (VALUES (1)) AS t(b);")
    assert str(caught.value).splitlines()[0] == "sql:2: unknown column 'nope'"
    assert str(caught.value).splitlines()[-1] == "  |   ^^^^"
    assert shell.said("SELECT 2 AS a")[2] == "2"


def test_commands_are_executed(tmp_path: Path) -> None:
    shell = Shell()
    assert "Statements end with a semicolon" in "\n".join(shell.said(".help"))
    assert shell.said(".jobs") == ["no jobs are running"]
    with pytest.raises(rh.ConfigurationError, match=r"unknown command \.halp"):
        shell.said(".halp")
    with pytest.raises(rh.ConfigurationError, match="cannot be read"):
        shell.said(f".read {tmp_path}/nothing.sql")
    shell.said(".quit")
    assert shell.session.ended
