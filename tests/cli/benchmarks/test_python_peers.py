"""The programs of other systems for Python follow the same rules as that of Rheos."""

import ast
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import python_peer
from rheos.cli.benchmarks import state_machine

PROGRAMS = ("bytewax_program.py", "pyflink_program.py")


def constants(program: str) -> dict[str, Any]:
    """Return the literal constants of a program, which may import what is not installed here."""
    source = (Path(python_peer.__file__).parent / program).read_text()
    values = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return values


@pytest.mark.parametrize("program", PROGRAMS)
def test_rules_are_those_of_the_benchmark(program: str) -> None:
    found = constants(program)
    assert found["RULES"] == state_machine.RULES
    assert found["INITIAL"] == state_machine.INITIAL
    assert found.get("TOUR", state_machine.TOUR) == state_machine.TOUR
