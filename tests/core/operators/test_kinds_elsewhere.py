"""No module outside `core/operators` tests the kind of an operator: specs declare their properties."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from rheos.core.operators.contract import OperatorSpec
from tests.core.operators.test_bounds import kinds
from tests.source_trees import SOURCES, source_trees

ENDS = {"SourceSpec", "SinkSpec"}
"""The ends of a program. Runtimes open their connectors, so they may look for these."""


def asked(tree: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each test for one of these classes."""
    for node in ast.walk(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.MatchClass):
            found = [node.cls]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            found = [node.args[1]]
        for part in (part for each in found for part in ast.walk(each)):
            name = getattr(part, "id", getattr(part, "attr", None))
            if name in names:
                yield node.lineno if hasattr(node, "lineno") else found[0].lineno, name  # type: ignore[attr-defined]


def test_no_module_tests_the_kind_of_an_operator() -> None:
    names = {kind.__name__ for kind in kinds()} - ENDS
    assert {"WindowSpec", "ExpressionSpec", "IntervalJoinSpec", "ColumnSelectionSpec"} <= names
    found = [
        f"{path}:{line}: {name}"
        for path, tree in source_trees().items()
        if not path.is_relative_to(SOURCES / "core" / "operators")
        for line, name in asked(tree, names)
    ]
    assert not found, "make it a method of OperatorSpec:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(spec, MapSpec)",
        "isinstance(spec, nodes.MapSpec | str)",
        "isinstance(spec, (int, MapSpec))",
        "match spec:\n    case MapSpec(flat=True) | int():\n        pass",
    ],
)
def test_the_scan_finds_tests_of_kinds(code: str) -> None:
    assert [name for _, name in asked(ast.parse(code), {"MapSpec"})] == ["MapSpec"]


@pytest.mark.parametrize("method", ["row_order", "origin"])
def test_every_operator_declares_its_description(method: str) -> None:
    """Check that no operator of Rheos relies on the default, which is safe but vague."""
    silent = [
        kind.__name__ for kind in kinds() if getattr(kind, method) is getattr(OperatorSpec, method)
    ]
    assert silent == []
