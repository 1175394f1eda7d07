"""No modules import each other while they are imported themselves: then one of them is not complete."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.source_trees import SOURCES, source_trees


def test_no_modules_import_each_other() -> None:
    modules = {_name(file): tree for file, tree in source_trees().items()}
    imports = {
        name: {found for found in _imported(tree, modules) if found != name}
        for name, tree in modules.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"these import each other: {' -> '.join(error.args[1])}") from None


def _name(file: Path) -> str:
    parts = file.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules that are imported with this one, without those for type checking alone."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in modules)
            case ast.ImportFrom(module=str(package), names=names):
                for each in names:
                    within = f"{package}.{each.name}"
                    found = within if within in modules else package
                    if found in modules:
                        yield found
