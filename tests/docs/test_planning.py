"""The page on planning: its commands print what it shows, from a measurement of its job."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.cli.main import app
from rheos.ops.planning.measurement import decode_measurement
from rheos.ops.planning.sampled_plan import planned_chains, sampled_plan

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"
MEASUREMENT = Path(__file__).with_name("orders_measurement.json")
COMMAND = re.compile(r"```\n(rheos plan .*?)\n```\n(?:\n```\n(.*?)```)?", re.DOTALL)
TABLE = re.compile(r"```toml\n(.*?)```", re.DOTALL)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "orders.py", "orders.py")
    shutil.copy(EXAMPLES / "instances.toml", "instances.toml")
    shutil.copy(MEASUREMENT, "orders.json")


def test_the_commands_print_what_the_page_shows() -> None:
    commands = [each for each in COMMAND.findall(PAGE.read_text()) if "orders.json " in each[0]]
    stored = [each for each in commands if "--save" not in each[0]]
    assert len(stored) == 3
    for command, output in stored:
        done = CliRunner().invoke(app, command.split()[1:])
        assert done.exit_code == 0, done.output
        if output:
            assert [line.rstrip() for line in done.stdout.splitlines()] == output.splitlines()


def test_the_users_machines_replace_the_example() -> None:
    assert TABLE.findall(PAGE.read_text()) == [Path("instances.toml").read_text()]
    command = next(each for each, _ in COMMAND.findall(PAGE.read_text()) if "--instances" in each)
    done = CliRunner().invoke(app, command.split()[1:])
    assert "general-8" in done.stdout
    assert "EUR" in done.stdout
    assert "placeholders" not in done.stdout


def test_the_measurement_is_of_the_pages_job() -> None:
    plan = planned_program(Path("orders.py"), [], Overrides())
    measured = decode_measurement(MEASUREMENT.read_bytes(), MEASUREMENT.name).chains
    assert [(chain.name, chain.site) for chain in planned_chains(plan, {})] == [
        (chain.name, chain.site) for chain in measured
    ]
    assert "totals" not in [path.name for path in Path().iterdir()]
    assert [operator.name for operator in sampled_plan(plan).operators()][-1] == "totals"
