"""The programs of docs/lancedb.md: a job writes vectors that another program looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "lancedb.md"


@pytest.mark.slow
def test_a_job_writes_vectors_that_another_program_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    with applied(Overrides((from_command({"runtime": "simulated"}),))):
        for step in steps(PAGE):
            if step.file:
                exec(compile(step.code, step.file, "exec"), {})
    assert "['heavy rain']" in capsys.readouterr().out
