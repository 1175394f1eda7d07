"""The command line: what is an option of ours, and what is the job's."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app

PRINTS = """
import sys
from rheos.api import overrides
o = overrides.current()
print(o.parallelism, o.master, o.runtime, o.checkpoint_dir, o.checkpoint_interval, sys.argv[1:])
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(PRINTS)
    return str(path)


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [
        ([], [], "None None None None None []"),
        (["--parallelism", "2"], ["in.csv"], "2 None None None None ['in.csv']"),
        (
            [],
            ["in.csv", "--runtime", "batch", "--quick"],
            "None None batch None None ['in.csv', '--quick']",
        ),
        ([], ["--out", "o", "-v"], "None None None None None ['--out', 'o', '-v']"),
        ([], ["--", "--parallelism", "9"], "None None None None None ['--parallelism', '9']"),
        (
            ["--master", "local[3]", "--checkpoint-dir", "c", "--checkpoint-interval", "5s"],
            [],
            "None local[3] None c 5s []",
        ),
    ],
)
def test_options_that_are_not_ours_go_to_the_job(
    file: str, before: list[str], after: list[str], printed: str
) -> None:
    result = CliRunner().invoke(app, ["run", *before, file, *after])
    assert (result.exit_code, result.stdout) == (0, printed + "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "job.py", "--parallelism", "0"],
        ["bench", "sort"],
        ["explain", "j.py", "--format", "x"],
    ],
)
def test_a_wrong_command_line_is_a_misuse(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize("command", ["run", "explain", "bench"])
def test_each_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
