"""Claims of pages and comments about the source tree are true: cited invariants are defined, ranges
extend to the last one, and named files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOLS = {"CP": "docs/protocols/checkpoints.md", "EX": "docs/protocols/exchange.md"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
TREE = {
    path.relative_to(ROOT).as_posix()
    for top in ("src", "tests", "docs", "benchmarks", "examples", "scripts", "deploy")
    for path in (ROOT / top).rglob("*")
}


def defined(kind: str) -> list[int]:
    text = (ROOT / PROTOCOLS[kind]).read_text()
    return [int(number) for number in re.findall(rf"^\*\*{kind}(\d+)\.", text, re.MULTILINE)]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_invariants_are_numbered_consecutively(kind: str) -> None:
    assert sorted(defined(kind)) == list(range(1, max(defined(kind)) + 1))


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_every_cited_invariant_is_defined(kind: str) -> None:
    known = set(defined(kind))
    for path in [*PAGES, *SOURCES]:
        cited = {int(number) for number in re.findall(rf"\b{kind}(\d+)\b", path.read_text())}
        assert cited <= known, path


def test_the_architecture_page_states_the_number_of_invariants() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    for kind in PROTOCOLS:
        ranges = re.findall(rf"\b{kind}(\d+) to {kind}(\d+)\b", text)
        named = {number for first, last in ranges for number in range(int(first), int(last) + 1)}
        assert named == set(defined(kind))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for named in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml))`", page.read_text()):
        assert any(f"/{path}".endswith(f"/{named}") for path in TREE), named
