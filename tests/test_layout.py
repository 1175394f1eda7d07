"""The README's commands are there, and the pages' links lead somewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def test_the_readme_opens_with_two_commands_that_can_be_run() -> None:
    first_block = (ROOT / "README.md").read_text().split("```")[1]
    commands = [line.split()[0] for line in first_block.strip().splitlines()]
    assert commands == ["scripts/flights", "scripts/test"]
    for command in commands:
        assert os.access(ROOT / command, os.X_OK)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall((ROOT / page).read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            headings = HEADING.findall(target.read_text())
            assert anchor in {slug(heading) for heading in headings}, f"{page}: {link}"


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
