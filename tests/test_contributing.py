"""The table of CONTRIBUTING.md says where a new thing goes, and each of its rows names a test of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
TABLE = TEXT[TEXT.index("| you want to add") :].partition("\n\n")[0].splitlines()[2:]
ROWS = {
    cells[0]: cells for line in TABLE if (cells := [cell.strip() for cell in line.split("|")[1:-1]])
}
KINDS = (
    *("an operator", "an aggregate", "a kind of state", "a kind of window", "a source or sink"),
    *("a format", "a server for development", "a function of SQL", "a command", "a setting"),
    *("an operation of running jobs", "a node of SQL plans"),
)
"""What a test adds, to count the places outside its own file."""


def test_every_kind_has_a_row() -> None:
    assert set(KINDS) <= set(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_a_test_that_exists(row: str) -> None:
    _, _, _, shown = ROWS[row]
    tests = re.findall(r"`(tests/[\w/]+\.py)`", shown)
    assert tests, f"the row of {row} names no test"
    for test in tests:
        tree = ast.parse((ROOT / test).read_text())
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith("test_") for name in names), test


@pytest.mark.parametrize("row", ROWS)
def test_each_place_in_a_row_exists(row: str) -> None:
    """Names with <name> are new; the folder of each is there."""
    _, where, register, _ = ROWS[row]
    for place in re.findall(r"`([\w/<>]+(?:/|\.(?:py|js|toml)))`", f"{where} {register}"):
        known = place.partition("<")[0].rpartition("/")[0] if "<" in place else place
        if place == "registration.py":
            continue
        roots = (ROOT, ROOT / "src" / "rheos")
        assert any((root / known).exists() for root in roots), f"{row}: {place}"
