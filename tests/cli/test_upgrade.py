"""`rheos upgrade` and `rheos rollback` report missing requirements at once. tests/deploy tests how a
job is handed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app

PROGRAM = """
import rheos as rh

env = rh.Environment(parallelism=1)
env.from_source(rh.generator(lambda block: {"n": block.index()}, count=1)).collect("rows")
env.execute("numbers")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("job.py").write_text(PROGRAM)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--runtime", "continuous"], "set the checkpoint directory of the running job"),
        (["--runtime", "batch", "--checkpoint-dir", "kept"], "this is a batch job"),
        (["--runtime", "continuous", "--checkpoint-dir", "kept"], "no job 'numbers' is running"),
    ],
)
def test_missing_requirements_are_reported_at_their_line(options: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["upgrade", "numbers", *options, "job.py"])
    assert done.exit_code == 2
    assert "job.py:6: " in done.output
    assert says in done.output


def test_a_job_that_does_not_run_cannot_be_rolled_back() -> None:
    done = CliRunner().invoke(app, ["rollback", "numbers"])
    assert done.exit_code == 2
    assert "no job 'numbers' is running" in done.output
