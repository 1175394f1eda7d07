"""The command line: which options belong to Rheos, and which to the job."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rheos
from rheos.api.settings import SETTINGS
from rheos.cli.main import app
from rheos.runtimes.spark import early_start

PRINTS = """
import sys
from rheos.api import overrides
names = "parallelism", "master", "runtime", "checkpoint_dir", "checkpoint_interval"
print(*map(overrides.current().override_of, names), sys.argv[1:])
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
def test_unknown_options_are_passed_to_the_job(
    file: str, before: list[str], after: list[str], printed: str
) -> None:
    result = CliRunner().invoke(app, ["run", *before, file, *after])
    assert result.stdout == printed + "\n"


@pytest.mark.parametrize("command", ["run", "check", "chaos", "explain"])
def test_a_mistyped_option_is_not_passed_to_the_job(file: str, command: str) -> None:
    given = ["--from-savepoint", "s"] if command == "check" else []
    slip = CliRunner().invoke(app, [command, *given, file, "--paralelism=4"])
    assert slip.exit_code == 2
    assert "Did you mean --parallelism?" in slip.stderr


def test_options_after_the_dashes_are_never_refused(file: str) -> None:
    result = CliRunner().invoke(app, ["run", file, "--", "--form-savepoint", "s"])
    assert result.stdout.endswith("['--form-savepoint', 's']\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "job.py", "--parallelism", "0"],
        ["run", "job.py", "--parallelism", "many"],
        ["run", "job.py", "--parallelism", "auto:8..2"],
        ["bench", "sort"],
        ["explain", "j.py", "--format", "x"],
        ["run", "job.py", "--checkpoint-interval", "soon"],
        ["run", "job.py", "--unaligned-after", "1 parsec"],
        ["run", "job.py", "--state-memory", "lots"],
        ["chaos", "job.py", "--kill-every", "5"],
        ["savepoint", "shop", "--timeout", "-1s"],
    ],
)
def test_a_wrong_command_line_is_a_misuse(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_every_option_of_a_setting_reaches_the_program(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "from rheos.api import overrides\n"
        "from rheos.api.settings import SETTINGS\n"
        "print({name: said for name in SETTINGS if (said := overrides.current().override_of(name))})\n"
    )
    assert CliRunner().invoke(app, ["run", str(path)]).stdout == "{}\n"
    options = "--parallelism 2 --runtime batch --master local[2] --checkpoint-dir c"
    options += " --checkpoint-interval 5s --from-savepoint s --allow-dropped --min-parallelism 1"
    options += " --state-backend rocksdb --state-memory 512MB --unaligned-after 0s"
    options += " --max-concurrent-checkpoints 2 --at-least-once --log-level debug"
    options += " --alert-webhook https://a/b --alert-from failing --lineage-to https://c/d"
    options += " --new-aggregates since --rename a=b --rename c=d --restore-ahead"
    result = CliRunner().invoke(app, ["run", *options.split(), str(path)])
    assert ast.literal_eval(result.stdout) == {
        "parallelism": 2,
        "runtime": "batch",
        "master": "local[2]",
        "checkpoint_dir": "c",
        "checkpoint_interval": "5s",
        "from_savepoint": "s",
        "allow_dropped": True,
        "min_parallelism": 1,
        "state.backend": "rocksdb",
        "state.memory_bytes": 512 << 20,
        "checkpoints.unaligned_after": "0s",
        "checkpoints.max_concurrent": 2,
        "checkpoints.at_least_once": True,
        "log_level": "debug",
        "alert_webhook": "https://a/b",
        "alert_from": "failing",
        "lineage_to": "https://c/d",
        "new_aggregates": "since",
        "renamed": {"a": "b", "c": "d"},
        "restore_ahead": True,
    }
    with_option = {each.name for each in SETTINGS.values() if each.option}
    assert set(ast.literal_eval(result.stdout)) == with_option


def test_options_have_precedence_over_a_file_of_settings(tmp_path: Path) -> None:
    job, config = tmp_path / "job.py", tmp_path / "job.toml"
    job.write_text(PRINTS)
    config.write_text('parallelism = 3\nmaster = "local[9]"\n')
    given = ["run", str(job), "--config", str(config), "--parallelism", "2"]
    assert CliRunner().invoke(app, given).stdout == "2 local[9] None None None []\n"


@pytest.mark.parametrize("command", ["run", "explain", "check", "chaos"])
def test_a_wrong_file_of_settings_is_a_misuse_with_its_line(
    command: str, file: str, tmp_path: Path
) -> None:
    config = tmp_path / "job.toml"
    config.write_text("parallelism = 2\n\nparalelism = 3\n")
    given = ["--from-savepoint", "s"] if command == "check" else []
    result = CliRunner().invoke(app, [command, *given, "--config", str(config), file])
    assert result.exit_code == 2
    assert result.stderr == (
        f"{config}:3: unknown setting 'paralelism'\n  what to do: write parallelism\n"
    )


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


def test_help_shows_the_whole_first_sentence_of_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"})
    assert "Commands:" in result.stdout
    commands = result.stdout.partition("Commands:")[2]
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    version, form = result.stdout.splitlines()
    assert (result.exit_code, version) == (0, f"rheos {rheos.__version__}")
    assert form.startswith(("small batches: native", "small batches: pure Python ("))


def test_run_starts_the_jvm_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str, str]] = []
    monkeypatch.setattr(early_start, "start", lambda *said: told.append(said))
    program, config = tmp_path / "job.py", tmp_path / "job.toml"
    program.write_text("pass")
    config.write_text('master = "local[2]"\nruntime = "batch"')
    for options in ([], ["--config", str(config)], ["--config", str(config), "--runtime", "simulated"]):
        CliRunner().invoke(app, ["run", *options, str(program)])
    CliRunner().invoke(app, ["run", str(tmp_path / "no such file.py")])
    assert told == [
        ("pass", "auto", "local"),
        ("pass", "batch", "local[2]"),
        ("pass", "simulated", "local[2]"),
    ]


def test_ctrl_c_while_python_imports_shows_no_trace(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that Ctrl-C while Python imports modules prints no traceback; the JVM is starting then."""
    from rheos.runtimes.spark import early_start

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(early_start, "start", pressed)
    result = CliRunner().invoke(app, ["run", file])
    assert (result.exit_code, result.output) == (130, "cancelled\n")
