"""The tour names symbols that exist, and the overview stays short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYMBOL = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py):([A-Za-z_.]+)`")
SYMBOLS = sorted(set(SYMBOL.findall((ROOT / "docs/tour.md").read_text())))
MOST_WORDS = 2_800
"""Number of words of the architecture page, at most."""
MOST_WORDS_OF_A_CELL = 40


def test_the_tour_has_symbols() -> None:
    assert len(SYMBOLS) > 40


@pytest.mark.parametrize(("file", "symbol"), SYMBOLS, ids=lambda part: part)
def test_a_symbol_of_the_tour_exists(file: str, symbol: str) -> None:
    names: list[ast.stmt] = ast.parse((ROOT / "src/rheos" / file).read_text()).body
    for part in symbol.split("."):
        found = [node for node in names if getattr(node, "name", None) == part]
        assert found, f"docs/tour.md names {file}:{symbol}, but {part!r} does not exist there"
        names = getattr(found[0], "body", [])


def test_the_architecture_page_is_an_overview() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    assert len(text.split()) <= MOST_WORDS, "move details to docs/internals.md, or to docstrings"


@pytest.mark.parametrize("page", ["architecture", "glossary", "internals"])
def test_a_cell_of_a_table_is_short(page: str) -> None:
    lines = (ROOT / f"docs/{page}.md").read_text().splitlines()
    cells = [cell for line in lines if line.startswith("|") for cell in line.split("|")]
    assert [cell for cell in cells if len(cell.split()) > MOST_WORDS_OF_A_CELL] == []
