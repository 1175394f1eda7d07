"""`rheos check --compiled`: its output, and its exit codes."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.core.compiler import operator_writer

pytest.importorskip("numba")

PROGRAM = """
from dataclasses import dataclass

import rheos as rh


@dataclass
class Order:
    user: str
    flags: int


def toggle(order: Order) -> Order:
    return Order(order.user, order.flags ^ 4)


print("the program prints")
env = rh.Environment()
given = [Order("u", at) for at in range(6)]
orders = env.from_source(rh.collection(given, schema=Order), name="orders")
orders.map(toggle).sink_to(rh.print_sink())
env.execute("toggles")
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "job.py"
    file.write_text(PROGRAM)
    return str(file)


def test_forms_that_agree(program: str) -> None:
    result = CliRunner().invoke(app, ["check", program, "--compiled", "--rows", "5"])
    assert result.exit_code == 0, result.output
    place = f"{program}:21: map(toggle)"
    assert result.stdout.splitlines() == [
        "the program prints",
        f"{place}: toggle: both forms agree for 5 rows",
        "functions: 1 agree, 0 differ, 0 received no row, 0 not compiled; read 5 rows of orders",
    ]


def test_forms_that_differ(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operator_writer._BITS, ast.BitXor, "|")
    result = CliRunner().invoke(app, ["check", program, "--compiled"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[2:] == [
        "  record: {'user': 'u', 'flags': 4}",
        "  output, interpreted: {'user': 'u', 'flags': 0}",
        "  output, compiled: {'user': 'u', 'flags': 4}",
        "functions: 0 agree, 1 differ, 0 received no row, 0 not compiled; read 6 rows of orders",
    ]
    result = CliRunner().invoke(app, ["check", program, "--compiled", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["good"]
    [operator] = found["operators"]
    assert operator["difference"]["record"] == "{'user': 'u', 'flags': 4}"


@pytest.mark.parametrize("options", [[], ["--compiled", "--from-savepoint", "savepoint"]])
def test_one_of_the_two_checks_is_named(program: str, options: list[str]) -> None:
    result = CliRunner().invoke(app, ["check", program, *options])
    assert result.exit_code == 2
    assert "either --from-savepoint or --compiled" in result.output
