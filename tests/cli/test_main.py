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


@pytest.mark.parametrize("command", ["run", "check", "chaos", "explain"])
def test_an_option_of_ours_with_a_slip_is_not_taken_for_one_of_the_job(file: str, command: str) -> None:
    given = ["--from-savepoint", "s"] if command == "check" else []
    slip = CliRunner().invoke(app, [command, *given, file, "--paralelism=4"])
    assert slip.exit_code == 2
    assert "Is --parallelism meant?" in slip.stderr


def test_behind_the_dashes_nothing_is_a_slip(file: str) -> None:
    result = CliRunner().invoke(app, ["run", file, "--", "--form-savepoint", "s"])
    assert result.stdout.endswith("['--form-savepoint', 's']\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "job.py", "--parallelism", "0"],
        ["bench", "sort"],
        ["explain", "j.py", "--format", "x"],
        ["run", "job.py", "--checkpoint-interval", "soon"],
        ["run", "job.py", "--unaligned-after", "1 sec"],
        ["run", "job.py", "--state-memory", "lots"],
        ["chaos", "job.py", "--kill-every", "5"],
        ["savepoint", "shop", "--timeout", "-1s"],
    ],
)
def test_a_wrong_command_line_is_a_misuse(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_every_option_of_run_reaches_the_program(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "from rheos.api import overrides\n"
        "o = overrides.current()\n"
        "print(o.from_savepoint, o.allow_dropped, o.min_parallelism, o.state_backend,\n"
        "      o.state_memory_bytes, o.unaligned_after, o.max_concurrent_checkpoints,\n"
        "      o.at_least_once)\n"
    )
    assert CliRunner().invoke(app, ["run", str(path)]).stdout == " ".join(["None"] * 8) + "\n"
    options = "--from-savepoint s --allow-dropped --min-parallelism 1 --state-backend rocksdb"
    options += " --state-memory 512MB --unaligned-after 0s --max-concurrent-checkpoints 2"
    result = CliRunner().invoke(app, ["run", *options.split(), "--at-least-once", str(path)])
    assert result.stdout == f"s True 1 rocksdb {512 << 20} 0s 2 True\n"


def test_a_wrong_size_is_a_misuse(file: str) -> None:
    result = CliRunner().invoke(app, ["run", file, "--state-memory", "much"])
    assert result.exit_code == 2
    assert "'much' is not a size" in result.stderr


@pytest.mark.parametrize(
    "command",
    ["run", "explain", "bench", "jobs", "checkpoints", "savepoint", "stop", "cancel"],
)
def test_each_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
