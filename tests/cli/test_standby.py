"""`rheos run --standby` reports missing requirements at once. tests/ops/control tests how it waits, and
tests/deploy how it behaves on hosts that are cut off."""

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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--runtime", "continuous"], "set a checkpoint directory that both drivers can access"),
        (["--runtime", "batch", "--checkpoint-dir", "kept"], "a batch job always starts anew"),
        (["--runtime", "simulated", "--checkpoint-dir", "kept"], "a simulated job always starts anew"),
    ],
)
def test_missing_requirements_are_reported_at_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(PROGRAM)
    done = CliRunner().invoke(app, ["run", "--standby", *options, "job.py"])
    assert done.exit_code == 2
    assert "job.py:6: --standby resumes" in done.output
    assert says in done.output
