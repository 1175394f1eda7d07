"""Tests that lists, pages and scripts name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.long_tests import listed_name, long_tests

ROOT = Path(__file__).parents[1]
TEXTS = [
    *(page for folder in ("docs", "deploy", "examples", ".") for page in (ROOT / folder).glob("*.md")),
    *(ROOT / "docs").glob("*/*.md"),
    *(path for path in (ROOT / "scripts").iterdir() if path.is_file()),
    ROOT / "pyproject.toml",
]
READERS = frozenset({"tests/test_limit.py", "tests/test_balance.py", "tests/test_missing.py"})
"""Tests that pages write into the reader's own project."""
NAMED = re.compile(r"\btests/[\w/]+\.py(?:::\w+)*")


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the node ids of the functions, classes and methods of a file, and of assigned classes."""

    def below(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
        for each in node.body:
            match each:
                case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                    yield f"{prefix}::{name}"
                case ast.ClassDef(name=name):
                    yield f"{prefix}::{name}"
                    yield from below(each, f"{prefix}::{name}")

    file = ROOT / path
    return frozenset(below(ast.parse(file.read_text()), path)) if file.is_file() else frozenset()


def exists(node_id: str) -> bool:
    """Return whether a node id names a file, or something in it; `runTest` belongs to any class."""
    path, _, name = node_id.removesuffix("::runTest").partition("::")
    return (ROOT / path).is_file() if not name else f"{path}::{name}" in names_in(path)


def node_id_of(listed: str) -> str:
    """Return the pytest node id of a name of the list of long tests."""
    path, _, function = listed.partition("::")
    module, _, inner = path.partition(".Test")
    return "::".join([f"{module.replace('.', '/')}.py", *([f"Test{inner}"] if inner else []), function])


def test_every_long_test_exists() -> None:
    missing = [name for name in sorted(long_tests()) if not exists(node_id_of(name))]
    assert missing == [], "rename them in tests/long_tests.txt, too"


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_a_text_names_exists(text: Path) -> None:
    named = NAMED.findall(text.read_text())
    assert [name for name in named if not exists(name) and name not in READERS] == []


@pytest.mark.parametrize(
    "listed", ["tests.sql.test_corpus::test_a", "tests.sql.test_corpus.TestB::test_a"]
)
def test_listed_names_are_those_of_pytest(listed: str) -> None:
    assert listed_name(f"{node_id_of(listed)}[case]") == listed


def test_a_missing_test_is_noticed() -> None:
    here = f"tests/{Path(__file__).name}"
    assert exists(f"{here}::test_a_missing_test_is_noticed")
    assert not exists(f"{here}::test_nothing")
    assert not exists("tests/test_nothing.py")
