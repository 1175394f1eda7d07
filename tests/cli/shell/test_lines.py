"""Where statements end, and completions of a word."""

from __future__ import annotations

import pytest

from rheos.cli.shell.prompt import completions, is_whole, statements

TABLES = {"bids": ["auction", "price"], "Users": ["id", "price"]}
COMMANDS = [".help", ".read"]


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], " SELECT 2"),
        ("SELECT ';' AS a; ", ["SELECT ';' AS a"], " "),
        ("SELECT 'it''s; so';x", ["SELECT 'it''s; so'"], "x"),
        (r"SELECT 'a\';b';x", [r"SELECT 'a\';b'"], "x"),
        ("SELECT `a;b`;", ["SELECT `a;b`"], ""),
        ("SELECT 1 -- not; here\n;", ["SELECT 1 -- not; here\n"], ""),
        ("/* ; */ SELECT 1;", ["/* ; */ SELECT 1"], ""),
        (";;SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 'open; ", [], "SELECT 'open; "),
    ],
)
def test_statements_end_with_a_semicolon(text: str, whole: list[str], rest: str) -> None:
    assert statements(text) == (whole, rest)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("SELECT 'a;", False),
        (".help", True),
        ("", True),
        ("-- nothing", True),
    ],
)
def test_input_is_executed_when_it_is_complete(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("SELECT pri", ["price"]),
        ("SELECT PRI", ["price"]),
        ("SELECT bids.", ["bids.auction", "bids.price"]),
        ("SELECT users.I", ["users.id"]),
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT * FROM us", ["Users"]),
        ("SELECT nowhere.", []),
        ("SELECT ", []),
        (".re", [".read"]),
    ],
)
def test_completions_of_the_word_at_the_cursor(before: str, found: list[str]) -> None:
    assert completions(before, TABLES, COMMANDS) == found
