"""The README's commands are there, the pages' links lead somewhere, and a name means one thing."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.source_trees import source_trees

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def test_the_readme_opens_with_two_commands_that_can_be_run() -> None:
    first_block = (ROOT / "README.md").read_text().split("```")[1]
    commands = [line.split()[0] for line in first_block.strip().splitlines()]
    assert commands == ["scripts/flights", "scripts/test"]
    for command in commands:
        assert os.access(ROOT / command, os.X_OK)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall(CODE.sub("", (ROOT / page).read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            headings = HEADING.findall(target.read_text())
            assert anchor in {slug(heading) for heading in headings}, f"{page}: {link}"


def test_every_page_has_its_place_in_the_site() -> None:
    """`scripts/docs` builds it, which takes longer than all of this file."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    api = (ROOT / "docs/api.md").read_text()
    sections = re.findall(r"^## (.+)$", api, re.MULTILINE)
    made = {"index.md", "CHANGELOG.md", "CONTRIBUTING.md"} | {
        f"reference/{slug(section)}.md" for section in sections
    }
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    assert sorted(named) == sorted(pages | made), "each page is named once under `nav` in mkdocs.yml"


def test_no_docstring_links_to_a_page() -> None:
    """The site has docstrings in a folder of their own, where a page's name leads nowhere: it would not
    be built."""
    linking = [
        file for file in (ROOT / "src").rglob("*.py") if re.search(r"\]\([^)]*\.md", file.read_text())
    ]
    assert linking == []


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_no_two_public_classes_have_one_name() -> None:
    """Who searches for a class finds it, and two of one name in a file are no riddle."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in source_trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
