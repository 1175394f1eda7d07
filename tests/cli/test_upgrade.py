"""`rheos upgrade` and `rheos rollback` report missing requirements at once. tests/deploy tests how a
job is handed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.handover_turn import take_turn
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry

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


def test_two_commands_do_not_hand_a_job_over_at_once(tmp_path: Path) -> None:
    running = JobRecord(
        key=JobKey("k1"),
        job=JobId("numbers"),
        name="numbers",
        process=this_process(),
        runtime="continuous",
        checkpoint_dir=None,
        started_ms=0,
        endpoint="",
        token="",
    )
    Registry().add(running)
    with take_turn(running, "rheos upgrade numbers job_v2.py"):
        done = CliRunner().invoke(app, ["upgrade", "numbers", "job.py"])
    assert done.exit_code == 2
    assert "is being handed over already" in done.output
    assert "rheos upgrade numbers job_v2.py" in done.output
    # The first command has ended.
    done = CliRunner().invoke(app, ["upgrade", "numbers", "--runtime", "batch", "job.py"])
    assert "is being handed over already" not in done.output
