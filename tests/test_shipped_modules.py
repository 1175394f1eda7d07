"""Public modules use every module of the wheel: it holds no test generators and no dead code."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import SOURCES, source_trees

SOURCE = SOURCES.parent
PUBLIC = ("rheos", "rheos.__main__", "rheos.testing.servers", "rheos.testing.chaos")
"""Modules that users import by their names, in addition to the entry points in pyproject.toml."""
NOT_IMPORTED = {
    "rheos.ops.servers.clickhouse_front": "run as a file by rheos.ops.servers.clickhouse",
    "rheos.ops.servers.keeper": "run as a file by rheos.ops.servers.server",
}


def test_every_module_of_the_wheel_is_reached_from_a_public_one() -> None:
    files = {_name(file): file for file in source_trees()}
    reached: set[str] = set()
    waiting = [*PUBLIC, *_entry_points()]
    while waiting:
        module = waiting.pop()
        if module not in reached and module in files:
            reached.add(module)
            waiting += [*_named_in(files[module], module), module.rpartition(".")[0]]
    assert sorted({*files} - reached) == sorted(NOT_IMPORTED)


def _name(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _entry_points() -> Iterator[str]:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    for group in (project["scripts"], *project["entry-points"].values()):
        yield from (target.partition(":")[0] for target in group.values())


def _named_in(file: Path, module: str) -> Iterator[str]:
    """Yield the modules that a file imports, or names in a string, as `rheos.cli.replay_process` or
    with a class."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(source_trees()[file]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: 1 - node.level or None], *filter(None, [base])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]
            yield node.value.rpartition(".")[0]
