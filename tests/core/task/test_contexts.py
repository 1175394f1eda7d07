"""Every host of operators gets their contexts from one factory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rheos

SRC = Path(rheos.__file__).parent


def constructed_in(name: str) -> Iterator[str]:
    """Return each module that calls `name`, once for each call."""
    for path in sorted(SRC.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if name not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                called = node.func
                if name in (getattr(called, "id", None), getattr(called, "attr", None)):
                    yield path.relative_to(SRC).as_posix()


def test_contexts_of_operators_are_made_in_one_place() -> None:
    assert list(constructed_in("OperatorContext")) == ["core/task/contexts.py"]
