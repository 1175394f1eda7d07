"""`rheos upgrade --compare` hands a job over only if the output of both programs is the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.cli import upgrade_comparison
from rheos.cli.main import app
from rheos.cli.upgrade_comparison import (
    Ask,
    ComparedOutputs,
    CompareRequest,
    compare_before_upgrade,
    compared_outputs,
)
from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.started_program import program_of
from rheos.runtimes.job import CommandSettings
from tests.ops.forks.stopped_job import FORBIDDEN, PROGRAM, digest, stopped, write_input


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobRecord]:
    """Register a record as if a driver ran a job, whose input continues after its checkpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    Path("job.py").write_text(PROGRAM)
    write_input("1", ("ada", 5, 1), ("bob", 1, 12), ("ada", 2, 13))
    stopped("job.py")
    write_input("2", ("ada", 4, 14), ("bob", 7, 15), ("ada", 1, 21), ("bob", 1, 35))
    Path("job.py").write_text(FORBIDDEN)
    Path("job_v2.py").write_text(FORBIDDEN.replace('"least": 0', '"least": 2'))
    record = JobRecord(
        key=JobKey("k1"),
        job=JobId("orders"),
        name="orders",
        process=this_process(),
        runtime="continuous",
        checkpoint_dir=str(Path("kept").absolute()),
        started_ms=0,
        endpoint="",
        token="",
        program=program_of(Path("job.py").absolute(), [], {}),
    )
    Registry().add(record)
    yield record
    Registry().remove(record)


def request(file: str = "job_v2.py", *allowed: str) -> CompareRequest:
    return CompareRequest(
        file=str(Path(file).absolute()),
        arguments=[],
        parameters={},
        config=None,
        options={},
        length="30ms",
        allowed=list(allowed),
        against=None,
        allow_dropped=False,
        new_aggregates=None,
        renamed={},
    )


def answering(*differing: str, rows: int = 4) -> Ask:
    return lambda job, request: ComparedOutputs(rows=rows, differing=list(differing))


# --- the decision -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differing", "allowed", "code"),
    [
        ([], [], 0),
        (["windows"], [], 3),
        (["windows"], ["windows"], 0),
        (["bad", "windows"], ["windows"], 3),
    ],
)
def test_only_allowed_differences_permit_the_handover(
    running: JobRecord,
    capsys: pytest.CaptureFixture[str],
    differing: list[str],
    allowed: list[str],
    code: int,
) -> None:
    found = compare_before_upgrade("orders", request("job_v2.py", *allowed), answering(*differing))
    assert found == code
    shown = capsys.readouterr().err
    assert ("was not handed over" in shown) == bool(code)
    assert (f"--allow-differences {','.join(differing)}" in shown) == bool(code)


def test_a_comparison_without_input_permits_nothing(
    running: JobRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_before_upgrade("orders", request(), answering(rows=0)) == 2
    assert "received no row within 30ms" in capsys.readouterr().err


@pytest.mark.parametrize("changed", ["the job", "the file"])
def test_a_program_that_changes_during_the_comparison_permits_nothing(
    running: JobRecord, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    def ask(job: str, request: CompareRequest) -> ComparedOutputs:
        if changed == "the file":
            Path("job_v2.py").write_text(FORBIDDEN)
        else:
            other = program_of(Path("job_v2.py").absolute(), [], {})
            Registry().add(msgspec.structs.replace(running, program=other))
        return ComparedOutputs(rows=1, differing=[])

    assert compare_before_upgrade("orders", request(), ask) == 2
    assert "during the comparison" in capsys.readouterr().err


# --- the comparison -----------------------------------------------------------------------------------


def test_the_command_shows_the_differences_and_does_not_upgrade(
    running: JobRecord, capfd: pytest.CaptureFixture[str]
) -> None:
    before = digest(Path("kept"))
    done = CliRunner().invoke(app, ["upgrade", "orders", "job_v2.py", "--compare", "30ms"])
    assert done.exit_code == 3, done.output
    shown = capfd.readouterr().err
    assert "windows, the first of 1 differences:" in shown
    assert "the programs begin to differ at" in shown
    assert "the output differs in windows, so the job 'orders' was not" in done.output
    assert digest(Path("kept")) == before


def test_arguments_and_parameters_are_those_of_the_command(running: JobRecord) -> None:
    program = msgspec.structs.replace(running.program, parameters={"least": "2"})  # type: ignore[type-var]
    Registry().add(msgspec.structs.replace(running, program=program))
    # The changed file has the same value as the job's parameter.
    assert compared_outputs("orders", request()) == {"rows": 4, "differing": []}
    # The parameter of the job is not one of the changed program.
    assert compared_outputs("orders", request("job.py"))["differing"] == ["windows"]


def test_an_unknown_sink_is_refused_before_input_is_read(running: JobRecord) -> None:
    with pytest.raises(ConfigurationError, match=r"a sink 'others'\n.*: the sinks are bad, windows"):
        compared_outputs("orders", request("job_v2.py", "windows", "others"))


def test_a_killed_process_is_a_failed_comparison(
    running: JobRecord, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kills = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr(upgrade_comparison, "REPLAY_COMMAND", kills)
    assert compare_before_upgrade("orders", request()) == 1
    assert "ended without an answer" in capsys.readouterr().err


def test_a_process_that_takes_too_long_is_a_failed_comparison(
    running: JobRecord, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sleeps = (sys.executable, "-c", "import time; time.sleep(600)")
    monkeypatch.setattr(upgrade_comparison, "REPLAY_COMMAND", sleeps)
    monkeypatch.setattr(upgrade_comparison, "_MORE_SECONDS", 0)
    assert compare_before_upgrade("orders", request()) == 1
    assert "the comparison took longer than" in capsys.readouterr().err


def test_options_of_the_comparison_need_it() -> None:
    done = CliRunner().invoke(app, ["upgrade", "orders", "job.py", "--allow-differences", "windows"])
    assert (done.exit_code, "need --compare" in done.output) == (2, True)


def with_settings(running: JobRecord, command: CommandSettings) -> None:
    """Record the settings of the job's command."""
    program = program_of(Path("job.py").absolute(), [], {}, command)
    Registry().add(msgspec.structs.replace(running, program=program))


def test_each_program_has_the_settings_of_its_command(
    running: JobRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint has 128 key groups, so a program with other settings cannot read it."""
    Path("job.toml").write_text("max_parallelism = 64\n")
    file = CommandSettings(str(Path("job.toml").absolute()))
    with_settings(running, file)
    with pytest.raises(CheckpointError, match="the program has 64"):
        compared_outputs("orders", request())
    # Options override the file.
    with_settings(running, CommandSettings(file.file, {"max_parallelism": 128}))
    assert compared_outputs("orders", request())["differing"] == ["windows"]
    changed = msgspec.structs.replace(request(), config=file.file)
    with pytest.raises(CheckpointError, match="the program has 64"):
        compared_outputs("orders", changed)
    assert compare_before_upgrade("orders", changed, answering()) == 0
    assert "the setting max_parallelism of the job's command was 128, and now is not set" in (
        capsys.readouterr().err
    )
    Path("job.toml").write_text("max_parallelism = 32\n")
    with pytest.raises(ConfigurationError, match="have changed since"):
        compared_outputs("orders", request())


def test_a_changed_file_that_does_not_exist_is_refused(running: JobRecord) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        compared_outputs("orders", request("missing.py"))


def test_the_settings_of_a_command_contain_no_credentials(running: JobRecord) -> None:
    Path("job.toml").write_text("max_parallelism = 64\n")
    given = {"checkpoint_dir": "s3://key:secret@bucket/a", "parallelism": 2, "renamed": {"a": "b"}}
    settings = (partial_settings.from_file("job.toml"), partial_settings.from_command(given))
    found = Overrides(settings=settings).command_settings
    assert found.file == str(Path("job.toml").absolute())
    assert found.options == {"parallelism": 2, "renamed": {"a": "b"}}
