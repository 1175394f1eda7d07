"""SQL builds programs with public methods, and imports inside functions have a stated reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import rheos

SOURCES = Path(rheos.__file__).parent

LAZY_IMPORTS = {
    ("api/program_plans.py", "rheos.runtimes.batch.lazy_dataframes"): "imports Spark",
    ("api/program_plans.py", "rheos.runtimes.batch.runtime"): "imports Spark",
    ("api/program_plans.py", "rheos.runtimes.spark.session"): "imports Spark",
    ("api/environment.py", "rheos.sql.session"): "needs the extra rheos[sql]",
    ("api/function_methods.py", "rheos.api.async_functions"): "start-up time: asynchronous functions",
    ("api/keyed_stream.py", "rheos.api.once_calls"): "start-up time: asynchronous functions",
    ("api/lookup_tables.py", "rheos.connectors.spark.collecting"): "imports Spark",
    ("api/program_file.py", "rheos.api.environment"): "start-up time: the command line",
    ("api/program_file.py", "rheos.sql.folders"): "needs the extra rheos[sql]",
    ("api/runtime_choice.py", "rheos.ops.control.controlled_jobs"): "start-up time: the control server",
    ("api/runtime_choice.py", "rheos.runtimes.simulated.runtime"): "start-up time: only simulated jobs",
    ("api/runtime_choice.py", "rheos.runtimes.spark"): "imports Spark",
    ("api/streams.py", "rheos.api.keyed_stream"): "start-up time: programs with keys",
    ("api/streams.py", "rheos.api.whole_stream_windows"): "start-up time: programs with windows",
    ("api/streams.py", "rheos.api.window_configuration"): "start-up time: programs with windows",
}
"""Modules of Rheos that a function imports, with the reason."""


def test_sql_uses_public_attributes_of_other_objects() -> None:
    found = [place for path in modules("sql") for place in private_uses(path.read_text(), path.name)]
    assert found == [], "add what SQL needs to rheos.api.transformations"


def test_the_check_finds_private_attributes_of_others() -> None:
    text = (
        "stream._then(1)\nself._mine\ncls._made\nself._env._program\ncalled()._typed(2)\nrow.__class__"
    )
    assert private_uses(text, "a.py") == ["a.py:1 _then", "a.py:4 _program", "a.py:5 _typed"]


def test_each_import_inside_a_function_has_a_reason() -> None:
    found = {
        (str(path.relative_to(SOURCES)), module)
        for wing in ("api", "sql")
        for path in modules(wing)
        for module in lazy_imports(ast.parse(path.read_text()))
    }
    assert found == set(LAZY_IMPORTS), "import at the top of the module, or state a reason here"


def test_modules_of_the_api_import_in_one_direction() -> None:
    """The contract in pyproject.toml ignores imports of annotations, which do not run."""
    imports = {
        f"rheos.api.{path.stem}": {*eager_imports(ast.parse(path.read_text()))}
        for path in modules("api")
    }
    graph = {name: found & imports.keys() for name, found in imports.items()}
    order = [*TopologicalSorter(graph).static_order()]
    below = order.index("rheos.api.transformations")
    assert below < min(order.index("rheos.api.keyed_stream"), order.index("rheos.api.streams"))


def modules(wing: str) -> list[Path]:
    return sorted((SOURCES / wing).rglob("*.py"))


def private_uses(text: str, name: str) -> list[str]:
    """Return each use of a private attribute that the module itself does not define.

    A class may use those of its bases through `self`, `cls` and `super()`."""
    nodes = [*ast.walk(ast.parse(text))]
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    uses = sorted(
        (node.lineno, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    )
    return [f"{name}:{line} {attribute}" for line, attribute in uses]


def eager_imports(tree: ast.Module) -> Iterator[str]:
    """Yield each module that is imported when this one is, except for annotations alone."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def lazy_imports(tree: ast.Module) -> Iterator[str]:
    """Yield each module of Rheos that is imported inside a function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rheos"):
                    yield node.module
                elif isinstance(node, ast.Import):
                    yield from (each.name for each in node.names if each.name.startswith("rheos"))
