"""Each error that docs/troubleshooting.md quotes is one that the sources raise."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
QUOTED = re.findall(r"\*\*`([^`]+)`\*\*", PAGE)
NOTHING = "\N{REPLACEMENT CHARACTER}"


@cache
def strings() -> list[str]:
    """The strings of the sources. The values that f-strings format are left out of them."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", NOTHING) for part in node.values]
                found.append("".join(part if isinstance(part, str) else NOTHING for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def matches(line: str, text: str) -> bool:
    pattern = ".*".join(map(re.escape, line.split("…")))
    return re.search(pattern.replace("Spark", f"(?:Spark|{NOTHING})"), text) is not None


@pytest.mark.parametrize("line", QUOTED)
def test_an_error_that_the_page_quotes_exists(line: str) -> None:
    assert any(matches(line, text) for text in strings()), f"no string of src has {line!r}"


def test_the_page_quotes_errors() -> None:
    assert len(QUOTED) > 12
    assert not matches("no such … error", "no error")
