"""Each connector has a program of at most 20 lines in the documentation, which a test runs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rheos.connectors.registration import CONNECTORS
from tests.equivalence import pages

DOCS = Path(__file__).parents[2] / "docs"
TESTS = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(?:python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_LINES = 20
SCRIPT = "sql-scripts.md"

PROGRAMS = {"files": "guide.md", "print": SCRIPT}
"""Pages with the programs of connectors that have none on their own page."""
SCRIPTS = {
    f"docs/{SCRIPT}": "tests/docs/test_sql_scripts.py",
    "docs/hbase.md": "tests/docs/test_hbase.py",
}
"""Pages whose programs are scripts in SQL, and the tests that run them."""


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
    registered = CONNECTORS.find(name)
    assert registered is not None
    page = PROGRAMS.get(name, registered.docs)
    assert page in found, f"no program of {page} uses {name}; other pages are {sorted({*found})}"
    where = {**pages.ELSEWHERE, **SCRIPTS}.get(f"docs/{page}")
    if where is None:
        assert f"docs/{page}" in pages.pages(), "tests/equivalence runs the programs of a page"
    else:
        [test] = re.findall(r"tests/docs/test_\w+\.py", where)
        assert page in (TESTS.parent / test).read_text()
