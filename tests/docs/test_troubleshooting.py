"""Each error, finding and message that a page quotes is one that the sources have."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.source_trees import source_trees

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
QUOTED = re.findall(r"\*\*`([^`]+)`\*\*", PAGE)
MESSAGES = re.findall(r"^\| \*([^*|]+)\* \|", (ROOT / "docs/why.md").read_text(), re.MULTILINE)
FINDINGS = re.findall(r"^> (.+)$", (ROOT / "docs/drill.md").read_text(), re.MULTILINE)
"""Whole findings, with example values."""
LITERAL_CHARS = 14
"""Minimum length of the constant part of a string that may explain a finding."""
NOTHING = "\N{REPLACEMENT CHARACTER}"


@cache
def strings() -> list[str]:
    """The strings of the sources. The values that f-strings format are left out of them."""
    found = []
    for tree in source_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", NOTHING) for part in node.values]
                found.append("".join(part if isinstance(part, str) else NOTHING for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


@cache
def quotation(line: str) -> re.Pattern[str]:
    pattern = ".*".join(map(re.escape, line.split("…")))
    return re.compile(pattern.replace("Spark", f"(?:Spark|{NOTHING})"))


def matches(line: str, text: str) -> bool:
    return quotation(line).search(text) is not None


@pytest.mark.parametrize("line", QUOTED)
def test_an_error_that_the_page_quotes_exists(line: str) -> None:
    assert any(matches(line, text) for text in strings()), f"no string of src has {line!r}"


def test_the_page_quotes_errors() -> None:
    assert len(QUOTED) > 12
    assert not matches("no such … error", "no error")


@pytest.mark.parametrize("line", MESSAGES)
def test_a_message_of_why_that_the_page_quotes_exists(line: str) -> None:
    assert any(matches(line, text) for text in strings())


def explains(text: str, line: str) -> bool:
    """Return whether the line begins with the string, with values in it."""
    parts = text.split(NOTHING)
    if not line.startswith(parts[0]) or sum(map(len, parts)) < LITERAL_CHARS:
        return False
    return re.match(".+?".join(map(re.escape, parts)), line) is not None


@pytest.mark.parametrize("line", FINDINGS)
def test_a_finding_that_the_page_quotes_exists(line: str) -> None:
    assert any(explains(text, line) for text in strings())


def test_the_pages_quote_messages_and_findings() -> None:
    assert (len(MESSAGES), len(FINDINGS)) == (5, 6)
    assert not explains(f"the disk has been full for {NOTHING} s", "the disk is full for 4 s")
