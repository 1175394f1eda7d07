"""The parsed sources of Rheos, for tests that look for forms of code."""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "rheos"


@cache
def source_trees() -> Mapping[Path, ast.Module]:
    """Return the tree of each module of Rheos, by the file's path. They are parsed once per run.

    Garbage collection leaves out these 2.4 million objects: each full one would take over a second.
    """
    gc.collect()
    gc.disable()
    try:
        trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}
        gc.freeze()
    finally:
        gc.enable()
    return trees
