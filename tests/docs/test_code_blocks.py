"""No Python block of a page is overlooked: tests/equivalence runs every page on every runtime and
compares results with goldens; pages that are run elsewhere are listed there with the reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_pages_with_programs_are_run() -> None:
    pages = (ROOT / "tests/equivalence/pages.py").read_text()
    for page in PAGES:
        if "```python" in page.read_text():
            assert f'"{page.relative_to(ROOT)}"' in pages


def test_no_block_has_another_spelling_of_python() -> None:
    """Check that no block is marked as Python in another spelling."""
    for page in PAGES:
        marks = re.findall(r"^\s*```+ ?(\S+)", page.read_text(), re.MULTILINE)
        assert not {mark for mark in marks if mark.lower().startswith("py") and mark != "python"}, page
