"""The job of docs/mysql.md, on a real server, in the simulated runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.mysql.databases import new_database
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "mysql.md"


def test_the_job_of_the_page_runs(
    mariadb_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = new_database(mariadb_server)
    [table] = [part.split("```")[0].strip() for part in PAGE.read_text().split("```sql\n")[1:]]
    database.run(table, "INSERT INTO orders VALUES (1, 'ada', 150), (2, 'bob', 200), (3, 'ada', 25)")
    monkeypatch.setenv("SHOP", database.url)
    [job] = [step.code for step in steps(PAGE) if step.file == "spent.py"]
    exec(job.replace("rh.Environment(", 'rh.Environment(runtime="simulated", '), {})
    printed = capsys.readouterr().out
    assert "175" in printed
    assert "200" in printed
