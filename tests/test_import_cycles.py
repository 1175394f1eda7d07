"""No modules import each other while they are imported themselves: then one of them is not complete."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"


def test_no_modules_import_each_other() -> None:
    modules = {_name(file): file for file in SOURCES.rglob("*.py")}
    imports = {
        name: {found for found in _imported(file, modules) if found != name}
        for name, file in modules.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"these import each other: {' -> '.join(error.args[1])}") from None


def _name(file: Path) -> str:
    parts = file.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(file: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that are imported with this one, without those for type checking alone."""
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in modules)
            case ast.ImportFrom(module=str(package), names=names):
                for each in names:
                    within = f"{package}.{each.name}"
                    found = within if within in modules else package
                    if found in modules:
                        yield found
