"""The programs of docs/duckdb.md: a job writes the table that others query."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "duckdb.md"


@pytest.mark.slow
def test_a_job_writes_a_table_that_another_program_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with applied(Overrides((from_command({"runtime": "simulated"}),))):
        for step in steps(PAGE):
            if step.file:
                exec(compile(step.code, step.file, "exec"), {})
    shown = capsys.readouterr().out
    assert "(3000,)" in shown
    assert "{'user': 'ada', 'page': 1, 'visits': 1000}" in shown
    assert "{'user': 'bob', 'page': 9, 'visits': None}] 3 pages" in shown
