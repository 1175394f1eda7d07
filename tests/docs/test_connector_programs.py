"""Each connector has a program of at most 20 lines in the documentation, which a test runs."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from pathlib import Path

import pytest

import rheos as rh
from rheos.connectors.registration import CONNECTORS
from tests.equivalence import pages

DOCS = Path(__file__).parents[2] / "docs"
TESTS = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(?:python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_LINES = 20
SCRIPT = "sql-scripts.md"

PROGRAMS = {"files": "guide.md", "print": SCRIPT}
"""Pages with the programs of connectors that have none on their own page."""
RUN_HERE = {SCRIPT}
WITHOUT = {
    "http": "its pages show parts of programs, which never end",
    "socket": "its pages show parts of programs, which never end",
    "opensearch": "its page shows parts of programs",
    "cassandra": "its page shows parts of programs",
    "upsert-kafka": "its tests have programs, but no page",
    "postgres-cdc": "its tests have programs, but no page",
    "mysql-cdc": "its tests have programs, but no page",
}
"""Connectors that have no such program yet, and why."""


@cache
def programs() -> list[tuple[str, str]]:
    """Return the programs of at most 20 lines, with the names of their pages."""
    found = []
    for page in DOCS.rglob("*.md"):
        for code in BLOCK.findall(page.read_text()):
            lines = sum(bool(line.strip()) for line in code.splitlines())
            if lines <= MOST_LINES and ("execute(" in code or "INSERT INTO" in code):
                found.append((page.name, code))
    return found


def pages_with(name: str) -> list[str]:
    """Return the pages that have such a program with a connector."""
    marks = (f"rh.{name}.", f"'connector' = '{name}'", f".{name}(")
    return [page for page, code in programs() if any(mark in code for mark in marks)]


@pytest.mark.parametrize("name", CONNECTORS.built_in)
def test_a_connector_has_a_program_of_at_most_20_lines(name: str) -> None:
    found = pages_with(name)
    if name in WITHOUT:
        assert not found, f"move {name} to PROGRAMS: {found}"
        return
    registered = CONNECTORS.find(name)
    assert registered is not None
    page = PROGRAMS.get(name, registered.docs)
    assert page in found, f"no program of {page} uses {name}; other pages are {sorted({*found})}"
    if page in RUN_HERE:
        return
    where = pages.ELSEWHERE.get(f"docs/{page}")
    if where is None:
        assert f"docs/{page}" in pages.pages(), "tests/equivalence runs the programs of a page"
    else:
        [test] = re.findall(r"tests/docs/test_\w+\.py", where)
        assert page in (TESTS.parent / test).read_text()


def test_the_script_without_a_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / SCRIPT).read_text()
    [script] = re.findall(r"<!-- file: numbers.sql -->\n```sql\n(.*?)```", text, re.DOTALL)
    env = rh.Environment(2, runtime="simulated", checkpoint_dir=str(tmp_path / "checkpoints"))
    env.sql_script(script)
    env.execute("numbers")
    rows = sqlite3.connect("numbers.db").execute("SELECT n FROM numbers ORDER BY n").fetchall()
    assert rows == [(n,) for n in range(1, 101)]
    lines = [
        line for path in (tmp_path / "numbers").rglob("*.csv*") for line in path.read_text().split()
    ]
    assert sorted(int(line.split(",")[0]) for line in lines) == [*range(1, 101)]
    shown = capsys.readouterr().out
    assert "99" in shown
    assert "100" in shown
