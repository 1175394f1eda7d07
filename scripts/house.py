"""Prints the measures of how well the tree can be read, next to those of the tree before the wings.

usage: python scripts/house.py [TREE]

Each measure counts something that a newcomer meets: names, files, mechanisms. None of them needs Rheos
installed: the sources are parsed, not imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Tree:
    """The sources and pages below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src" / "rheos"

    @cache  # noqa: B019
    def modules(self) -> dict[str, ast.Module]:
        """Return the syntax of each module, by its path below `src/rheos`."""
        return {
            str(file.relative_to(self.source)): ast.parse(file.read_text())
            for file in sorted(self.source.rglob("*.py"))
        }

    def calls_of(self, name: str) -> Iterator[str]:
        """Yield the path of a module for each call of `name` in it."""
        for path, module in self.modules().items():
            for node in ast.walk(module):
                if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name:
                    yield path


def rooms(tree: Tree) -> int:
    """Number of entries in `src/rheos`, not counting `__init__.py`, `__main__.py` and `py.typed`."""
    return sum(not entry.name.startswith(("__", "py.")) for entry in tree.source.iterdir())


def lines(tree: Tree) -> int:
    """Number of lines in `src`, of Python alone."""
    return sum(len(file.read_text().splitlines()) for file in tree.source.rglob("*.py"))


def statements(node: ast.AST) -> list[ast.stmt]:
    """Return the statements of a block; none for other nodes."""
    body = getattr(node, "body", None)
    return body if isinstance(body, list) else []


def lines_of_code(tree: Tree) -> int:
    """Count lines with code: neither docstrings, nor comments, nor blank lines."""
    found = 0
    for path, module in tree.modules().items():
        described: set[int] = set()
        for node in ast.walk(module):
            for each in statements(node):
                match each:
                    case ast.Expr(value=ast.Constant(value=str())):
                        described |= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
        for number, line in enumerate((tree.source / path).read_text().splitlines(), 1):
            code = line.strip()
            found += bool(code) and not code.startswith("#") and number not in described
    return found


def shared_names(tree: Tree) -> str:
    """The module names that most packages use, of those that say what is in a module."""
    usual = {
        "__init__",
        "contract",
        "source",
        "sink",
        "errors",
        "lookup",
        "connection",
        "server",
        "registration",
    }
    counted = Counter(Path(path).stem for path in tree.modules() if Path(path).stem not in usual)
    return ", ".join(f"{name} {n}x" for name, n in counted.most_common(4))


def contexts(tree: Tree) -> int:
    """Number of places that build an `OperatorContext`."""
    return len(list(tree.calls_of("OperatorContext")))


def matches_over_operators(tree: Tree) -> int:
    """Number of modules outside `operators/` that match over kinds of operator specs."""
    # A `ToOperator` is the destination of an output, whatever kind of operator is there.
    kinds = re.compile(r"^(\w+Spec|(?!To)\w*Operator)$")
    found = set()
    for path, module in tree.modules().items():
        if "operators/" in path or path.startswith("testing/"):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.MatchClass) and kinds.match(ast.unparse(node.cls)):
                found.add(path)
    return len(found)


def lazy_imports(tree: Tree) -> int:
    """Number of imports inside functions of `api/` and `sql/` that name a module of the two."""
    return sum(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("rheos.api", "rheos.sql"))
        for path, module in tree.modules().items()
        if path.startswith(("api/", "sql/"))
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    )


def private_use(tree: Tree) -> int:
    """Number of places in `sql/` that use a private name which their module does not define."""
    found = 0
    for path, module in tree.modules().items():
        if path.startswith("sql/"):
            nodes = [*ast.walk(module)]
            own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
            found += sum(
                isinstance(node, ast.Attribute)
                and re.match(r"_[a-z]", node.attr) is not None
                and node.attr not in own
                and ast.unparse(node.value) not in ("self", "cls", "super()")
                for node in nodes
            )
    return found


def optional_asserts(tree: Tree) -> int:
    """Number of `assert ... is not None` in the modules of `task/` that run a chain."""
    return sum(
        isinstance(node, ast.Assert) and ast.unparse(node.test).endswith("is not None")
        for path, module in tree.modules().items()
        if re.search(r"task/\w*chain\w*\.py$", path)
        for node in ast.walk(module)
    )


def generators_of_tests(tree: Tree) -> int:
    """Number of modules in the wheel that draw programs, inputs or worlds for tests."""
    return sum(
        re.search(r"^testing/(drawn_\w+|\w*programs?|worlds)\.py$", path) is not None
        for path in tree.modules()
    )


def words_of_architecture(tree: Tree) -> int:
    """Number of words in docs/architecture.md."""
    return len((tree.root / "docs" / "architecture.md").read_text().split())


def longest_module(tree: Tree) -> str:
    """The longest module."""
    found = {path: len((tree.source / path).read_text().splitlines()) for path in tree.modules()}
    path = max(found, key=lambda each: found[each])
    return f"{found[path]} ({path})"


class Measure(NamedTuple):
    what: str
    before: str
    """In the tree before the wings."""
    count: Callable[[Tree], int | str]


MEASURES = (
    Measure("entries in src/rheos", "45", rooms),
    Measure("lines of Python in src", "155384", lines),
    Measure("lines of code in src, without docstrings and comments", "109630", lines_of_code),
    Measure("names of several modules", "tables 7x, changes 5x, columns 5x, keys 5x", shared_names),
    Measure("longest module", "906 (api/streams.py)", longest_module),
    Measure("places that build an OperatorContext", "7", contexts),
    Measure("modules outside operators/ that match over operators", "9", matches_over_operators),
    Measure("imports inside functions between api and sql", "9", lazy_imports),
    Measure("private names of others that sql uses", "39", private_use),
    Measure("assert ... is not None in the runners of chains", "12", optional_asserts),
    Measure("test generators in the wheel", "14", generators_of_tests),
    Measure("words in docs/architecture.md", "10187", words_of_architecture),
)


def main(root: Path) -> None:
    tree = Tree(root)
    print(f"{'measure':56} {'before':>36} {'today':>36}")
    for measure in MEASURES:
        print(f"{measure.what:56} {measure.before:>36} {measure.count(tree)!s:>36}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
