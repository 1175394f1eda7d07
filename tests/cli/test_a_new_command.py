"""A new command is a file, and a function that is registered with the command line. This test adds
one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import rheos
from rheos.cli.main import app
from rheos.cli.options import (
    PASSES_ARGUMENTS_ON,
    Arguments,
    File,
    GivenSettings,
    ProgramArguments,
    takes_settings,
)
from tests.docs.test_cli import made

CLI = Path(rheos.__file__).parent / "cli"
SHARED = {"failures", "main", "options", "terminal", "waiting"}
"""Modules that are no commands, but are used by several."""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = [*app.registered_commands]

    @app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
    @takes_settings("parallelism", "state.backend")
    def weigh(
        file: File,
        settings: GivenSettings,
        arguments: Arguments = None,
        unit: Annotated[str, typer.Option(help="Unit of the weight.")] = "g",
    ) -> None:
        """Weigh a job file."""
        given = {name: value for name, value in settings.values.items() if value is not None}
        print(file, arguments or [], unit, given)
        print(settings.overrides().override_of("parallelism"))

    yield
    app.registered_commands[:] = before


def weigh(*arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["weigh", *arguments])
    return ran.exit_code, ran.stdout, ran.stderr


def test_a_new_command_has_its_own_options_and_settings(tmp_path: Path) -> None:
    assert weigh("job.py", "in.csv") == (0, "job.py ['in.csv'] g {}\nNone\n", "")
    given = ("--unit", "kg", "--parallelism", "auto:2..4", "--state-backend", "rocksdb")
    code, out, _ = weigh(*given, "job.py", "--", "--unit")
    assert (code, out.splitlines()) == (
        0,
        [
            "job.py ['--unit'] kg {'parallelism': 'auto:2..4', 'state.backend': 'rocksdb'}",
            "auto:2..4",
        ],
    )
    config = tmp_path / "job.toml"
    config.write_text("parallelism = 3\n")
    assert weigh("job.py", "--config", str(config))[1].endswith("\n3\n")


def test_a_new_command_refuses_invalid_options() -> None:
    assert weigh("job.py", "--parallelism", "none")[0] == 2
    assert weigh("job.py", "--state-backend", "redis")[0] == 2
    assert "Did you mean --unit?" in weigh("job.py", "--unitt=kg")[2]


def test_a_new_command_is_listed_in_help_and_docs() -> None:
    assert "Weigh a job file." in CliRunner().invoke(app, ["--help"]).stdout
    assert "## rheos weigh" in made()
    assert "| `--unit UNIT` | Unit of the weight. Default: `g`. |" in made()


def test_the_implementation_of_a_command_is_imported_only_where_it_is_registered() -> None:
    """Check that only the registering module imports it: a second one would be another place to change
    for a new command."""
    importing = re.compile(r"from rheos\.cli\.(\w+) import|from rheos\.cli import (\w+)")
    registering = {path.stem for path in CLI.glob("*.py") if "typer.Typer(" in path.read_text()}
    found: dict[str, set[str]] = {}
    for path in CLI.glob("*.py"):
        for names in importing.findall(path.read_text()):
            found.setdefault("".join(names), set()).add(path.stem)
    for name in found.keys() - SHARED - registering:
        users = found[name] & registering
        assert len(users) <= 1, (name, users)
