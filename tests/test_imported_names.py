"""Each name that a benchmark, a script or an example imports from Rheos exists, also after a rename."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    file for folder in ("benchmarks", "scripts", "examples") for file in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_imported_names_exist(file: Path) -> None:
    missing = [
        f"{node.lineno}: {node.module}.{alias.name}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rheos"
        for alias in node.names
        if not exists(str(node.module), alias.name)
    ]
    assert missing == []


def exists(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
